"""Published models by name, from well-behaved and faulty servers, all on 127.0.0.1."""

import io
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import foreign
import manylangs_model
import numpy as np
import pytest
import tiny
from damage import accepted
from project import PROJECT
from server import Server

import convert
import elmo
import run_embed
from elmo import ELMo, ELMoEmbedder, load_bilm
from elmo_core.messages import UserError
from elmo_core.weights import checkpoint, formats, model_files, published
from elmo_tasks.inputs import PretrainedELMo

SENTENCES = [["the", "river", "bank"]]
SMALL = "allennlp-small"


@pytest.fixture
def server(server, tmp_path, monkeypatch):
    """A mirror; models are kept in a folder of the test's own."""
    server.etags = True
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ELMO_MIRROR", server.address)
    monkeypatch.setenv("RETRY_SECONDS", "0")
    monkeypatch.setattr(published, "BUNDLED", tmp_path / "bundled")
    return server


@pytest.fixture(scope="module")
def fakes(tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """A tiny model's files: {format: {ending: content}}."""
    folder = tmp_path_factory.mktemp("fakes")
    foreign.write_bilm(folder / "bilm", foreign.options_of({}, {}))
    foreign.write_fluid(folder / "fluid" / "baike_elmo_checkpoint")
    manylangs_model.write_model(folder / "zhs.model")
    foreign.write_softmax(folder / "softmax_weights.hdf5")
    options = (folder / "bilm/options.json").read_bytes()
    weights = (folder / "bilm/weights.hdf5").read_bytes()
    inside = {
        "model.hdf5": weights,
        "options.json": options,
        "vocab.txt.gz": b"not read",
        "meta.json": b"{}",
    }
    many = {path.name: path.read_bytes() for path in (folder / "zhs.model").iterdir()}
    archived = tarred(folder / "bilm", "gz")
    cuts = [len(archived) * k // 4 for k in range(5)]
    parts = {f".part-0{k}": archived[cuts[k] : cuts[k + 1]] for k in range(4)}
    return {
        "bilm-tf": {
            "options.json": options,
            ".hdf5": weights,
            ".zip": zipped(inside),
            **parts,
            "softmax_weights.hdf5": (folder / "softmax_weights.hdf5").read_bytes(),
            ".txt": (folder / "bilm/vocab.txt").read_bytes(),
            ".tar.gz": archived,
        },
        "manylangs": {".zip": zipped(many), ".tar.bz2": tarred(folder / "zhs.model", "bz2")},
        "fluid": {
            ".tar.gz": tarred(folder / "fluid" / "baike_elmo_checkpoint", "gz"),
            "vocab": vocabulary(folder),
        },
    }


def vocabulary(folder: Path) -> bytes:
    return (folder / "fluid" / "vocab.txt").read_bytes()


def zipped(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def tarred(folder: Path, how: str) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=f"w:{how}") as archive:
        archive.add(folder, folder.name)
    return target.getvalue()


def serve(server: Server, fakes: dict, name: str = SMALL) -> list[str]:
    """Give the server what the files of a model are to be. Returns their addresses there."""
    model = published.table()[name]
    names = []
    for addresses in model.addresses:
        names.append(addresses[-1].removeprefix("https://").removeprefix("http://"))
        ending = max(filter(names[-1].endswith, fakes[model.format]), key=len)
        server.files[names[-1]] = fakes[model.format][ending]
    return names


def width(embedder: ELMoEmbedder) -> tuple:
    return embedder.encode(SENTENCES)[0].shape


def leftovers(home: Path) -> set[str]:
    return {path.name for path in (home / "models").iterdir() if path.suffix != ".lock"}


FETCHED = [model for model in published.table().values() if model.format != "bundled"]
SHARE_A_SERVER = {
    model.name for model in FETCHED if model.files.startswith("http://vectors.nlpl.eu")
}
EXAMPLES = {"manylangs-english", "rusvectores-195", "nlpl-218"}  # of those


@pytest.mark.parametrize(
    "name", sorted({model.name for model in FETCHED} - SHARE_A_SERVER | EXAMPLES)
)
def test_a_model_in_its_published_form_is_fetched_and_read(name, server, fakes, tmp_path, no_fsync):
    model = published.table()[name]
    local_files = []
    serve(server, fakes, name)
    if model.format == "fluid":
        with pytest.raises(UserError, match="vocabulary_min5k"):
            published.install(name)
        local_files = [tmp_path / "vocabulary_min5k.txt"]
        local_files[0].write_bytes(fakes["fluid"]["vocab"])
    elif not model.files:
        with pytest.raises(UserError, match="11356/1277"):
            published.install(name)
        local_files = [tmp_path / "croatian-elmo.tar.gz"]
        local_files[0].write_bytes(fakes["bilm-tf"][".tar.gz"])
    prefix = published.install(name, local_files)
    assert prefix == tmp_path / "home" / "models" / name
    assert model_files.read_model(name)[1].projection_dim == {"manylangs": 6}.get(model.format, 7)
    assert leftovers(tmp_path / "home") == {name, *([f"{name}.sha256"] if model.files else [])}
    notice = (prefix / "NOTICE.md").read_text(encoding="utf-8")
    assert name in notice and f"Licence: {model.licence or 'not stated'}" in notice
    assert (model.source or model.addresses[0][0]) in notice
    if name.endswith("-lm"):
        assert ELMoEmbedder(name).substitutes(SENTENCES[0], 0, 1)[0][0] in foreign.WORDS


def test_models_are_listed_without_a_network(server, capsys):
    assert [model.name for model in elmo.models(language="german")] == [
        "t-systems-de",
        "manylangs-german",
    ]
    assert [model.name for model in elmo.models("eu")] == ["schweter-eu", "manylangs-basque"]
    assert not any(model.is_installed for model in elmo.models()) and "German" in repr(
        elmo.models("de")[0]
    )
    convert.main(["list", "--language=German"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][::2] == [
        "name",
        "manylangs-german",
    ]
    convert.main(["list", "--language=zh"])
    (*_, ready_made) = capsys.readouterr().out.splitlines()
    assert ready_made.split()[:4] == ["zh-lac", "tagger", "Chinese", "(zh)"]  # without ELMo
    assert [model.name for model in elmo.models("Norwegian Bokmål")] == [
        "manylangs-norwegian-bokmal"
    ]
    with pytest.raises(UserError, match="Klingon"):
        convert.main(["list", "--language=Klingon"])
    assert not server.requests


def test_the_table_itself(monkeypatch):
    """Addresses are complete, and a mirror replaces them."""
    for model in FETCHED:
        assert (model.files or model.note) and not model.licence.startswith("http"), model.name
        for addresses in model.addresses:
            assert all(re.match(r"https?://[^/ ]+/.*\w$", address) for address in addresses)
    monkeypatch.setenv("ELMO_MIRROR", "https://mirror.example/elmo/")
    assert published.mirrored("http://host/a/b.zip") == "https://mirror.example/elmo/host/a/b.zip"


def test_a_name_is_taken_wherever_a_path_is(server, fakes, tmp_path, monkeypatch, capsys):
    serve(server, fakes)
    monkeypatch.chdir(tmp_path)
    assert width(ELMoEmbedder(SMALL)) == (3, 3, 14)
    assert ELMo(SMALL)(SENTENCES)[0][0].shape == [1, 3, 14]
    assert len(server.requests) == 2  # once, and never again
    Path("text").write_text("the river bank\n", encoding="utf-8")
    run_embed.main(
        [f"--init_from_ckpt={SMALL}", "--input=text", "--output=vectors.hdf5", "--device=cpu"]
    )
    convert.main(["export", SMALL, "--output=exported"])
    convert.main(["list"])
    here = [line for line in capsys.readouterr().out.splitlines() if line.endswith("yes")]
    assert [line.split()[0] for line in here] == [SMALL]
    shutil.copytree(tmp_path / "home" / "models" / SMALL, SMALL)  # a path that exists wins
    assert model_files.resolve_name(SMALL) == Path(SMALL)
    with pytest.raises(UserError, match=f"Did you mean .*{SMALL}"):
        ELMoEmbedder("allennlp-smal")


def test_a_published_model_may_be_a_link_to_another_disk(tmp_path, monkeypatch):
    """By whatever name it has there: a task's folder names the model, and does not copy it."""
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    tiny.save(tiny.random_bilm(), tmp_path / "disk/weights")
    (tmp_path / "home/models").mkdir(parents=True)
    (tmp_path / "home/models" / SMALL).symlink_to(tmp_path / "disk/weights")
    assert published.install(SMALL) == tmp_path / "home/models" / SMALL
    assert PretrainedELMo.load(SMALL).name == SMALL
    tiny.save(tiny.random_bilm(), tmp_path / "disk" / SMALL)
    assert PretrainedELMo.load(tmp_path / "disk" / SMALL).name is None


def test_a_bundled_model_is_found_from_any_folder(tmp_path, monkeypatch, capsys):
    """Rounded to float16, half the size, and loaded as float32."""
    bilm = tiny.random_bilm()
    whole = tiny.save(bilm, tmp_path / "whole")
    monkeypatch.setattr(published, "BUNDLED", tmp_path / "bundled")
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    convert.main(["half", whole, f"--output={tmp_path / 'bundled' / 'zh'}"])
    monkeypatch.chdir(tmp_path / "whole")
    Path("zh").mkdir()  # a corpus of the user's, which is no model
    convert.main(["list"])
    assert [
        line.split()[0] for line in capsys.readouterr().out.splitlines() if line.endswith("yes")
    ] == ["zh"]

    loaded, vocabulary = load_bilm("zh", softmax=True)
    assert vocabulary.tokens == tiny.WORDS
    for name, weight in loaded.state_dict().items():
        expected = bilm.state_dict()[name].numpy().astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(weight.numpy(), expected, strict=True)
    stored = tmp_path / "bundled" / "zh" / "model.safetensors"
    n = sum(weight.size for weight in bilm.state_dict().values())
    assert 2 * n < stored.stat().st_size < 2 * n + 200 * len(bilm.state_dict())
    exact = ELMoEmbedder(whole).encode(SENTENCES)[0]
    rounded = ELMoEmbedder("zh").encode(SENTENCES)[0]
    assert 0 < np.abs(exact - rounded).max() < 0.01 and rounded.dtype == np.float32


def test_what_a_server_does_wrong_is_named(server, fakes, tmp_path):
    _, weights = serve(server, fakes)

    def refused(word: str) -> None:
        with pytest.raises(UserError) as error:
            published.install(SMALL)
        text = str(error.value)
        assert word in text and weights in text and "--from" in text and "elmo.install" in text, (
            text
        )
        assert not leftovers(tmp_path / "home")

    server.lies[weights] = 100
    refused("")
    server.lies.clear()
    server.status = [404]
    refused("404")
    server.shutdown()
    server.server_close()
    refused("refused")


def test_a_damaged_file_is_fetched_again(server, fakes, tmp_path):
    _, weights = serve(server, fakes)
    server.files[weights] = server.files[weights][:-2000]
    with pytest.raises(UserError, match="weights"):
        published.install(SMALL)
    assert not leftovers(tmp_path / "home")
    serve(server, fakes)
    published.install(SMALL)


def test_a_broken_download_is_resumed(server, fakes):
    server.etags = False
    _, weights = serve(server, fakes)
    server.break_after = [10**9, 1000]
    published.install(SMALL)
    assert server.gets[1:] == [(weights, None), (weights, "bytes=1000-")]


def test_another_file_than_the_first_time_is_refused(server, fakes, tmp_path):
    options, _ = serve(server, fakes)
    home = published.install(SMALL)
    shutil.rmtree(home)
    server.files[options] += b"\n"
    with pytest.raises(UserError, match="SHA256"):
        published.install(SMALL)
    assert not home.exists()
    server.files[options] = server.files[options].rstrip()
    assert checkpoint.exists(published.install(SMALL))


def test_the_proxy_of_the_environment_is_used(server, fakes, monkeypatch):
    for name in serve(server, fakes):
        server.files[f"http://mirror.invalid/{name}"] = server.files.pop(name)
    monkeypatch.setenv("ELMO_MIRROR", "http://mirror.invalid")
    monkeypatch.setenv("http_proxy", server.address)
    published.install(SMALL)
    assert len(server.gets) == 2


def test_the_next_address_is_tried(server, fakes, tmp_path, monkeypatch):
    name = "manylangs-zhs"
    serve(server, fakes, name)  # at the second address only
    published.install(name)
    first = published.table()[name].addresses[0][0]
    assert server.gets[0][0] == first.partition("://")[2]


def test_two_processes_fetch_once(server, fakes):
    serve(server, fakes)
    server.stalls = [1.0]
    program = f"from elmo_core.weights import published\nprint(published.install({SMALL!r}))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    assert len(server.requests) == 2 and outputs[0][0] == outputs[1][0]


@pytest.mark.parametrize("how", ["files", "folder", "archive"])
def test_files_brought_by_hand(how, server, fakes, tmp_path, capsys):
    files = {
        "my_options.json": fakes["bilm-tf"]["options.json"],
        "w.hdf5": fakes["bilm-tf"][".hdf5"],
    }
    (tmp_path / "local_files").mkdir()
    for name, content in files.items():
        (tmp_path / "local_files" / name).write_bytes(content)
    (tmp_path / "files.zip").write_bytes(zipped(files))
    local_files = {
        "files": [tmp_path / "local_files" / name for name in files],
        "folder": [tmp_path / "local_files"],
        "archive": [tmp_path / "files.zip"],
    }
    convert.main(["get", SMALL, "--from"] + [str(path) for path in local_files[how]])
    assert checkpoint.exists(Path(capsys.readouterr().out.strip())) and not server.requests
    assert width(ELMoEmbedder(SMALL)) == (3, 3, 14)
    assert (tmp_path / "local_files" / "w.hdf5").exists()


def test_what_is_brought_must_be_the_models(server, fakes, tmp_path):
    (tmp_path / "options.json").write_bytes(fakes["bilm-tf"]["options.json"])
    with pytest.raises(UserError, match="hdf5"):
        published.install(SMALL, [tmp_path / "options.json"])
    with pytest.raises(UserError, match="gone"):
        published.install(SMALL, [tmp_path / "gone"])
    assert not server.requests and (tmp_path / "options.json").exists()


def test_nlpls_zips_and_folders_are_imported(server, fakes, tmp_path):
    (tmp_path / "195.zip").write_bytes(fakes["bilm-tf"][".zip"])
    zipfile.ZipFile(tmp_path / "195.zip").extractall(tmp_path / "195")
    for source in ("195", "195.zip"):
        convert.main(["import", str(tmp_path / source), f"--output={tmp_path / 'out' / source}"])
        assert width(ELMoEmbedder(tmp_path / "out" / source)) == (3, 3, 14)
    (tmp_path / "zhs.tar.bz2").write_bytes(fakes["manylangs"][".tar.bz2"])
    convert.main(["import", str(tmp_path / "zhs.tar.bz2"), f"--output={tmp_path / 'zhs'}"])
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".")} == set()


@pytest.mark.parametrize("kind", [".zip", ".tar.bz2"])
def test_a_damaged_archive_is_an_error_or_nothing(kind, fakes, tmp_path):
    """Whatever is changed, nothing but a UserError comes out, or a whole model."""
    path = tmp_path / "archive"
    path.write_bytes(fakes["manylangs"][kind])
    formats.read_foreign([path], tmp_path)
    assert len(list(accepted(path, lambda: formats.read_foreign([path], tmp_path), times=120))) < 60
    assert {path.name for path in tmp_path.iterdir()} == {"archive"}


def test_files_given_for_a_model_that_is_there_are_not_read(tmp_path, messages):
    assert published.install("en", tmp_path) == published.table()["en"].folder
    assert "en is in" in messages()
