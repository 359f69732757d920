"""The house: imports run one way, as README.md's picture shows, and every script explains itself."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
SCRIPTS = [
    "preprocess",
    "run_pretrain",
    "run_eval",
    "run_embed",
    "run_finetune",
    "run_polysemy",
    "word2vec_base",
    "convert",
]
FLOORS = (  # from the ground up; a module imports only from floors below its own, or earlier ones on its own
    "runtime",
    "args tokenise fused dataset checkpoint hdf5_file scores vector_file",
    "lstmp char_cnn softmax adagrad token_vectors text_windows vector_parts ranks",
    "elmo",
    "perplexity meter start run_folder occurrences sense_picture bilm_files fluid_files bow polarity",
    " ".join(SCRIPTS),
)
ORDER = " ".join(FLOORS).split()


def imports(path: Path) -> set[str]:
    """What a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return found


def test_every_module_has_its_place():
    assert sorted(path.stem for path in PROJECT.glob("*.py")) == sorted(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_imports_run_downwards(name):
    ours = imports(PROJECT / f"{name}.py") & set(ORDER)
    above = [other for other in ours if ORDER.index(other) >= ORDER.index(name)]
    assert not above and not ours & set(SCRIPTS)


def test_nobody_imports_the_demo():
    demo = {path.stem for path in (PROJECT / "LAC_demo").glob("*.py")}
    for name in ORDER:
        assert not imports(PROJECT / f"{name}.py") & demo


def test_text_is_prepared_without_the_network():
    """dataset.py and checkpoint.py know nothing of it, nor of Paddle."""
    for name in ("dataset", "checkpoint", "tokenise", "preprocess", "args"):
        assert not imports(PROJECT / f"{name}.py") & {"paddle", "elmo", "lstmp", "fused"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_shows_an_example_and_every_default(name):
    command = [sys.executable, str(PROJECT / f"{name}.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr
    assert re.search(rf"^    python .*{name}\.py ", done.stdout, re.M)
    assert "(default: None)" not in done.stdout and "Traceback" not in done.stdout


def commands(name: str) -> list[str]:
    """What a README tells to type, without the remarks."""
    blocks = re.findall(r"^ *```bash\n(.*?)^ *```", (PROJECT / name).read_text(encoding="utf-8"), re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [" ".join(re.sub(r"(^|\s)#.*", "", line).split()) for line in lines]


def test_both_readmes_have_the_same_commands():
    english = commands("README.md")
    assert len(english) > 20 and english == commands("README_zh.md")


def test_the_readmes_name_only_files_and_flags_that_exist():
    for line in commands("README.md"):
        for script in re.findall(r"(?<![\w/])((?:\w+/)*\w+\.py)\b", line):
            folders = [PROJECT, PROJECT / "LAC_demo"]
            (path, *_) = [folder / script for folder in folders if (folder / script).is_file()] or [None]
            assert path, f"{script} in: {line}"
            sources = [path, PROJECT / "args.py", PROJECT / "LAC_demo" / "settings.py", PROJECT / "polarity.py"]
            known = "".join(source.read_text(encoding="utf-8") for source in sources if source.is_file())
            for flag in re.findall(r"(--\w+)", line.split(script)[-1]):
                assert f'"{flag}"' in known, f"{flag} in: {line}"
