"""Text files and their lines; JSON."""

from elmo_core.text.text_files import parse_json


def test_surrogates_anywhere_in_json_are_replaced():
    assert parse_json('{"b": ["\\ud800x", {"\\udc00": "\\ud83d\\ude00"}], "c": "\\ud800"}') == {
        "b": ["\ufffdx", {"\ufffd": "😀"}],
        "c": "\ufffd",
    }
