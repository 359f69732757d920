"""The house: imports run one way, as docs/development.md's picture shows, and every script explains
itself.
"""

import argparse
import ast
import re
from pathlib import Path

import pytest
from project import PROJECT, parser_of, parsers
from runs import fresh_python

PACKAGES = sorted(path.parent.name for path in PROJECT.glob("*/__init__.py"))


def scripts(pattern: str) -> list[str]:
    """The names of the scripts in a folder, from the project's, without the suffix."""
    paths = [
        path for path in PROJECT.glob(pattern) if "__main__" in path.read_text(encoding="utf-8")
    ]
    return sorted(str(path.relative_to(PROJECT).with_suffix("")) for path in paths)


SCRIPTS = scripts("*.py")
LIBRARY = {"elmo", "elmo_core"}
ORDER = [
    "messages",
    "command",
    "checks",
    "machine",
    "files",
    "settings",
    "config",
    "text",
    "weights",
    "kernels",
    "training",
    "network",
    "encoding",
    "display",
    "entry_point",
]
TOP = {path.stem for path in PROJECT.glob("*.py")} | set(PACKAGES)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    module_name(path): path
    for path in sorted(
        [
            *PROJECT.glob("*.py"),
            *(path for name in PACKAGES for path in (PROJECT / name).rglob("*.py")),
        ]
    )
}


def imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere; for `from package import name`, both forms."""
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
    """Scripts import the tools, the tools the library, the library nothing but itself."""
    top = name.partition(".")[0]
    assert not ours(name) & set(SCRIPTS)
    if top in LIBRARY:
        assert ours(name) <= LIBRARY
    if top == "elmo_core":
        assert "elmo" not in ours(name)
    is_example = ".examples." in name  # a program of its own
    if top in PACKAGES and not is_example:
        assert not imports(MODULES[name]) & {"args", "argparse"}, "only scripts know flags"


@pytest.mark.parametrize(
    "name", [name for name in MODULES if name.count(".") and name.startswith("elmo_core.")]
)
def test_packages_of_the_library_import_those_below(name):
    package = name.split(".")[1]
    used = {
        found.split(".")[1] for found in imports(MODULES[name]) if found.startswith("elmo_core.")
    } - {package}
    assert used <= set(ORDER[: ORDER.index(package)])


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("elmo_tasks.")])
def test_tasks_do_not_import_each_other(name):
    tasks = {path.parent.name for path in PROJECT.glob("elmo_tasks/*/__init__.py")}
    used = {
        found.split(".")[1] for found in imports(MODULES[name]) if found.startswith("elmo_tasks.")
    }
    assert used & tasks <= {name.split(".")[1]}


def test_imports_are_no_circle():
    # every module of a package imports the package itself
    graph = {
        name: imports(path) & set(MODULES) - {name, name.partition(".")[0]}
        for name, path in MODULES.items()
    }
    while leaves := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - leaves for name, needed in graph.items() if name not in leaves}
    assert not graph


@pytest.mark.parametrize("name", [*scripts("benchmarks/*.py"), *scripts("*_demo/*.py")])
def test_benchmarks_and_demos_use_public_names_only(name):
    """A private name that is set from outside goes unnoticed when the library renames it."""
    nodes = list(ast.walk(ast.parse((PROJECT / f"{name}.py").read_text(encoding="utf-8"))))
    of_others = [
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self"
    ]
    imported = [
        alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert not [word for word in (*of_others, *imported) if re.match("_[^_]", word)]


@pytest.mark.parametrize("name", [*SCRIPTS, *scripts("*_demo/*.py")])
def test_help_shows_an_example_and_every_default(name, monkeypatch):
    parser = parser_of(PROJECT / f"{name}.py", monkeypatch)
    assert re.search(rf"^    .*python {Path(name).name}\.py ", parser.format_help(), re.M)
    for part in parsers(parser):
        text = "".join(part.format_help().split())
        for action in part._actions:
            assert action.help or action.choices, f"{name}: {action.dest}"
            if action.default not in (None, False, argparse.SUPPRESS):
                values = action.default if isinstance(action.default, tuple) else [action.default]
                assert "".join(f"(default:{''.join(map(str, values))}".split()) in text, (
                    f"{name}: {action.dest}"
                )


RUN = """
import importlib, sys
import script

sys.argv = [sys.argv[0], *{argv}]
try:
    script.run(importlib.import_module("{name}").main)
finally:
    print("loaded:", *({{"paddle", "sklearn"}} & {{*sys.modules}}))
"""


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_is_printed_and_does_not_wait_for_paddle(name):
    done = fresh_python(RUN.format(name=name, argv=["--help"]))
    assert not done.returncode and not done.stderr and f"python {name}.py" in done.stdout
    assert done.stdout.endswith("\nloaded:\n")


TRAIN = ["train", "--train_file=a", "--save_dir=b"]


@pytest.mark.parametrize(
    ("name", "argv", "said"),
    [
        ("run_parse", [*TRAIN, "--epoch_s=3"], "--epoch_s"),  # no such flag
        ("run_read", [*TRAIN, "--lr=0"], "--lr"),  # no such value
        ("run_tag", [*TRAIN, "--elmo_lr=0.1"], "--elmo_lr"),  # of no effect without another flag
        ("run_finetune", ["train", "--save_dir=b"], "--train_file"),  # missing, or another flag
    ],
)
def test_a_mistake_in_the_flags_does_not_wait_for_paddle(name, argv, said):
    done = fresh_python(RUN.format(name=name, argv=argv))
    error = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and error.startswith("error: ") and said in error
    assert done.stdout == "loaded:\n"


def test_a_classifier_waits_for_scikit_learn_only_to_be_trained_or_scored():
    modules = "elmo_tasks.classification.data, elmo_tasks.classification.score"  # those that use it
    done = fresh_python(f"import sys, {modules}; print('sklearn' in sys.modules)")
    assert done.stdout == "False\n"
