"""The command `elmo`, which runs the scripts of an installed library."""

import difflib
import importlib
import sys

import elmo_core
from elmo_core.machine.messages import SCRIPTS, with_commands

COMMANDS = {  # the script and what it does
    "preprocess": ("preprocess", "turn raw text into a corpus; count a vocabulary; train word2vec"),
    "pretrain": ("run_pretrain", "pretrain ELMo on a corpus"),
    "eval": ("run_eval", "compute the perplexity of held-out text, and the surprisal of its words"),
    "embed": ("run_embed", "write the vectors of a text or a vocabulary to HDF5"),
    "polysemy": ("run_polysemy", "show the senses of a word in context"),
    "tag": ("run_tag", "train taggers, tag text"),
    "finetune": ("run_finetune", "train classifiers of texts and text pairs, classify"),
    "read": ("run_read", "train question answering, answer questions"),
    "word2vec": ("word2vec_base", "train the baseline of finetune, word2vec + bag of words"),
    "convert": ("convert", "list and fetch published models; import and export weights"),
    "export": ("export_model", "export a trained model for Paddle Inference and ONNX Runtime"),
}
HELP = """\
usage: elmo COMMAND ...

ELMo, deep contextual word vectors from a bidirectional language model, in PaddlePaddle.

{commands}

elmo COMMAND --help shows the flags and examples of a command; elmo --version, the version. Several processes:

    python -m paddle.distributed.launch --gpus '0,1' run_pretrain.py ..."""


def main() -> None:
    """Run a command's script as `python SCRIPT` does, with its folder first on this process's path."""
    name, *argv = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        commands = "\n".join(f"    {command:12}{summary}" for command, (_, summary) in COMMANDS.items())
        print(with_commands(HELP.format(commands=commands)))
    elif name == "--version":
        print(f"elmo {elmo_core.__version__}")
    elif name in COMMANDS:
        sys.path.insert(0, str(SCRIPTS if SCRIPTS.is_dir() else SCRIPTS.parent))
        sys.argv = [f"elmo {name}", *argv]
        script = importlib.import_module(COMMANDS[name][0])
        importlib.import_module("script").run(script.main)
    else:
        close = difflib.get_close_matches(name.removeprefix("run_").removesuffix(".py"), COMMANDS, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        print(f"error: unknown command {name!r:.60}{hint}. elmo --help lists the commands.", file=sys.stderr)
        sys.exit(2)
