"""The picture of surprisal: its words, its format, and what to do without Matplotlib."""

import importlib
from unittest import mock

import numpy as np
import pytest

from elmo import ELMoEmbedder, UserError, load_bilm, plot_surprisal
from elmo_core.encoding.surprisal import Surprisals, TokenSurprisal


def records(*words: tuple[str, float, float, bool]) -> Surprisals:
    """Return words, each with its bits forward and backward, and whether it is known."""
    return Surprisals(
        TokenSurprisal(
            token=text,
            forward=forward,
            backward=backward,
            forward_entropy=1.5,
            backward_entropy=2.5,
            forward_rank=3,
            backward_rank=4000,
            in_vocabulary=known,
        )
        for text, forward, backward, known in words
    )


END = ("</S>", 1.0, 2.0, True)


def test_the_picture_shades_the_words(tmp_path):
    from matplotlib.image import imread

    dark = 1 - 0.7 * (1 - np.array([0x00, 0x72, 0xB2]) / 255)

    def painted(*words) -> tuple[float, bool, bool]:
        """Height; whether something is as dark as can be, and black in a straight line."""
        plot_surprisal(tmp_path / "a.PNG", records(*words, END))
        image = imread(tmp_path / "a.PNG")[:, :, :3]
        black = (image < 0.1).all(axis=2)
        return (
            len(image),
            (np.abs(image - dark) < 0.01).all(axis=2).any(),
            (black[:, 3:] & black[:, :-3]).any(),
        )

    word = ("word", 1.0, 2.0, True)
    low, is_dark, _ = painted(word)
    assert is_dark is np.False_
    assert painted(("word", 1.0, 99.0, True))[1]
    high = painted(*[word] * 40)[0]
    assert high > low + 60, "the words are not on more lines"
    assert painted(("$x_", 1.0, 2.0, False), ("w" * 500, 0.0, 0.0, True))[0] < 2 * low


@pytest.mark.parametrize(
    ("name", "begins"), [("a.svg", b"<?xml"), ("a.PDF", b"%PDF"), ("a.eps", b"%!PS")]
)
def test_the_pictures_name_tells_its_format(tmp_path, name, begins):
    plot_surprisal(
        tmp_path / name, records(("word", 1.0, 2.0, False), ("银行", 1.0, 99.0, True), END)
    )
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_without_matplotlib_one_message_says_how_to_get_it(tmp_path, monkeypatch):
    missing = ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
    monkeypatch.setattr(importlib, "import_module", mock.Mock(side_effect=missing))
    with pytest.raises(UserError, match="pip install matplotlib") as error:
        plot_surprisal(tmp_path / "a.png", records(END))
    assert error.value.__cause__ is None  # one message, without another traceback above it


def test_mistakes(model, tmp_path):
    with pytest.raises(UserError, match=r"a\.doc.*\.svg"):
        plot_surprisal(tmp_path / "a.doc", [])
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="surprisal"):
        plot_surprisal(tmp_path / "a.png", [["a"]])
    with pytest.raises(UserError, match="softmax"):
        ELMoEmbedder(load_bilm(model)).surprisal([["a"]])
