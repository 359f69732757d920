"""Ready-made models, found by name."""

from elmo_tasks.ready import ready_made, ready_made_named


def names(folders) -> list[str]:
    return [f"{folder.parent.name}/{folder.name}" for folder in folders]


def test_models_are_found_by_their_task_and_their_name():
    assert names(ready_made("tagger")) == ["tagger/en-ewt", "tagger/zh-lac"]
    assert names(ready_made_named("en-ewt")) == ["parser/en-ewt", "tagger/en-ewt"]
    assert names(ready_made_named("tagger/en-ewt")) == ["tagger/en-ewt"]
    assert not ready_made_named("elsewhere")
