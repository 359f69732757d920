"""The corpus that `pretrain` makes of a user's text, in the folder of the run."""

import json
from pathlib import Path
from typing import Any

from elmo_core.config import differences
from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.corpus import Corpus
from elmo_tools.preprocessing.counting import count_vocabulary
from elmo_tools.preprocessing.given_text import GivenText
from elmo_tools.preprocessing.raw_text import PreprocessingSettings, write_parts
from elmo_tools.pretraining.run_folder import CORPUS

SOURCE = "source.json"  # what the corpus was made of
VOCABULARY = "vocab.txt"
RAW = "text.txt"  # until it is tokenised, what was not in files


def make(
    save_dir: Path,
    text: GivenText,
    settings: PreprocessingSettings,
    is_resumed: bool,
    allow_changes: bool = False,
    processes: int = 1,
    shown: bool = True,
) -> Path:
    """Tokenise the text and count its vocabulary, unless that is there. Returns the folder.

    is_resumed: a run there continues, and the text must be its own, unless changes are allowed.
    shown: bars, in a terminal or notebook.
    """
    folder = save_dir / CORPUS
    before = _source(folder)
    if before is not None and text.is_iterator and is_resumed:
        raise UserError(
            f"`text` is an iterator, of which nobody can tell whether it is the text of {folder}. "
            "Give a list or files to `resume=True`."
        )
    if before is not None and not text.is_iterator:
        changes = differences(before, _values(settings, text.digest()))
        if not changes:
            log.info(f"corpus        as before: {folder}")
            return folder
        if is_resumed and not allow_changes:
            raise UserError(
                f"{folder} was made of other text, or otherwise: {'; '.join(changes.values())}. "
                "Give the same, another `save_dir`, or `allow_changes=True`."
            )
    with disk.atomic_folder(folder, overwrite=True) as temporary:
        _fill(temporary, text, settings, processes=processes, shown=shown)
    return folder


def corpora(folder: Path) -> tuple[Corpus, Corpus | None]:
    """The text for training, and the held-out text if there is some."""
    dev = folder / "dev"
    return Corpus(folder / "train"), Corpus(dev) if dev.exists() else None


def _source(folder: Path) -> dict[str, Any] | None:
    """What a corpus was made of; None if there is none. Raises if it is another folder."""
    if (folder / SOURCE).is_file():
        return disk.read_json(folder / SOURCE, "what a corpus was made of")
    if folder.exists():
        disk.check_output_folder("the corpus of this run:", folder)
    return None


def _values(settings: PreprocessingSettings, digest: str) -> dict[str, Any]:
    values = {**settings.to_dict(), "text": f"SHA-256 {digest[:12]}"}
    return json.loads(json.dumps(values))


def _fill(
    folder: Path, text: GivenText, settings: PreprocessingSettings, processes: int, shown: bool
) -> None:
    """Write train/, dev/, vocab.txt and what they were made of."""
    paths, digest = text.write(folder / RAW)
    report = write_parts(paths, folder, settings, processes=processes, shown=shown)
    (folder / RAW).unlink(missing_ok=True)
    train = sorted((folder / "train").iterdir())
    vocabulary, said = count_vocabulary(train, settings.min_count, settings.max_size, shown=shown)
    vocabulary.save(folder / VOCABULARY)
    disk.write_json(folder / SOURCE, _values(settings, digest))
    for part in report.shards:
        sentences = format_count(report.sentences[part], "sentences")
        log.info(f"{part:<13} {sentences}, {format_count(report.tokens[part], 'tokens')}")
    log.info(f"left out      {report.reasons or 'nothing'}")
    log.info(f"vocabulary    {said}")
