"""The project's commands: `python run_tag.py` in a clone, `elmo tag` of an installed library."""

import difflib
import importlib
import sys
from pathlib import Path
from types import ModuleType

import elmo_core
from elmo_core.messages import UserError

COMMANDS = {  # of `elmo`: the script, and what it does
    "preprocess": ("preprocess", "turn raw text into a corpus; count a vocabulary; train word2vec"),
    "pretrain": ("run_pretrain", "pretrain ELMo on a corpus"),
    "eval": ("run_eval", "compute the perplexity of held-out text"),
    "surprisal": (
        "run_eval",
        "the same: surprisal of words and sentences, minimal pairs, regions of experiments",
    ),
    "embed": ("run_embed", "write the vectors of a text to HDF5"),
    "polysemy": ("run_polysemy", "show the senses of a word in context"),
    "tag": ("run_tag", "train taggers, tag text"),
    "finetune": ("run_finetune", "train classifiers of texts and text pairs, classify"),
    "parse": ("run_parse", "train dependency parsers, parse text"),
    "read": ("run_read", "train question answering, answer questions"),
    "word2vec": ("word2vec_base", "train the baseline of finetune, word2vec + bag of words"),
    "convert": ("convert", "list and fetch published models; import and export weights"),
    "models": (
        "convert",
        "the same: list the published ELMos, and the ready-made taggers and parsers",
    ),
    "export": ("export_model", "export a trained model for Paddle Inference and ONNX Runtime"),
}
HELP = """\
usage: elmo COMMAND ...

ELMo, deep contextual word vectors from a bidirectional language model, in PaddlePaddle.

{commands}

elmo COMMAND --help shows the flags and examples of a command; elmo --version, the version. Several
processes:

    python -m paddle.distributed.launch --gpus '0,1' {script} ..."""

LIBRARY = Path(__file__).resolve().parent.parent
INSTALLED = LIBRARY / "elmo_scripts"  # the scripts, beside a library that pip has copied
SCRIPTS = INSTALLED if INSTALLED.is_dir() else LIBRARY

# Whether the user types `elmo tag`: with an installed library, and after `pip install -e` if the
# command runs.
has_command = SCRIPTS == INSTALLED


def command_line(words: str) -> str:
    """Return what the user types to run a script, for a message.

    words: the script and any arguments: "run_tag.py predict" is `python run_tag.py predict` in a
    clone, and `elmo tag predict` where the library is installed.
    """
    if not has_command:
        return f"python {words}"
    script, _, arguments = words.partition(" ")
    return f"elmo {_name_of(script)} {arguments}".rstrip()


def _name_of(script: str) -> str:
    """Return the first command that runs a script, such as "run_tag.py"."""
    for name, (stem, _) in COMMANDS.items():
        if script == f"{stem}.py":
            return name
    raise ValueError(script)


def main() -> None:
    """Run the command line of `elmo`, with a script's messages and exit codes."""
    global has_command
    has_command = True
    # first on the path: the user may have modules of the same names
    sys.path.insert(0, str(SCRIPTS))
    importlib.import_module("script").run(run_command)


def run_command() -> None:
    """Run a command's script as `python SCRIPT` does."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(_help())
    elif name == "--version":
        print(f"elmo {elmo_core.__version__}")
    elif name in COMMANDS:
        sys.argv = [f"elmo {name}", *sys.argv[2:]]
        script = importlib.import_module(COMMANDS[name][0])
        _adapt_examples(script, name)
        script.main()
    else:
        raise UserError(_unknown(name))


def _help() -> str:
    lines = [f"    {name:12}{summary}" for name, (_, summary) in COMMANDS.items()]
    return HELP.format(commands="\n".join(lines), script=SCRIPTS / "run_pretrain.py")


def _adapt_examples(script: ModuleType, name: str) -> None:
    """Name the command in the script's docstring, which its --help shows.

    Paddle's launcher of several processes needs the path of the script.
    """
    file = f"{script.__name__}.py"
    text = script.__doc__.replace(f"python {file}", f"elmo {name}")
    script.__doc__ = text.replace(f" {file}", f" {SCRIPTS / file}")


def _unknown(name: str) -> str:
    """Return the message for a command that there is not."""
    likely = name.removeprefix("run_").removesuffix(".py")
    close = difflib.get_close_matches(likely, COMMANDS, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"unknown command {name!r:.60}{hint}. elmo --help lists the commands."
