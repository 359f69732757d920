"""The pages: their commands and their Python are run, their links lead somewhere, both languages
have the same.

The published commands are run as they stand but for the device, on small data of the published
form: those of the pages in RUN, and those of PaddleNLP's README, which our users come from. Flags
at their end make the model tiny and the run short. Those of the other pages must be known to the
scripts.
"""

import ast
import dataclasses
import gzip
import importlib
import inspect
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runs
import tiny
from project import PROJECT, commands, parser_of, parsers, python_blocks

import elmo
import elmo_tools
import run_embed
import run_eval
from elmo_core.encoding.surprisal import Surprisals
from elmo_core.weights import checkpoint
from elmo_tasks import ClassifierSettings, ParserSettings, ReaderSettings, TaggerSettings
from elmo_tasks.classification.classifier import Classifier
from elmo_tasks.classification.score import ClassifierScore
from elmo_tasks.reading.reader import Reader
from elmo_tasks.tagging.tagger import Tagger
from elmo_tasks.tagging.text import Span

PAGES = [
    "README.md",
    "LAC_demo/README.md",
    "MRC_demo/README.md",
    *sorted(f"docs/{path.name}" for path in PROJECT.glob("docs/*.md") if "_zh" not in path.name),
]
READMES = ["data/README.md"]
EXAMPLES = PROJECT / "elmo_tools" / "experiments" / "examples"
RUN = [["docs/pretraining.md", "docs/cluster.md"], ["docs/embedding.md"]]
PADDLENLP = """
python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py --train_data_path='./1-billion-word/training-tokenized-shuffled/*' --vocab_file='./1-billion-word/vocab-15w.txt' --save_dir='./checkpoints' --device='gpu'
python run_eval.py --dev_data_path='./1-billion-word/heldout-tokenized-shuffled/*' --vocab_file='./1-billion-word/vocab-15w.txt' --init_from_ckpt='./checkpoints/10000' --device='gpu'
python -m paddle.distributed.launch --gpus '0' word2vec_base.py --data_dir='./sentence-polarity-dataset-v1/' --pretrained_word2vec_file='./sentence-polarity-dataset-v1/GoogleNews-vectors-negative300.bin' --device='gpu'
python -m paddle.distributed.launch --gpus '0' run_finetune.py --data_dir='./sentence-polarity-dataset-v1/' --init_from_ckpt='./checkpoints/10000' --device='gpu'
"""  # noqa: E501
TINY = {
    "run_pretrain.py": "--model_size=tiny --cell_dim=13 --projection_dim=6 --filters=1:4,2:7 "
    "--batch_size=5 --unroll_steps=7 --n_negative_samples=11 --max_steps=4",
    "word2vec_base.py": "--epochs=1",
    "run_tag.py": "--epochs=1",
}
OTHERS_TEST = (
    "bash run.sh",
    "pip install",
    "MASTER=",
    "HOST=",
    "FIRST=",
    "export ",
    "srun ",
)  # .ci/run, test_wheel.py, test_cluster.py


UNITS = {"M": 1e6, "million": 1e6, "billion": 1e9, "万": 1e4, "亿": 1e8}


def numbers(text: str) -> set[float]:
    """The numbers that no language spells out: fractions, and those above twelve."""
    text = re.sub(r"\]\([^)]*\)|^```(?:bash|python).*?^```", "", text, flags=re.S | re.M)
    found = re.findall(
        rf"(?<![\w.])(\d+(?:,\d{{3}})*)(\.\d+)?(?: ?({'|'.join(UNITS)})(?![A-Za-z]))?", text
    )
    values = {
        float(whole.replace(",", "") + part) * UNITS.get(unit, 1) for whole, part, unit in found
    }
    return {round(value, 9) for value in values if value > 12 or value % 1}


@pytest.mark.parametrize("page", PAGES)
def test_both_languages_have_the_same_commands_and_numbers(page):
    """Except for examples in Chinese."""
    chinese = page.replace(".md", "_zh.md")
    for line, translated in zip(commands(page), commands(chinese), strict=True):
        scripts = [re.findall(r"\S+\.py|&&|\|", text) for text in (line, translated)]
        assert line == translated or (
            re.search('[\u4e00-\u9fff]|[="]zh\\b', translated) and scripts[0] == scripts[1]
        )
    texts = [(PROJECT / name).read_text(encoding="utf-8") for name in (page, chinese)]
    assert numbers(texts[0]) == numbers(texts[1].replace(chinese_example(), ""))


@pytest.mark.parametrize(
    "card", sorted(PROJECT.glob("elmo_core/models/*/README.md")), ids=lambda card: card.parent.name
)
def test_the_figures_of_a_card_are_those_of_the_pages(card):
    names = ("models", "results-models", "language-model", "reading", "noise")
    pages = [(PROJECT / f"docs/{name}.md").read_text(encoding="utf-8") for name in names]
    assert numbers(card.read_text(encoding="utf-8")) <= numbers("".join(pages)) | {2018}


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    sorted([*PROJECT.glob("*.md"), *PROJECT.glob("[!.]*/*.md"), *PROJECT.glob("docs/*.ipynb")]),
    ids=lambda page: page.name,
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target


@pytest.mark.parametrize(
    "page", [PROJECT / page.replace(".md", "_zh.md") for page in PAGES], ids=lambda page: page.name
)
def test_chinese_pages_link_to_chinese_pages(page):
    _, text = page.read_text(encoding="utf-8").split("[English]", 1)  # its own English page
    for target in re.findall(r"\]\((?!https?:)([^)\s#]+)\.md", text.partition(")")[2]):
        assert target.endswith("_zh") or not (page.parent / f"{target}_zh.md").exists(), target


@pytest.mark.parametrize("readme", [*PAGES, *READMES])
def test_the_commands_of_the_pages_parse(readme, monkeypatch, capsys):
    """The shell understands them, and every call of a script has flags that the script takes."""
    subprocess.run(["bash", "-n"], input="\n".join(commands(readme)), text=True, check=True)
    folders = [(PROJECT / readme).parent, PROJECT, PROJECT / "LAC_demo", EXAMPLES]
    for line in commands(readme):
        if line.startswith("cp "):
            continue
        line = line.replace(
            "--allow_changes'", "--allow_changes"
        )  # the end of the script for Slurm
        for script, rest in re.findall(r"(?:^|\s)((?:\w+/)*\w+\.py)\b(.*)", line):
            (path, *_) = [folder / script for folder in folders if (folder / script).is_file()] or [
                None
            ]
            assert path, f"{script} in: {line}"
            if "parser(" in path.read_text(encoding="utf-8"):
                try:
                    parser_of(path, monkeypatch).parse_args(shlex.split(rest.partition("|")[0]))
                except SystemExit:
                    pytest.fail(f"{line}: {capsys.readouterr().err}")


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """The flags of all scripts, of the shell scripts, and of the programs that the pages run."""
    found = {"--host", "--master", "--gpus", "--nproc_per_node", "--backend", "--signal"}
    found |= {"--help", "--system"}
    for path in PROJECT.glob("*.sh"):
        found.update(re.findall(r"--[a-z]+", path.read_text(encoding="utf-8")))
    with pytest.MonkeyPatch.context() as patch:
        for path in (
            *PROJECT.glob("*.py"),
            *PROJECT.glob("*_demo/*.py"),
            *PROJECT.glob("benchmarks/*.py"),
            *EXAMPLES.glob("*.py"),
        ):
            if "parser(" in (text := path.read_text(encoding="utf-8")) and "__main__" in text:
                for parser in parsers(parser_of(path, patch)):
                    found.update(
                        flag for action in parser._actions for flag in action.option_strings
                    )
    return found


@pytest.mark.parametrize(
    "name", [*PAGES, *(page.replace(".md", "_zh.md") for page in PAGES), *READMES]
)
def test_the_flags_that_a_text_names_are_those_of_scripts(name, flags):
    text = re.sub(
        r"^ *```.*?^ *```", "", (PROJECT / name).read_text(encoding="utf-8"), flags=re.S | re.M
    )
    named = {
        flag
        for code in re.findall(r"`([^`\n]+)`", text)
        for flag in re.findall(r"--[a-z][a-z_0-9]+", code)
    }
    assert named <= flags


def test_run_eval_prints_what_the_page_shows(model, tmp_path, capsys):
    (tmp_path / "text").write_text("the unknown bank\n" * 2, encoding="utf-8")
    run_eval.main(
        [f"--init_from_ckpt={model}", f"--dev_data_path={tmp_path / 'text'}", "--device=cpu"]
    )
    printed, *pages = (
        re.sub(r"[\d.,]+%?", "0", text)
        for text in (
            capsys.readouterr().out,
            *((PROJECT / f"docs/pretraining{page}.md").read_text("utf-8") for page in ("", "_zh")),
        )
    )
    assert [page.count(printed) for page in pages] == [1, 1]


def run(line: str, folder: Path) -> None:
    """A command line in a folder of its user's; in this process, if it is a script's without the
    launcher.
    """
    words = shlex.split(
        line.replace("--device=gpu", "--device=cpu").replace("--device='gpu'", "--device=cpu")
    )
    at = next((k for k, word in enumerate(words) if word.endswith(".py")), None)
    if at is None:
        subprocess.run(["bash", "-ec", line], cwd=folder, check=True)
        return
    script, argv = words[at], words[at + 1 :]
    if argv[0] not in ("predict", "evaluate"):
        argv += shlex.split(TINY.get(script, ""))
    if script == "run_pretrain.py":
        argv.append("--max_steps=6" if "--init_from_ckpt" in line else "--overwrite")
    launcher = words[1:at]
    if not launcher:
        importlib.import_module(script.removesuffix(".py")).main(argv)
        return
    if "--gpus" in launcher:
        gpus = launcher.index("--gpus")
        n = len(launcher[gpus + 1].split(","))
        launcher[gpus : gpus + 2] = ["--nproc_per_node", str(n), "--backend", "gloo"]
    command = [
        sys.executable,
        *launcher,
        "--log_dir",
        str(folder / "log"),
        str(PROJECT / script),
        *argv,
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    logs = "".join(
        path.read_text(encoding="utf-8") for path in (folder / "log").glob("workerlog.*")
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}{logs}"


@pytest.mark.slow
def test_paddlenlps_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus, reviews = Path("1-billion-word"), Path("sentence-polarity-dataset-v1")
    for folder, files in (("training-tokenized-shuffled", 4), ("heldout-tokenized-shuffled", 1)):
        (corpus / folder).mkdir(parents=True)
        for k in range(files):
            text = "\n".join(runs.sentences(40, seed=k)) + "\n"
            (corpus / folder / f"news.en-{k:05}-of-00100").write_text(text, encoding="utf-8")
    (corpus / "vocab-15w.txt").write_text("\n".join(["the", *runs.WORDS]) + "\n", encoding="utf-8")
    reviews.mkdir()
    for kind, start in (("pos", 0), ("neg", 20)):
        text = "".join(f"{word} café is {word} .\n" for word in runs.WORDS[start : start + 20])
        (reviews / f"rt-polarity.{kind}").write_text(text, encoding="latin-1")
    vectors = np.random.default_rng(0).standard_normal((len(runs.WORDS), 5)).astype(np.float32)
    content = b"".join(
        word.encode() + b" " + row.tobytes() for word, row in zip(runs.WORDS, vectors, strict=True)
    )
    with gzip.open(reviews / "GoogleNews-vectors-negative300.bin.gz", "wb") as file:
        file.write(f"{len(vectors)} 5\n".encode() + content)

    pretrain, *rest = PADDLENLP.strip().splitlines()
    run(pretrain, tmp_path)
    last = checkpoint.resolve("checkpoints/final")
    last.rename(last.with_name("10000"))  # stands for the one after 10,000 steps
    for line in rest:
        run(line, tmp_path)


def run_commands(pages: list[str], folder: Path) -> None:
    lines = [line for page in pages for line in commands(page)]
    for line in lines:
        if not line or line.startswith(OTHERS_TEST) or "--nnodes" in line:
            continue
        if "--output=vectors.hdf5" in line:  # one file, made in several ways
            Path("vectors.hdf5").unlink(missing_ok=True)
        run(line, folder)


@pytest.mark.slow
def test_the_commands_of_the_readme_in_a_clone(tmp_path, monkeypatch):
    """In their order, with nothing but what a clone has."""
    monkeypatch.chdir(tmp_path)
    for name in ("data", "docs"):
        Path(name).symlink_to(PROJECT / name)
    run_commands(["README.md"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("pages", RUN, ids=" ".join)
def test_the_commands_of_pages(pages, readers_folder):
    run_commands(pages, readers_folder)
    if (log := Path("checkpoints/log.jsonl")).exists():
        reference = (
            (PROJECT / "docs/reference.md").read_text(encoding="utf-8").partition("## log.jsonl")[2]
        )
        fields = {
            field
            for line in log.read_text(encoding="utf-8").splitlines()
            for field in json.loads(line)
        }
        assert fields <= set(re.findall(r"`(\w+)`", reference))


def chinese_example() -> str:
    """The section of README_zh.md that README.md does not have."""
    (section,) = re.findall(
        r"^## 一个词，两种意思\n(.*?)^## ",
        (PROJECT / "README_zh.md").read_text("utf-8"),
        re.M | re.S,
    )
    return section


def test_the_python_of_the_readme_does_what_it_says(readers_folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (readers_folder / "LAC_demo").symlink_to(PROJECT / "LAC_demo")
    tiny.save(tiny.random_bilm(), readers_folder / "checkpoints" / "sample" / "7")
    checkpoint.write_names(readers_folder / "checkpoints" / "sample", {"final": 7})
    flags = "--init_from_ckpt=checkpoints --device=cpu --input=sentences.txt --output=vectors.hdf5"
    run_embed.main(flags.split())
    ready, encoding, network, _, own, published, reading, similar, of_texts, tagger = [
        block
        for page in ("README.md", "docs/embedding.md", "LAC_demo/README.md")
        for block in python_blocks(page)
    ]
    exec(ready, {})
    assert capsys.readouterr().out in (PROJECT / "docs/parsing.md").read_text(encoding="utf-8")
    width, space = 2 * tiny.CHAR["projection_dim"], {}
    exec(encoding, space)
    assert capsys.readouterr().out == "(3, 4, 256)\n(3, 3, 256)\n"
    exec(network, space)
    assert space["vectors"].shape == [2, 4, 256] and space["mask"].tolist() == [
        [1, 1, 1, 1],
        [1, 1, 1, 0],
    ]
    assert space["logits"].shape == [2, 4, 5]
    Path("raw").mkdir(exist_ok=True)
    text = "\n".join(f"This is sentence {k} of a little text." for k in range(40))
    Path("raw/little.txt").write_text(text, encoding="utf-8")
    exec(own.replace("small", "tiny").replace("raw/*", "raw/little"), space)
    assert space["embedder"].encode([["A", "text"]])[0].shape == (3, 2, 128)
    space |= {"text": "One sentence. And another."}
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    inline = [
        code
        for code in re.findall(r"`([^`\n]+)`", readme)
        if re.match(r"[\w, =.]+\(\S|from .* import |\[", code)
    ]
    assert len(inline) > 4
    for code in inline:
        exec(code, space)
    exec(published, space)
    assert space["vectors"][0].shape == (3, 6, width)
    exec(reading, space)
    assert space["index"] == {"The first sentence .": "8"} and space["file"]["7"].shape == (
        3,
        4,
        width,
    )
    space["file"].close()
    exec(similar, space)
    page = (PROJECT / "docs/embedding.md").read_text(encoding="utf-8")
    assert f"# {capsys.readouterr().out}" in page
    exec(of_texts, space)
    assert f"# {capsys.readouterr().out}" in page and space["cosines"].shape == (10, 10)
    exec(tagger, {})


@pytest.mark.filterwarnings("ignore:Glyph")  # matplotlib may have no Chinese font
@pytest.mark.parametrize("page", ["docs/finetune.md", "docs/finetune_zh.md"])
def test_the_python_of_classification_does_what_it_says(page, tmp_path, monkeypatch):
    """Where a comment is a value, that of the code before it."""
    monkeypatch.chdir(tmp_path)
    space = {}
    for block in python_blocks(page):
        exec(block, space)
    text = (PROJECT / page).read_text(encoding="utf-8")
    shown = re.findall(r'^(\w.*?)  # (["\[].*)$', text, re.M)
    assert len(shown) == 4
    for code, comment in shown:
        found = eval(code, space)
        if isinstance(found, np.ndarray):
            found = found.round(2).tolist()
        assert found == ast.literal_eval(re.split(", as |，", comment)[0])


@pytest.mark.ranks
def test_the_python_of_paddle_training_does_what_it_says(tmp_path, monkeypatch):
    """Each program in a process of its own, the last where this project cannot be imported."""
    monkeypatch.chdir(tmp_path)
    data, fit, parallel, mixed, save, loaded = python_blocks("docs/paddle-training.md")
    Path("reviews.py").write_text("\n".join([data, fit, mixed, save]), encoding="utf-8")
    process = runs.start(str(tmp_path / "reviews.py"), [], tmp_path / "output")
    assert process.wait(timeout=120) == 0, (tmp_path / "output").read_text(encoding="utf-8")
    page = (PROJECT / "docs/paddle-training.md").read_text(encoding="utf-8")
    assert "1.0" in (tmp_path / "output").read_text(encoding="utf-8").splitlines()
    assert '["acc"])  # 1.0\n' in page
    done = subprocess.run(
        [sys.executable, "-I", "-c", loaded], capture_output=True, text=True, check=True
    )
    assert f"# {done.stdout}" in page
    Path("parallel.py").write_text(f'{parallel}print("trained", float(loss))\n', encoding="utf-8")
    processes = runs.start_ranks(str(tmp_path / "parallel.py"), [], tmp_path)
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    for rank in range(2):
        assert "trained" in (tmp_path / f"rank{rank}").read_text(encoding="utf-8")


def test_the_reference_has_the_names_of_the_code():
    """Each function and method that it writes with its parameters has these, and each class's table
    has all parameters.
    """
    text = (PROJECT / "docs/reference.md").read_text(encoding="utf-8")
    owners = [
        elmo,
        elmo_tools,
        elmo.ELMoEmbedder,
        elmo.ELMo,
        Surprisals,
        Tagger,
        Span,
        Classifier,
        ClassifierScore,
        Reader,
    ]
    for name, listed in re.findall(r"`(\w+)\(([\w, =.]*)\)`", text.replace("`elmo(", "`forward(")):
        found = [getattr(owner, name) for owner in owners if hasattr(owner, name)]
        signatures = [inspect.signature(function) for function in found if callable(function)]
        parameters = set(re.findall(r"(\w+)(?:=[\w.]+)?(?:, |$)", listed))
        assert any(parameters <= set(signature.parameters) for signature in signatures), name
    for kind in (elmo.ELMoEmbedder, elmo.ELMo):
        table = text.partition(f"### {kind.__name__}\n")[2].partition("\n\n`")[0]
        rows = re.findall(r"^\|(.*?)\| ", table, re.M)
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {
            *inspect.signature(kind).parameters
        } - {"params"}
    rows = re.findall(r"^\| `(\w+)` \|", text.partition("## Python: elmo_tools")[2], re.M)
    parameters = inspect.signature(elmo_tools.pretrain).parameters
    assert rows[: len(parameters)] == list(parameters)


@pytest.mark.parametrize("language", ["", "_zh"])
def test_the_reference_has_the_settings_and_their_defaults(language):
    text = (PROJECT / f"docs/reference{language}.md").read_text(encoding="utf-8")
    rows = {
        name: cells
        for name, *cells in re.findall(r"^\| `(\w+)`" + r" \| (.*?)" * 4 + r" \| .+\|$", text, re.M)
    }
    for k, settings in enumerate(
        (TaggerSettings, ClassifierSettings, ReaderSettings, ParserSettings)
    ):
        defaults = {
            field.name: f"`{field.default!r}`".replace("'", '"')
            for field in dataclasses.fields(settings)
        }
        assert {name: cells[k] for name, cells in rows.items() if cells[k]} == defaults


@pytest.mark.parametrize("language", ["", "_zh"])
def test_the_reference_has_our_environment_variables(language):
    paths = [*PROJECT.glob("*.sh"), *PROJECT.glob("elmo_core/**/*.py")]
    named = {
        name
        for path in paths
        for name in re.findall(r"\bELMO_[A-Z_]+", path.read_text(encoding="utf-8"))
    }
    assert named <= set(
        re.findall(
            r"`(\w+)`", (PROJECT / f"docs/reference{language}.md").read_text(encoding="utf-8")
        )
    )


def test_the_messages_of_the_questions_are_those_of_the_code():
    page = (PROJECT / "docs/faq.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| message \|.*?\n\n", page, re.M | re.S)
    messages = re.findall(r"^\| `(.*?)` \|", "".join(tables), re.M)
    code = "".join(path.read_text(encoding="utf-8") for path in PROJECT.glob("[!.]*/**/*.py"))
    code = re.sub(r'"\n\s*f?"', "", code)  # texts over several lines
    assert len(tables) == 1 and all(
        message in code + (PROJECT / "setup.sh").read_text("utf-8") for message in messages
    )


def test_the_lengths_that_are_left_out_are_those_of_the_readme(monkeypatch):
    flags = parser_of(PROJECT / "preprocess.py", monkeypatch).parse_args(
        ["text", "raw.txt", "--lang=en", "--output=corpus"]
    )
    readme = " ".join((PROJECT / "README.md").read_text(encoding="utf-8").split())
    assert f"of fewer than {flags.min_tokens} or more than {flags.max_tokens} tokens" in readme


@pytest.mark.parametrize("page", PAGES)
def test_both_languages_have_the_same_python(page):
    """Except for examples in Chinese."""
    chinese = [
        code
        for code in python_blocks(page.replace(".md", "_zh.md"))
        if code.strip() not in chinese_example()
    ]
    for code, translated in zip(python_blocks(page), chinese, strict=True):
        assert code.strip() == translated.strip() or re.search(
            '[\u4e00-\u9fff]|[="]zh\\b', translated
        )


@pytest.mark.parametrize(("page", "model"), [("README.md", "en"), ("README_zh.md", "zh")])
def test_the_words_that_the_readme_shows_are_those_that_fit_best(page, model):
    text = " ".join((PROJECT / page).read_text(encoding="utf-8").split())
    code, shown = re.search(
        r"`(embedder\.substitutes\(.*?\))`[^`]*?[:：]([^`:：.。]+)[.。]", text
    ).groups()
    words = [word for word, _ in eval(code, {"embedder": elmo.ELMoEmbedder(model)})]
    assert re.split(r"[, 、]+", shown.strip()) == words[:5]


def test_the_chinese_example_prints_what_it_shows(capsys):
    ready, example, *_ = python_blocks("README_zh.md")
    exec(ready, {})
    assert f"# {capsys.readouterr().out}" in (PROJECT / "README_zh.md").read_text(encoding="utf-8")
    exec(example, {})
    assert f"```\n{capsys.readouterr().out}```\n" in chinese_example()


def test_the_tour_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    """Except the scores of training, which differ between machines."""
    monkeypatch.chdir(tmp_path)
    tour, names = json.loads((PROJECT / "docs/tour.ipynb").read_text(encoding="utf-8")), {}
    for cell in tour["cells"]:
        if cell["cell_type"] == "code":
            code, shown = (
                "".join(cell["source"]),
                [line for output in cell["outputs"] for line in output["text"]],
            )
            exec(code, names)
            assert capsys.readouterr().out == "".join(shown)
