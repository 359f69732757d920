"""The project's folder, the parsers of its scripts, the commands in its pages."""

import argparse
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent


class Parsed(Exception):
    """Passes a script's parser to the test."""


def parser_of(script: Path, monkeypatch) -> argparse.ArgumentParser:
    """Run a script until it parses its flags, and return its parser."""

    def caught(parser, *_):
        raise Parsed(parser)

    monkeypatch.syspath_prepend(str(script.parent))
    spec = importlib.util.spec_from_file_location(f"script_{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", caught)
        patched.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        with pytest.raises(Parsed) as parsed:
            begin = getattr(module, "parse", module.main)
            if inspect.signature(begin).parameters:
                begin([])
            else:
                begin()
    return parsed.value.args[0]


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """A parser and those of its commands."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.extend(action.choices.values())
    return found


def commands(name: str) -> list[str]:
    """The commands of a page, without comments."""
    blocks = re.findall(
        r"^ *```(?:ba)?sh\n(.*?)^ *```", (PROJECT / name).read_text(encoding="utf-8"), re.M | re.S
    )
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    without_comments = [" ".join(re.sub(r"(^|\s)#.*", "", line).split()) for line in lines]
    return [line for line in without_comments if line]


def python_blocks(page: str) -> list[str]:
    """The Python of a page, without comments.

    As many line ends precede it as on the page, so that an error names the page's line.
    """
    text = (PROJECT / page).read_text(encoding="utf-8")
    blocks = []
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
        lines_before = text.count("\n", 0, block.start(1))
        code = re.sub(r" *#.*", "", block[1])
        blocks.append("\n" * lines_before + code)
    return blocks
