"""Checkpoints with one value in all files, which show whether any files of two of them have been
mixed. Without Paddle.

    python tests/support/one_value.py FOLDER

kills a process at every seventh line of saving, deleting and overwriting, and prints the value of
what is there.
"""

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import numpy as np

from elmo_core.config import ELMoConfig
from elmo_core.files import disk, tensors
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_core.weights import checkpoint
from elmo_tools.pretraining import run_folder

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "the", "bank"])
CONFIG = ELMoConfig(
    projection_dim=7, cell_dim=13, filters=((1, 2), (2, 3)), vocab_size=len(VOCABULARY)
)


def weights(value: float, rows: int = 7) -> dict[str, np.ndarray]:
    return {
        "softmax.weight": np.full((rows, 13), value, np.float32),
        "softmax.bias": np.full(rows, value, np.float32),
    }


def save(folder: Path, value: float, rows: int = 7, overwrite: bool = False) -> None:
    """Save a checkpoint with one value in all files."""
    training = (
        {"lr": value},
        {"moment": np.full((rows, 13), value)},
        {"step": value, "losses": np.full(3, value)},
    )
    checkpoint.save_model(
        folder, CONFIG, weights(value, rows), VOCABULARY, training, overwrite=overwrite
    )


def saved_value(folder: Path) -> int:
    optimizer, progress = checkpoint.load_training(folder)
    values = {*np.unique(optimizer["moment"]), *progress["losses"], progress["step"]}
    values |= {
        float(x) for array in checkpoint.load_params(folder).values() for x in np.unique(array)
    }
    values.add(checkpoint.load_config(folder)["training"]["lr"])
    assert len(values) == 1, f"a mixture of {values}"
    return int(values.pop())


def kill_at_every_line(folder: Path) -> None:
    """Print the latest checkpoint if a process is killed before a line of saving 2, deleting 1, and
    saving 3 over 2.
    """
    os.fsync = lambda _: None  # nobody pulls the plug
    line, status = 0, None
    while status != 0:
        line += 7
        here = folder / str(line)
        save(here / "1", 1)
        child = os.fork()
        if child == 0:
            die_at(line)
            save(here / "2", 2)
            checkpoint.write_names(here, {"best": 2})
            checkpoint.prune(here, 1)
            save(here / "2", 3, overwrite=True)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 9), status
        with run_folder.locked(here):
            values = [saved_value(here / str(step)) for step in checkpoint.steps(here)]
        assert values in ([1], [1, 2], [2], [3])
        print(values[-1])


def die_at(line: int) -> None:
    """End this process abruptly after so many lines of the modules that write."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename not in (checkpoint.__file__, disk.__file__, tensors.__file__):
            return None
        lines += event == "line"
        if lines == line:
            os._exit(9)
        return trace

    sys.settrace(trace)


if __name__ == "__main__":
    kill_at_every_line(Path(sys.argv[1]))
