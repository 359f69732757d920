"""Weights of other ELMos into checkpoints, and checkpoints into files that others read.

    python convert.py import --options options.json --weights weights.hdf5 --output DIR
    python convert.py import --options options.json --weights weights.hdf5 --vocab vocab.txt --softmax softmax.hdf5 \\
        --output DIR
    python convert.py export checkpoints/10000 --output DIR
    python convert.py fluid baike_elmo_checkpoint --vocab vocabulary_min5k.txt --output DIR

import reads what bilm-tf, AllenNLP and simple_elmo read: every published ELMo in options.json and HDF5. A model comes with
its language-model head only where the file has a softmax, which bilm-tf does not dump, and --vocab says its words. Without
a head there are vectors but no perplexity. A model of words (without char_cnn in options.json) always needs --vocab.

export writes these files. Imported again, they are the same checkpoint bit for bit (a forget bias other than 1 goes into
the biases, and is rounded there); damage to the numbers is found out.

fluid reads the parameter folder of PaddlePaddle's ELMo for Fluid 1.4, a model of words.

n_characters in options.json is 261 while bilm-tf trains, 256 bytes and 5 marks, and must be 262 when the model is run: a row
0 for "no token" is counted then, which no file has. Both are read here, and the weights are the same; export writes 262.

The checkpoint is DIR/final. DIR must not exist, or be empty. It appears when all is read and written.
"""

import argparse
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import args as arguments
import elmo
from elmo_core import checkpoint, runtime
from elmo_core.config import ELMoConfig
from elmo_core.runtime import UserError, log, paddle
from elmo_core.tokens import Vocabulary
from elmo_core.weights import bilm_tf, fluid

NAME = "final"
ROOM = 1 << 20  # bytes for all but the weights and the vocabulary


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help)
        added.add_argument("--output", type=Path, required=True, metavar="DIR", help="a folder that is made")
        return added

    reads = command("import", "bilm-tf's options.json and weights to a checkpoint")
    reads.add_argument("--options", type=Path, required=True, metavar="FILE", help="options.json")
    reads.add_argument("--weights", type=Path, required=True, metavar="FILE", help="weights in HDF5")
    reads.add_argument(
        "--softmax", type=Path, metavar="FILE", help="softmax/W and softmax/b, if in a file of their own"
    )
    reads.add_argument("--vocab", type=Path, metavar="FILE", help="words of the softmax, or of a model of words")
    writes = command("export", "a checkpoint to options.json, weights.hdf5 and vocab.txt")
    writes.add_argument("checkpoint", metavar="CKPT", help="prefix, file, or folder (its latest)")
    fluid = command("fluid", "the variables of Paddle Fluid's ELMo to a checkpoint")
    fluid.add_argument("folder", type=Path, metavar="FOLDER", help="with embedding_para, fw_layer1_gate_w ...")
    fluid.add_argument("--vocab", type=Path, required=True, metavar="FILE", help="the words of embedding_para")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    runtime.set_device("cpu")
    check_is_free(args.output)
    {"import": from_bilm, "export": to_bilm, "fluid": from_fluid}[args.command](args)


def from_bilm(args: argparse.Namespace) -> None:
    vocabulary = Vocabulary.from_file(args.vocab) if args.vocab else None
    config, params = bilm_tf.read(args.options, args.weights, vocabulary, args.softmax)
    log.info(f"read          {args.options}, {args.weights}")
    write_checkpoint(args.output, config, params, vocabulary)


def from_fluid(args: argparse.Namespace) -> None:
    vocabulary = Vocabulary.from_file(args.vocab)
    config, params = fluid.read(args.folder, vocabulary)
    log.info(f"read          {args.folder}")
    log.info(f"assumed       both clips {fluid.CLIP:g}, as published; the folder does not say. See config.json")
    write_checkpoint(args.output, config, params, vocabulary)


def to_bilm(args: argparse.Namespace) -> None:
    config, params, vocabulary = read_checkpoint(args.checkpoint)
    introduce(config, params)
    with new_folder(args.output, n_bytes(params, vocabulary)) as folder:
        bilm_tf.write(folder, config, params, vocabulary)
        if vocabulary:
            checkpoint.save_vocabulary(folder, vocabulary)
    names = [path.name for path in sorted(args.output.iterdir())]
    log.info(f"saved         {', '.join(names)} in {args.output}")
    for remark in bilm_tf.remarks(config):
        log.warning(f"note          {remark}")


def read_checkpoint(source: str) -> tuple[ELMoConfig, dict[str, np.ndarray], Vocabulary | None]:
    """A checkpoint's model with all its weights, and its vocabulary where the model needs one."""
    bilm, vocabulary = elmo.load_bilm(source, head=has_head(checkpoint.load_params(source)))
    return bilm.config, {name: weight.numpy() for name, weight in bilm.state_dict().items()}, vocabulary


def write_checkpoint(
    output: Path, config: ELMoConfig, params: Mapping[str, np.ndarray], vocabulary: Vocabulary | None
) -> None:
    """A folder with the checkpoint of a model, which is verified before. The vocabulary is for those that need one."""
    introduce(config, params)
    with paddle.LazyGuard():  # nothing is allocated
        weights = elmo.BiLM(config, has_head(params)).state_dict()
    checkpoint.match({name: weight.shape for name, weight in weights.items()}, params, "what was read")
    params = {name: params[name] for name in weights}  # in the order of our own checkpoints
    vocabulary = vocabulary if config.vocab_size else None
    with new_folder(output, n_bytes(params, vocabulary)) as folder:
        checkpoint.save_config(folder, {"model": config.to_dict()})
        if vocabulary:
            checkpoint.save_vocabulary(folder, vocabulary)
        checkpoint.save(folder / NAME, params)
    log.info(f"saved         {output / NAME}{checkpoint.PARAMS}")


def has_head(params: Mapping[str, np.ndarray]) -> bool:
    return any(name.startswith("softmax.") for name in params)


def introduce(config: ELMoConfig, params: Mapping[str, np.ndarray]) -> None:
    """Say what the model is."""
    words = f"a table of {config.vocab_size:,} words"
    filters = f"{len(config.filters)} filters, {config.activation}, {config.n_highway} highways"
    layers = f"{config.n_layers} layer{'s' * (config.n_layers > 1)}"
    skip = "with" if config.use_skip_connections else "without"
    clips = " and ".join(f"{clip:g}" if clip else "none" for clip in (config.cell_clip, config.proj_clip))
    head = f"predicts {config.vocab_size:,} words" if has_head(params) else "none: there will be vectors, no perplexity"
    log.info(
        f"model         {f'characters, {filters}' if config.input == 'char' else words}; {layers} {skip} "
        f"skip connections, P {config.projection_dim}, H {config.cell_dim}; clips of cell and projection: {clips}; "
        f"forget bias {config.forget_bias:g}"
    )
    log.info(f"parameters    {sum(weight.size for weight in params.values()):,}")
    log.info(f"head          {head}")


def n_bytes(params: Mapping[str, np.ndarray], vocabulary: Vocabulary | None) -> int:
    """What the files of a model take, a little more rather than less."""
    words = sum(len(token) + 1 for token in vocabulary.tokens) * 4 if vocabulary else 0
    return sum(weight.nbytes for weight in params.values()) + words + ROOM


def check_is_free(output: Path) -> None:
    """Refuse a folder that has something in it, or in which the shell stands: it would stand in the replaced one."""
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise UserError(f"--output {output} is there already. Choose a folder that is not, or an empty one.")
    if output.exists() and output.samefile("."):
        raise UserError(
            f"--output {output} is the current folder, which cannot be replaced. Choose one in it, or another."
        )


@contextmanager
def new_folder(output: Path, needed: int) -> Iterator[Path]:
    """A folder under a temporary name. It gets its own when the block has ended without error, else it is removed."""
    output = output.resolve()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(output.parent).free
        if free < needed:
            raise UserError(
                f"--output {output}: {needed / 1e6:,.1f} MB are needed there, {free / 1e6:,.1f} MB are free. Nothing was "
                "written. Make room or choose another folder."
            )
        temporary = output.with_name(f".{output.name}.{os.urandom(8).hex()}.tmp")
        temporary.mkdir()
    except OSError as error:
        raise UserError(f"--output {output}: no folder can be made there ({error.strerror}).") from error
    try:
        yield temporary
        for path in temporary.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        temporary.rename(output)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


if __name__ == "__main__":
    runtime.script(main)
