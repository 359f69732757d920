"""The Python of README.md and of docs/, run from the first block to the last in a folder like a user's."""

import re

import pytest
import runs
import tiny

import run_embed
from elmo_core.machine.runtime import paddle


def blocks(language: str = "") -> list[str]:
    """The Python of the pages, without its remarks."""
    pages = [f"{name}{language}.md" for name in ("README", "docs/files", "docs/tagger")]
    text = "".join((runs.PROJECT / page).read_text(encoding="utf-8") for page in pages)
    return [re.sub(r" *#.*", "", block) for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What the commands of README.md have made by then: two checkpoints, vectors of a text and of a vocabulary.

    Two published models are here already, so that nothing is fetched.
    """
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    for name in ("allennlp-small", "manylangs-zhs"):
        tiny.save(tiny.random_bilm(), tmp_path / "home" / "models" / name, "final")
    for name in ("10000", "sample/final"):
        path = tmp_path / "checkpoints" / name
        tiny.save(tiny.random_bilm(), path.parent, path.name)
    (tmp_path / "sentences.txt").write_text("The first sentence .\n" * 9, encoding="utf-8")
    words = ["<S>", "</S>", "The", "first", "sentence", ".", "Second", "one"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(runs.PROJECT / "LAC_demo"))
    for flags in (
        ["--input=sentences.txt", "--output=vectors.hdf5"],
        ["--vocab=vocab.txt", "--output=vocab_vectors.hdf5"],
    ):
        run_embed.main(["--init_from_ckpt=checkpoints", "--device=cpu", *flags])
    return tmp_path


def test_the_python_of_the_readme_does_what_it_says(folder, capsys):
    from bilm import elmo_encoder, init_pretraining_params

    encoding, predicting, network, published, reading, fixed, tagger = blocks()
    width = 2 * tiny.CHAR["projection_dim"]
    space = {"n_tags": 5, "elmo_encoder": elmo_encoder, "init_pretraining_params": init_pretraining_params}
    exec(encoding, space)
    assert capsys.readouterr().out == "(3, 4, 256)\n(3, 3, 256)\n"
    exec(predicting, space)
    assert capsys.readouterr().out in (runs.PROJECT / "README.md").read_text(encoding="utf-8")
    exec(network, space)
    assert space["vectors"].shape == [2, 4, width] and space["mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert space["logits"].shape == [2, 4, 5]
    exec(published, space)
    assert space["vectors"][0].shape == (3, 3, width)
    exec(reading, space)
    assert space["index"] == {"The first sentence .": "8"} and space["file"]["7"].shape == (3, 4, width)
    space["file"].close()
    exec(fixed, space)
    assert [array.shape for array in space["embedder"].encode(space["sentences"])] == [(3, 4, width), (3, 3, width)]
    exec(tagger, {**space, "word_embedding": paddle.ones([2, 4, 6])})


def test_both_languages_have_the_same_python():
    assert blocks("_zh") == blocks()
