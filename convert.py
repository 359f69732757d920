"""Weights of other ELMos into checkpoints, and checkpoints into files that others read.

    python convert.py list
    python convert.py get allennlp-small
    python convert.py get allennlp-small --from options.json weights.hdf5
    python convert.py import --options options.json --weights weights.hdf5 --output DIR
    python convert.py import 195.zip --output DIR
    python convert.py import --options options.json --weights weights.hdf5 --vocab vocab.txt --softmax softmax.hdf5 \\
        --output DIR
    python convert.py export checkpoints/10000 --output DIR
    python convert.py fluid baike_elmo_checkpoint --vocab vocabulary_min5k.txt --output DIR
    python convert.py manylangs zhs.model.tar.bz2 --output DIR
    python convert.py paddlenlp checkpoints/10000 --vocab vocab-15w.txt --output DIR
    python convert.py half checkpoints/10000 --output DIR

list shows the models that are known by name. Some come with this repository, in models/; get fetches the others, and so does
their name in place of a checkpoint, in any script, ELMo(...) or ELMoEmbedder(...). They are kept in $ELMO_HOME/models
(default: ~/.cache/elmo/models). A broken download resumes when the command is repeated. The environment's proxies are used.
ELMO_MIRROR=https://mirror.example/elmo makes https://host/path into https://mirror.example/elmo/host/path, where
`wget -x https://host/path` puts it. Without a network, --from takes the files, fetched elsewhere, or a folder or an archive
with them.

import reads what bilm-tf, AllenNLP and simple_elmo read: every published ELMo in options.json and HDF5. A model has its
language-model head only where there is a softmax, which bilm-tf does not dump, and --vocab gives its words. Without a head
there are vectors but no perplexity. A model of words (without char_cnn in options.json) always needs --vocab.

export writes these files. Imported again, they are the same checkpoint bit for bit (a forget bias other than 1 goes into
the biases, and is rounded there); damage to the numbers is detected.

fluid reads the parameter folder of PaddlePaddle's ELMo for Fluid 1.4, a model of words; manylangs a model of
ELMoForManyLangs; paddlenlp what the ELMo example of PaddleNLP has trained.

half rounds a checkpoint's weights to float16, which halves the file. They are loaded as float32.

n_characters in options.json is 261 while bilm-tf trains, 256 bytes and 5 marks, and must be 262 when the model is run, where
a row 0 for "no token" is counted, which no file has. Both are read, and the weights are the same; export writes 262.

The checkpoint is DIR/final. DIR must be new or empty. It appears when all is read and written.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import args as arguments
import script
from elmo_core.config import ELMoConfig
from elmo_core.files import checkpoint
from elmo_core.machine import disk
from elmo_core.machine.messages import log
from elmo_core.text.tokens import Vocabulary
from elmo_core.weights import bilm_tf, fluid, formats, model_files, paddlenlp, published


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    commands.add_parser("list", help="models by name")
    gets = commands.add_parser("get", help="fetch a published model")
    gets.add_argument("name", metavar="NAME", help="as `list` shows it")
    local_files = "files downloaded in advance, or a folder or archive with them"
    gets.add_argument("--from", dest="local_files", type=Path, nargs="+", default=[], metavar="FILE", help=local_files)

    def command(name: str, help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help)
        added.add_argument("--output", type=Path, required=True, metavar="DIR", help="a new folder")
        return added

    reads = command("import", "bilm-tf's options.json and weights to a checkpoint")
    reads.add_argument("folder", type=Path, nargs="?", metavar="DIR|ZIP", help="with all of these, as NLPL's")
    reads.add_argument("--options", **arguments.FILE, help="options.json")
    reads.add_argument("--weights", **arguments.FILE, help="weights in HDF5")
    reads.add_argument("--softmax", **arguments.FILE, help="softmax/W and softmax/b, if in their own file")
    reads.add_argument("--vocab", type=Path, metavar="FILE", help="words of the softmax, or of a model of words")
    writes = command("export", "a checkpoint to options.json, weights.hdf5 and vocab.txt")
    writes.add_argument("checkpoint", metavar="CKPT", help="prefix, file, folder (its latest), or a name of `list`")
    fluid = command("fluid", "the variables of Paddle Fluid's ELMo to a checkpoint")
    fluid.add_argument("folder", type=Path, metavar="FOLDER", help="with embedding_para, fw_layer1_gate_w ...")
    fluid.add_argument("--vocab", type=Path, required=True, metavar="FILE", help="the words of embedding_para")
    many = command("manylangs", "a model of ELMoForManyLangs to a checkpoint")
    many.add_argument("folder", type=Path, metavar="DIR|ZIP", help="with config.json, encoder.pkl, token_embedder.pkl")
    nlp = command("paddlenlp", "what PaddleNLP's ELMo example has trained to a checkpoint")
    nlp.add_argument("checkpoint", type=Path, metavar="PREFIX", help="of its .pdparams")
    nlp.add_argument("--vocab", type=Path, required=True, metavar="FILE", help="its vocabulary, as vocab-15w.txt")
    halves = command("half", "a checkpoint to one in float16, half the size")
    halves.add_argument("checkpoint", metavar="CKPT", help="prefix, file, folder (its latest), or a name of `list`")
    halves.add_argument("--no_head", action="store_true", help="omit the softmax: no perplexity, no substitutes")
    args = parser.parse_args(argv)
    if args.command == "import":
        if args.folder and (args.options or args.weights or args.softmax or args.vocab):
            parser.error("--options, --weights, --softmax and --vocab have no effect with a folder or an archive")
        if not args.folder and not (args.options and args.weights):
            parser.error("--options and --weights, or a folder or an archive with both, are missing")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    if "output" in args:
        disk.check_output_folder("--output", args.output)
    commands = {"list": show_published, "get": get_published, "export": export_bilm, "half": write_half}
    commands.get(args.command, import_model)(args)


def show_published(args: argparse.Namespace) -> None:
    rows = [("name", "language", "text", "size", "licence", "here")]
    for model in published.table().values():
        if model.is_installed or model.format != published.SHIPPED:
            rows.append((model.name, model.language, model.text, model.size, model.licence, "yes" * model.is_installed))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())


def get_published(args: argparse.Namespace) -> None:
    prefix = published.get(args.name, args.local_files)
    print(f"{prefix}{checkpoint.PARAMS}")


def import_model(args: argparse.Namespace) -> None:
    """Read another program's model, and write it as a checkpoint."""
    vocabulary = Vocabulary.from_file(args.vocab) if getattr(args, "vocab", None) else None
    source = args.checkpoint if args.command == "paddlenlp" else args.folder or f"{args.options}, {args.weights}"
    if args.command == "fluid":
        config, params = fluid.read(args.folder, vocabulary)
        log.info(f"assumed       both clips {fluid.CLIP:g}, as published; the folder does not say. See config.json")
    elif args.command == "paddlenlp":
        config, params = paddlenlp.read(args.checkpoint, vocabulary)
    elif args.folder:  # an archive is unpacked on the disk that the output will be on
        beside = next(folder for folder in args.output.absolute().parents if folder.exists())
        format = "manylangs" if args.command == "manylangs" else "bilm-tf"
        config, params, vocabulary = formats.read(format, [args.folder], beside)
    else:
        config, params = bilm_tf.read(args.options, args.weights, vocabulary, args.softmax)
        vocabulary = vocabulary if config.vocab_size else None
    log.info(f"read          {source}")
    write_checkpoint(args.output, config, params, vocabulary)


def export_bilm(args: argparse.Namespace) -> None:
    _, config, params, vocabulary = model_files.read_model(args.checkpoint, head=None)
    describe(config, params)
    with disk.atomic_folder(args.output) as folder:
        bilm_tf.write(folder, config, params, vocabulary)
        if vocabulary:
            checkpoint.save_vocabulary(folder, vocabulary)
    log.info(f"saved         {', '.join(sorted(path.name for path in args.output.iterdir()))} in {args.output}")
    for note in bilm_tf.compatibility_notes(config):
        log.warning(f"note          {note}")


def write_half(args: argparse.Namespace) -> None:
    _, config, params, vocabulary = model_files.read_model(args.checkpoint, head=False if args.no_head else None)
    params = {name: array.astype(np.float16) for name, array in params.items()}
    if vocabulary is None:
        config = dataclasses.replace(config, vocab_size=0)
    write_checkpoint(args.output, config, params, vocabulary)
    log.info(f"size          {(args.output / f'{checkpoint.FINAL}{checkpoint.PARAMS}').stat().st_size:,} bytes")


def write_checkpoint(
    output: Path, config: ELMoConfig, params: Mapping[str, np.ndarray], vocabulary: Vocabulary | None
) -> None:
    describe(config, params)
    checkpoint.save_model(output, config, params, vocabulary)
    log.info(f"saved         {output / checkpoint.FINAL}{checkpoint.PARAMS}")


def describe(config: ELMoConfig, params: Mapping[str, np.ndarray]) -> None:
    words = f"a table of {config.vocab_size:,} words"
    filters = f"characters, {len(config.filters)} filters, {config.activation}, {config.n_highway} highways"
    layers = f"{config.n_layers} layer{'s' * (config.n_layers > 1)}"
    skip = "with" if config.use_skip_connections else "without"
    clips = " and ".join(f"{clip:g}" if clip else "none" for clip in (config.cell_clip, config.proj_clip))
    reads = " and ".join([filters] * config.reads_characters + [words] * config.reads_words)
    log.info(
        f"model         {reads}; {layers} {skip} skip connections, "
        f"P {config.projection_dim}, H {config.cell_dim}; clips of cell and projection: {clips}; "
        f"forget bias {config.forget_bias:g}"
    )
    log.info(f"parameters    {sum(weight.size for weight in params.values()):,}")
    head = f"predicts {config.vocab_size:,} words" if "softmax.weight" in params else "none: vectors, but no perplexity"
    log.info(f"head          {head}")


if __name__ == "__main__":
    script.run(main)
