"""Convert other projects' ELMo models to checkpoints, and checkpoints to files for other programs.

    python convert.py list --language German
    python convert.py get allennlp-small
    python convert.py get allennlp-small --from options.json weights.hdf5
    python convert.py import options.json weights.hdf5 softmax.hdf5 --vocab vocab.txt --output DIR
    python convert.py import 195.zip --output DIR
    python convert.py import 10000.pdparams --vocab vocab-15w.txt --output DIR
    python convert.py export checkpoints/10000 --output DIR
    python convert.py half checkpoints/10000 --output DIR
    python convert.py speller checkpoints/10000 --corpus 'corpus/train/*' --output DIR

list, the default, shows the published models, then the ready-made taggers and parsers. Some of the
former are bundled with the library. The others are downloaded by get, or when their name is given
instead of a checkpoint to a script, ELMo(...) or ELMoEmbedder(...), and cached in $ELMO_HOME/models
(default: ~/.cache/elmo/models). ELMO_MIRROR=https://mirror.example/elmo replaces https://host/path
by https://mirror.example/elmo/host/path. Without a network, give the downloaded files, their
folder, or the archive, to --from.

import reads these formats, and recognises them by the names of the files:

    bilm-tf    options.json and .hdf5, in which bilm-tf, AllenNLP and simple_elmo publish; with
               --vocab also the softmax
    tensorflow a checkpoint of bilm-tf's training, or an unpacked module of TensorFlow Hub, such as
               google/elmo
    manylangs  config.json, encoder.pkl and token_embedder.pkl of ELMoForManyLangs
    fluid      the parameter folder of PaddlePaddle's ELMo for Fluid 1.4, a word model; needs
               --vocab
    paddle     a .pdparams file of PaddleNLP's ELMo example, with its words (--vocab); or of
               paddle.save(bilm.state_dict(), FILE), next to the model's config.json and vocab.txt

export writes the files of bilm-tf. half rounds a checkpoint's weights to float16, which halves the
file. They are loaded as float32. speller adds to a checkpoint, from its corpus, a speller of
unknown words and a start state of sentences, which pretraining stores in its own; weights stay as
they are. DIR must be new or empty; it appears when the model is complete.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import args as arguments
import script
from elmo_core.config import ELMoConfig
from elmo_core.files import disk
from elmo_core.messages import UserError, format_count, log
from elmo_core.text.corpus import Corpus
from elmo_core.text.language import choose_language
from elmo_core.text.vocabulary import Vocabulary
from elmo_core.weights import bilm_tf, cards, checkpoint, formats, model_files, published
from elmo_tasks.ready import ready_made

PUBLISHED_COLUMNS = ("name", "format", "language", "text", "size", "licence", "installed")
READY_MADE_COLUMNS = ("ready-made", "task", "ELMo", "language", "test score", "size")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.default_command = "list"
    commands = parser.add_subparsers(dest="command", required=True)

    lister = commands.add_parser("list", help="list the published and the ready-made models")
    lister.add_argument(
        "--language", help="only models of a language, by name or code: German or de"
    )
    get = commands.add_parser("get", help="download a published model")
    get.add_argument("name", metavar="NAME", help="a name shown by list")
    get.add_argument(
        "--from",
        dest="local_files",
        **arguments.FILE,
        nargs="+",
        default=[],
        help="files downloaded in advance, their folder, or the archive",
    )
    importer = commands.add_parser("import", help="convert another program's model to a checkpoint")
    importer.add_argument("--output", **arguments.DIR, required=True, help="a new folder")
    importer.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="the model's files, or a folder or archive with them",
    )
    importer.add_argument(
        "--vocab",
        **arguments.FILE,
        help="words of the softmax, or of a word model (default: a vocab*.txt among the files)",
    )
    export = commands.add_parser(
        "export", help="convert a checkpoint to options.json, weights.hdf5 and vocab.txt"
    )
    export.add_argument("--output", **arguments.DIR, required=True, help="a new folder")
    export.add_argument("checkpoint", **arguments.COMMON["init_from_ckpt"])
    half = commands.add_parser("half", help="round a checkpoint to float16, half the size")
    half.add_argument("--output", **arguments.DIR, required=True, help="a new folder")
    half.add_argument("checkpoint", **arguments.COMMON["init_from_ckpt"])
    speller = commands.add_parser(
        "speller", help="add a speller of unknown words, and a start state, to a checkpoint"
    )
    speller.add_argument("--output", **arguments.DIR, required=True, help="a new folder")
    speller.add_argument("checkpoint", **arguments.COMMON["init_from_ckpt"])
    speller.add_argument(
        "--corpus",
        metavar="PATH",
        required=True,
        help="text that the model was trained on, a tokenised sentence per line",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    if "output" in args:
        disk.check_output_folder("--output", args.output)
    commands = {
        "list": show_models,
        "get": get_published,
        "import": import_model,
        "export": export_bilm,
        "half": write_half,
        "speller": add_speller,
    }
    commands[args.command](args)


def show_models(args: argparse.Namespace) -> None:
    """Print tables of the published and of the ready-made models."""
    models = published.models(args.language)
    if not models:
        raise UserError(
            f"No published model is listed for {args.language}. Without --language, list shows all."
        )
    print_table([PUBLISHED_COLUMNS, *(published_row(model) for model in models)])
    rows = ready_made_rows(models)
    if rows:
        print()
        print_table([READY_MADE_COLUMNS, *rows])


def published_row(model: published.PublishedModel) -> tuple[str, ...]:
    return (
        model.name,
        model.format,
        model.language,
        model.text,
        model.size,
        model.licence,
        "yes" if model.is_installed else "",
    )


def ready_made_rows(models: Sequence[published.PublishedModel]) -> list[tuple[str, ...]]:
    """List the ready-made taggers and parsers in the languages of these models.

    Their names begin with that of the bundled model of their language.
    """
    languages = {model.name: model.language for model in models}
    rows = []
    for folder in ready_made():
        language = languages.get(folder.name.partition("-")[0])
        if language:
            values = disk.read_json(folder / checkpoint.CONFIG, "the settings of a trained model")
            size = sum(file.stat().st_size for file in folder.iterdir())
            rows.append(
                (
                    folder.name,
                    values["task"],
                    values["elmo"] or "",
                    language,
                    values["scores"]["summary"].get("test", "").strip(),
                    f"{size / 1e6:.1f} MB",
                )
            )
    return rows


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns as wide as their widest cell."""
    columns = list(zip(*rows, strict=True))
    widths = [len(max(column, key=len)) for column in columns]
    for row in rows:
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


def get_published(args: argparse.Namespace) -> None:
    """Install a published model and print its folder."""
    print(published.install(args.name, args.local_files))


def import_model(args: argparse.Namespace) -> None:
    """Convert another program's model to a checkpoint."""
    parents = args.output.absolute().parents
    # archives are unpacked on the disk of the output
    parent = next(folder for folder in parents if folder.exists())
    config, params, vocabulary = formats.read_foreign(args.paths, parent, args.vocab)
    paths = ", ".join(str(path) for path in args.paths)
    log.info(f"read          {paths}")
    write_checkpoint(args.output, config, params, vocabulary)


def export_bilm(args: argparse.Namespace) -> None:
    """Convert a checkpoint to the files of bilm-tf."""
    source, config, params, vocabulary = model_files.read_model(args.checkpoint, softmax=None)
    describe(config, params)
    with disk.atomic_folder(args.output) as folder:
        bilm_tf.write_bilm_tf(folder, config, params)
        cards.write_notice(folder, cards.notice_of(source))
        if vocabulary:
            checkpoint.save_vocabulary(folder, vocabulary)
    names = sorted(path.name for path in args.output.iterdir())
    log.info(f"saved         {', '.join(names)} in {args.output}")


def write_half(args: argparse.Namespace) -> None:
    """Round a checkpoint to float16."""
    folder, config, params, vocabulary = model_files.read_model(args.checkpoint, softmax=None)
    with np.errstate(over="ignore"):  # save_model checks the result
        params = {name: array.astype(np.float16) for name, array in params.items()}
    write_checkpoint(args.output, config, params, vocabulary, cards.notice_of(folder))
    log.info(f"size          {(args.output / checkpoint.WEIGHTS).stat().st_size:,} bytes")


def add_speller(args: argparse.Namespace) -> None:
    """Add to a checkpoint what its corpus tells of unknown words and of the starts of sentences."""
    corpus = Corpus(args.corpus)
    folder, config, params, vocabulary = model_files.read_model(args.checkpoint, softmax=True)
    corpus.count(vocabulary, sample=True)  # raises if it has no words
    lines = (" ".join(tokens) for tokens in corpus.sentences())
    choose_language("none", lines)  # warns of raw text
    vocabulary.unknown_words = corpus.unknown_words(vocabulary)

    from elmo_core.encoding.encoder import mean_start_state  # imports Paddle
    from elmo_core.network.bilm import make_bilm

    bilm = make_bilm(config, params, str(folder))
    start = mean_start_state(bilm, vocabulary, corpus.sentences())
    weights = {**checkpoint.load_params(folder), **start.arrays()}  # in the file's own precision
    write_checkpoint(args.output, config, weights, vocabulary, cards.notice_of(folder))
    words = vocabulary.unknown_words
    log.info(
        f"speller       {format_count(len(words.counts), 'words')} outside the vocabulary, "
        f"{format_count(words.total, 'tokens')} in the text"
    )


def write_checkpoint(
    output: Path,
    config: ELMoConfig,
    params: Mapping[str, np.ndarray],
    vocabulary: Vocabulary | None,
    notice: str = "",
) -> None:
    describe(config, params)
    checkpoint.save_model(output, config, params, vocabulary, notice=notice)
    log.info(f"saved         {output}")


def describe(config: ELMoConfig, params: Mapping[str, np.ndarray]) -> None:
    """Log the sizes of a model."""
    sizes = [weight.size for name, weight in params.items() if not name.startswith("start.")]
    n_parameters = sum(sizes)
    output = "no softmax: vectors only"
    if "softmax.weight" in params:
        output = f"softmax of {config.vocab_size:,} words"
    log.info(
        f"model         {config.input} input, {config.n_layers} layers, "
        f"P {config.projection_dim}, H {config.cell_dim}, {n_parameters:,} parameters, "
        f"{output}; see config.json"
    )


if __name__ == "__main__":
    script.run(main)
