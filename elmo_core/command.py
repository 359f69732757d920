"""The project's commands: `python run_tag.py` in a clone, `elmo tag` of an installed library."""

from pathlib import Path

COMMANDS = {  # of `elmo`: the script, and what it does
    "preprocess": ("preprocess", "turn raw text into a corpus; count a vocabulary; train word2vec"),
    "pretrain": ("run_pretrain", "pretrain ELMo on a corpus"),
    "eval": ("run_eval", "compute the perplexity of held-out text"),
    "surprisal": (
        "run_eval",
        "the same: surprisal of words and sentences, minimal pairs, experiments",
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
