"""run_pretrain.py: its flags are the settings and arguments of `pretrain`."""

from dataclasses import fields

from project import PROJECT, parser_of

from elmo_tools.pretraining.settings import PretrainingSettings
from elmo_tools.pretraining.start import Origin


def test_every_setting_is_a_flag_with_the_same_default(monkeypatch):
    parser = parser_of(PROJECT / "run_pretrain.py", monkeypatch)
    defaults = {action.dest: action.default for action in parser._actions}
    settings = PretrainingSettings()
    for field in fields(settings):
        assert defaults[field.name] == getattr(settings, field.name)
    assert {field.name for field in fields(Origin)} <= defaults.keys()
