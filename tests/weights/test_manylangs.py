"""ELMoForManyLangs: the vectors of its network, computed in NumPy float64; faulty files."""

import json
import pickle
import zipfile

import numpy as np
import pytest
import torch_writer
from damage import accepted
from manylangs_model import SENTENCES, expected, write_model
from reference import assert_close

import convert
from elmo import ELMo, ELMoEmbedder
from elmo_core.messages import UserError
from elmo_core.weights.pickles import read_torch


@pytest.mark.parametrize(("word_dim", "char_dim"), [(7, 5), (7, 0), (0, 5)])
@pytest.mark.parametrize("old", [False, True])
def test_vectors_are_those_of_the_original(tmp_path, word_dim, char_dim, old):
    tokens, encoder = write_model(tmp_path / "zhs", word_dim, char_dim, old)
    convert.main(["import", str(tmp_path / "zhs"), f"--output={tmp_path / 'out'}"])
    expected_vectors = [expected(tokens, encoder, sentence) for sentence in SENTENCES]
    for batch_size in (1, 64):
        found = ELMoEmbedder(tmp_path / "out", batch_size=batch_size).encode(SENTENCES)
        assert_close(found, expected_vectors)
    (mixed,), _ = ELMo(tmp_path / "out", dropout=0.0)(SENTENCES)
    np.testing.assert_allclose(mixed.numpy()[1, :5], expected_vectors[1].mean(axis=0), atol=1e-5)


def test_a_configuration_beside_or_shipped(tmp_path):
    write_model(tmp_path / "gone")
    (tmp_path / "gone" / "cnn_x.json").unlink()
    with pytest.raises(UserError, match=r"cnn_x\.json"):
        convert.main(["import", str(tmp_path / "gone"), f"--output={tmp_path / 'none'}"])
    shipped = {"config_path": "configs/cnn_50_100_512_4096_sample.json"}
    (tmp_path / "gone" / "config.json").write_text(json.dumps(shipped), encoding="utf-8")
    # the numbers are known: these weights are smaller
    with pytest.raises(UserError, match="expected"):
        convert.main(["import", str(tmp_path / "gone"), f"--output={tmp_path / 'none'}"])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("char.dic", "a\tb\tc\n", "char.dic:1"),
        ("word.dic", "a\t1\nb\tx\n", "word.dic:2"),
        ("word.dic", None, "word.dic"),
        ("char.dic", "a\t1\n", "<bos>"),
        ("config.json", "{", "config.json"),
        ("cnn_x.json", '{"encoder": 3}', "cnn_x.json"),
        ("encoder.pkl", None, "encoder.pkl"),
    ],
)
def test_a_faulty_file_is_named(tmp_path, name, content, place):
    write_model(tmp_path / "zhs")
    path = tmp_path / "zhs" / name
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=place):
        convert.main(["import", str(tmp_path / "zhs"), f"--output={tmp_path / 'out'}"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("old", [False, True])
def test_damage_is_found_or_changes_numbers_only(tmp_path, old):
    """Neither format has a checksum of the numbers.

    Whatever is changed, nothing but a UserError comes out.
    """
    path = tmp_path / "weights.pkl"
    torch_writer.save({"a": np.arange(12.0).reshape(3, 4), "b": np.ones(2)}, path, old)
    assert read_torch(path)["a"].tolist() == np.arange(12.0).reshape(3, 4).tolist()
    results = list(accepted(path, lambda: read_torch(path), times=600))
    assert results


class Evil:
    def __reduce__(self):
        return print, ("code was run",)


@pytest.mark.parametrize("old", [False, True])
def test_no_code_is_run(tmp_path, capsys, old):
    path = tmp_path / "weights.pkl"
    content = pickle.dumps(Evil(), protocol=2)
    if old:
        before = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
        path.write_bytes(b"".join(pickle.dumps(part, 2) for part in before) + content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a/data.pkl", content)
    with pytest.raises(UserError, match="print"):
        read_torch(path)
    assert "code was run" not in capsys.readouterr().out
