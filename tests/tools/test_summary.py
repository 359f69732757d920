"""What a run says before its first step and after its last."""

from unittest import mock

import tiny

from elmo_tools.pretraining import summary


def test_the_parameters_of_both_directions_are_counted_together():
    bilm = tiny.random_bilm()
    sizes = summary.parameters_by_part(bilm)
    assert sorted(sizes) == ["lstm", "softmax", "token_encoder"]
    assert sum(sizes.values()) == sum(weight.size for weight in bilm.parameters())


def test_what_an_interrupted_run_says(tmp_path):
    trainer = mock.Mock()
    trainer.folder.path = tmp_path
    trainer.progress.step = 3
    said = summary.after_interruption(trainer, overwrite=True, same="call")
    assert "nothing is saved. To continue, give the same call with `resume=True`." in said
    tiny.save(tiny.random_bilm(), tmp_path / "2")
    said = summary.after_interruption(trainer, overwrite=True, same="call")
    assert "To start again, give the same call." in said
    tiny.save(tiny.random_bilm(), tmp_path / "3")
    said = summary.after_interruption(trainer, overwrite=True, same="call")
    assert f"saved as {tmp_path / '3'}" in said
