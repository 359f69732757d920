"""The card of a model, and the notice that goes with its weights.

    README.md    the card: what the model is, its licence, and whom to name
    NOTICE.md    the cards of other models, if the weights come from theirs

Whatever is made of a model's weights gets the model's card and notice as its own notice.
"""

from collections.abc import Iterable
from pathlib import Path

from elmo_core.files import disk
from elmo_core.files.tensors import digest
from elmo_core.messages import log

CARD = "README.md"
NOTICE = "NOTICE.md"
BEGINNING = (
    "The weights in this folder are those of the following models, or were trained from them. "
    "Their licences and attributions apply.\n\n"
)
# The last line of what is replaced with a trained model, before a digest.
SIGNATURE = "\n<!-- Written with the model, and replaced with it unless edited: "


def notice_of(folder: Path) -> str:
    """The notice of weights that come from the model in this folder: its card and its notice.

    A card that a training wrote, and nobody has edited, is left out: it states no licence.
    """
    texts = [read(folder / NOTICE).removeprefix(BEGINNING)]
    if not is_unedited(folder / CARD):
        texts.insert(0, read(folder / CARD))
    return joined(texts)


def joined(texts: Iterable[str]) -> str:
    """The texts, one after the other, without those that repeat an earlier one."""
    whole = ""
    for text in texts:
        stripped = text.strip()
        if stripped not in whole:
            whole = f"{whole}\n{stripped}\n".lstrip()
    return whole


def write_notice(folder: Path, notice: str) -> None:
    """Write a notice in a new folder, unless it is empty."""
    if notice:
        with disk.atomic_write(folder / NOTICE) as file:
            file.write(BEGINNING + notice)


def read(path: Path) -> str:
    """The text of a card or notice, without its signature; empty if there is none."""
    text = _content(path)
    return text.partition(SIGNATURE)[0] if is_unedited(path) else text


def is_unedited(path: Path) -> bool:
    """Whether `replace` wrote the file, and nobody has edited it."""
    text = _content(path)
    before, _, _ = text.partition(SIGNATURE)
    return text == _signed(before)


def replace(path: Path, text: str) -> None:
    """Write a card or notice, or remove it if it is empty, unless a user wrote or edited it."""
    if path.exists() and not is_unedited(path):
        if path.name == NOTICE and text and path.is_file():
            log.warning(f"{path} is yours and stays. Add what the model's weights owe to others.")
        return
    if text:
        with disk.atomic_write(path) as file:
            file.write(_signed(text))
    else:
        path.unlink(missing_ok=True)


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _signed(text: str) -> str:
    """The text with a digest, by which a later `replace` knows it."""
    return f"{text}{SIGNATURE}{digest([text.encode()])} -->\n"
