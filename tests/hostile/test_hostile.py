"""Files, settings and moments that an attacker or bad luck chooses. docs/files.md says what is
promised.
"""

import argparse
import html.parser
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import browser
import fields
import kills
import numpy as np
import pytest
from project import PROJECT, parser_of, parsers

from elmo import ELMoEmbedder
from elmo_core.machine import runtime
from elmo_core.messages import UserError
from elmo_core.weights import formats, published
from elmo_tools.senses import occurrences
from elmo_tools.senses.page import write_page

HERE = Path(__file__).parent
SCRIPTS = sorted(
    path for path in PROJECT.glob("*.py") if ".parser(" in path.read_text(encoding="utf-8")
)
NUMBERS = ("0", "-1", "1e30", "nan", "", "9" * 5000)
KILLS = 1


def in_background(script: Path, *argv: object) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    return process


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """The measurements, all at the same time: each test waits for its own."""
    started = {
        "fields": in_background(HERE / "fields.py", tmp_path_factory.mktemp("hostile") / "fields")
    }
    started["kills"] = in_background(HERE / "kills.py", tmp_path_factory.mktemp("kills"), KILLS)
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


def output_of(process: subprocess.Popen) -> str:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_any_value_in_a_configuration_is_an_error_that_names_the_file_or_harmless(processes):
    results = [json.loads(line) for line in output_of(processes["fields"]).splitlines()]
    assert [result["name"] for result in results] == list(fields.CONFIGS)
    for result in results:
        assert not result["faults"], result
        assert result["errors"]


def test_a_killed_training_continues_to_the_same_weights_and_a_killed_save_leaves_a_whole_model(
    processes,
):
    output = output_of(processes["kills"])
    assert (
        output.count("the same weights") == output.count("saves over a model") == len(kills.WORKS)
    )


def test_a_number_that_a_flag_cannot_have_is_an_error(monkeypatch):
    checked = 0
    for script in SCRIPTS:
        for parser in parsers(parser_of(script, monkeypatch)):
            for action in parser._actions:
                if not isinstance(action.type, partial) and action.type not in (int, float):
                    continue
                checked += 1
                for text in NUMBERS:
                    try:
                        value = action.type(text)
                    except (argparse.ArgumentTypeError, ValueError):  # which argparse reports
                        continue
                    assert isinstance(value, str) or value in (0, -1), (script, action.dest, text)
    assert checked > 60


@pytest.mark.parametrize("value", NUMBERS)
def test_a_variable_that_makes_no_sense_is_named(monkeypatch, value):
    for name in ("ELMO_HOME", "ELMO_MIRROR", "XDG_CACHE_HOME", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, value)
    for variables, read in READERS.items():
        try:
            assert read() is not None
        except UserError as error:
            assert any(name in str(error) for name in variables)
    monkeypatch.setenv("ELMO_HOME", "~nosuchuser")
    with pytest.raises(UserError, match="~nosuchuser"):
        published.home()


READERS = {
    ("ELMO_HOME",): published.home,
    ("ELMO_MIRROR",): lambda: published.mirrored("https://host/path"),
    ("OMP_NUM_THREADS",): runtime.n_threads,
}


@pytest.mark.parametrize(
    "options",
    [
        {"layers": "9" * 5000},
        {"layers": np.zeros(5)},
        {"pool": np.zeros(3)},
        {"dtype": {}},
        {"device": np.zeros(2)},
        {"batch_size": 10**30},
    ],
    ids=lambda options: next(iter(options)),
)
def test_an_argument_of_a_strange_kind_is_an_error(model, options):
    with pytest.raises(UserError, match=next(iter(options))):
        ELMoEmbedder(**{"params": model, "device": "cpu", **options})


WORDS = [
    "</script><script>alert(1)</script>",
    "<!--",
    "\"'&amp;",
    "\x01\x7f",
    "\ud800",
    "\u202egnp.exe",
    "]]>",
    "\u2028",
]


class Text(html.parser.HTMLParser):
    """The scripts of a page, and its elements."""

    def __init__(self, page: str):
        super().__init__()
        self.scripts, self.elements = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)

    def handle_data(self, data):
        if self.elements and self.elements[-1] == "script":
            self.scripts.append(data)


def write_words(path: Path, words: list[str], others: list[str]) -> None:
    found = []
    for word in words:
        places = [occurrences.Occurrence((word, *others, str(k)), 0, word) for k in range(2)]
        found.append(occurrences.Word(word, 2, 2, places, 0, np.float32([np.eye(2, 6)] * 2)))
    write_page(path, found, [], {word: [(other, 0.5) for other in words] for word in words})


def test_a_page_shows_words_as_text_and_runs_nothing(tmp_path):
    write_words(tmp_path / "plain.html", ["bank"], [])
    write_words(
        tmp_path / "page.html",
        WORDS[:2],
        [*WORDS, *(f"<b onclick=alert({k})>{k}" for k in range(10_000))],
    )
    plain, page = (
        Text((tmp_path / name).read_text(encoding="utf-8")) for name in ("plain.html", "page.html")
    )
    assert page.elements == plain.elements
    data = next(json.loads(script) for script in page.scripts if script.lstrip().startswith("{"))
    assert data["words"][0]["text"] == WORDS[0]
    if browser.PROGRAM:
        window = browser.Browser(tmp_path)
        window.open(tmp_path / "page.html")
        assert not window.complaints and WORDS[0] in window.run("document.body.innerText")


def test_a_configuration_reads_no_other_folder(tmp_path):
    """What config_path of ELMoForManyLangs names lies in the model's folder."""
    (tmp_path / "secret.json").write_text('{"encoder": {}, "token_embedder": {}}', encoding="utf-8")
    model = tmp_path / "model"
    model.mkdir()
    (model / "encoder.pkl").write_bytes(b"")
    for name in ("../secret.json", str(tmp_path / "secret.json"), "..\\secret.json"):
        (model / "config.json").write_text(json.dumps({"config_path": name}), encoding="utf-8")
        with pytest.raises(UserError, match=r"model.secret\.json: there is no such file"):
            formats.read_foreign([model], tmp_path)
