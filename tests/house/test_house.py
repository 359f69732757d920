"""The house: imports run one way, as README.md's picture shows, and every script explains itself."""

import argparse
import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from project import PROJECT, commands, parser_of

import args

PACKAGES = sorted(path.parent.name for path in PROJECT.glob("*/__init__.py"))
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in PROJECT.glob("docs/*.md") if "_zh" not in path.name)]
SCRIPTS = sorted(path.stem for path in PROJECT.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))
LIBRARY = {"elmo", "elmo_core"}
ORDER = ["machine", "config", "text", "files", "weights", "network"]  # of elmo_core, from below
SIDE_BY_SIDE = {"weights", "network"}
TOP = {path.stem for path in PROJECT.glob("*.py")} | set(PACKAGES)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    module_name(path): path
    for path in sorted([*PROJECT.glob("*.py"), *(path for name in PACKAGES for path in (PROJECT / name).rglob("*.py"))])
}


def imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it; for `from package import name`, both forms."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def ours(name: str) -> set[str]:
    """The project's top-level modules and packages that a module imports."""
    return {found.partition(".")[0] for found in imports(MODULES[name])} & TOP


@pytest.mark.parametrize("name", MODULES)
def test_imports_run_downwards(name):
    """Scripts import capabilities, capabilities the library, the library nothing but itself."""
    top = name.partition(".")[0]
    assert not ours(name) & set(SCRIPTS) or (name in SCRIPTS and ours(name) & set(SCRIPTS) == {name})
    if top in LIBRARY:
        assert ours(name) <= LIBRARY
    if top == "elmo_core":
        assert "elmo" not in ours(name)
    if top in PACKAGES:
        assert not imports(MODULES[name]) & {"args", "argparse"}, "only scripts know flags"


@pytest.mark.parametrize("name", [name for name in MODULES if name.count(".") and name.startswith("elmo_core.")])
def test_packages_of_the_library_import_those_below(name):
    package = name.split(".")[1]
    used = {found.split(".")[1] for found in imports(MODULES[name]) if found.startswith("elmo_core.")} - {package}
    below = set(ORDER[: ORDER.index(package)]) - (SIDE_BY_SIDE if package in SIDE_BY_SIDE else set())
    assert used <= below


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("elmo_tasks.")])
def test_tasks_do_not_import_each_other(name):
    tasks = {path.parent.name for path in PROJECT.glob("elmo_tasks/*/__init__.py")}
    used = {found.split(".")[1] for found in imports(MODULES[name]) if found.startswith("elmo_tasks.")}
    assert used & tasks <= {name.split(".")[1]}


def test_imports_are_no_circle():
    graph = {name: imports(path) & set(MODULES) - {name} for name, path in MODULES.items()}
    while leaves := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - leaves for name, needed in graph.items() if name not in leaves}
    assert not graph


def test_nobody_imports_the_demos():
    demos = {path.stem for path in PROJECT.glob("*_demo/*.py")}
    assert not demos & TOP
    for path in MODULES.values():
        assert not imports(path) & demos


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """A parser and those of its commands."""
    commands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [parser, *(part for action in commands for part in action.choices.values())]


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_shows_an_example_and_every_default(name, monkeypatch):
    parser = parser_of(PROJECT / f"{name}.py", monkeypatch)
    assert re.search(rf"^    .*python {Path(name).name}\.py ", parser.format_help(), re.M)
    for part in parsers(parser):
        text = "".join(part.format_help().split())
        for action in part._actions:
            assert action.help or action.choices, f"{name}: {action.dest}"
            if action.default not in (None, False, argparse.SUPPRESS):
                assert "".join(f"(default: {action.default}".split()) in text, f"{name}: {action.dest}"


def test_help_is_printed():
    command = [sys.executable, str(PROJECT / "run_eval.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr and "python run_eval.py" in done.stdout


@pytest.mark.parametrize(
    ("argv", "what"), [(["--output="], "--output"), (["--output", ""], "--output"), (["text", ""], "text")]
)
def test_empty_flags_are_an_error(argv, what, capsys):
    """They come from unset variables of the shell."""
    parser = args.parser("")
    parser.add_argument("--output")
    parser.add_argument("input", nargs="*")
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(argv)
    assert f"error: {what} is empty" in capsys.readouterr().err


@pytest.mark.parametrize("page", PAGES)
def test_both_languages_have_the_same_commands(page):
    assert commands(page) == commands(page.replace(".md", "_zh.md"))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", sorted([*PROJECT.glob("*.md"), *PROJECT.glob("[!.]*/*.md")]), ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target


@pytest.mark.parametrize("readme", [*PAGES, "LAC_demo/README.md", "MRC_demo/README.md", "data/README.md"])
def test_the_commands_of_the_pages_parse(readme, monkeypatch, capsys):
    """Every call of a script has flags that the script takes."""
    folders = [(PROJECT / readme).parent, PROJECT, PROJECT / "LAC_demo"]
    for line in commands(readme):
        for script, rest in re.findall(r"(?:^|\s)((?:\w+/)*\w+\.py)\b(.*)", line):
            (path, *_) = [folder / script for folder in folders if (folder / script).is_file()] or [None]
            assert path, f"{script} in: {line}"
            if "parser(" in path.read_text(encoding="utf-8"):
                try:
                    parser_of(path, monkeypatch).parse_args(shlex.split(rest.partition("|")[0]))
                except SystemExit:
                    pytest.fail(f"{line}: {capsys.readouterr().err}")
