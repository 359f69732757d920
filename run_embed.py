"""Write the vectors of a text to one HDF5 file, in the layout of bilm-tf and AllenNLP.

    python run_embed.py --init_from_ckpt=checkpoints --input=sentences.txt --output=vectors.hdf5
    python run_embed.py --init_from_ckpt=en --input=a.txt --output=a.h5 --layers=top --dtype=float16

Dataset "0" holds the vectors of the first line, and so on: (layers, n, 2P) for a line of n tokens,
without the first dimension for a single layer or a mix, without n with --pool. Blank lines count.
Dataset "sentence_to_index" is a JSON object {sentence: line}, with the last line of equal
sentences.

The vectors are computed in parts, in the folder OUTPUT.parts, and joined at the end. After an
interruption the same command computes the missing parts. Several processes can share them, on one
machine or with a folder in common:

    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo run_embed.py ...
    python run_embed.py ... --shard=0/2       (and --shard=1/2 on another machine)
"""

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import args as arguments
import script
from elmo_core.files import disk
from elmo_core.machine import runtime
from elmo_tools.embedding import embed_text

if TYPE_CHECKING:  # --help does not wait for Paddle
    from elmo import ELMoEmbedder


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument(
        "--input",
        **arguments.FILE,
        required=True,
        help="text, one tokenised sentence per line; also .gz",
    )
    parser.add_argument("--output", **arguments.FILE, required=True, help="HDF5 file to write")
    arguments.add(parser, "init_from_ckpt", required=True)
    content = parser.add_argument_group("content of the file")
    content.add_argument(
        "--layers",
        metavar="L",
        default="all",
        help="all, top, average, an index, several as in 0,1, or mix: that of a TF Hub module",
    )
    content.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        default="float32",
        help="type of the vectors",
    )
    content.add_argument(
        "--pool",
        choices=("mean", "max", "mean_max"),
        help="one vector per sentence: the mean or maximum over its tokens, or both",
    )
    content.add_argument("--forget_sentences", action="store_true", help="omit sentence_to_index")
    run = parser.add_argument_group("run")
    arguments.add(run, "batch_size", help="sentences per batch")
    arguments.add(run, "device", "tf32", "precision")
    run.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="only share I of N of the parts: 0/2, 1/2",
    )
    return parser.parse_args(argv)


def _shard(text: str) -> tuple[int, int]:
    """Read I/N: the number of a share, and of how many."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected I/N with I from 0 to N - 1, for instance 0/2 and 1/2"
        )
    return int(match[1]), int(match[2])


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    disk.check_output("--output", args.output, args.input)
    disk.check_input(args.input, "a text, one sentence per line", "--input")
    # the processes of a launcher divide what --shard leaves to this machine
    shard, n_shards = args.shard or (0, 1)
    rank, n_ranks = runtime.rank_and_size()
    share = (shard * n_ranks + rank, n_shards * n_ranks)
    embed_text.embed(
        load(args),
        text=args.input,
        output=args.output,
        share=share,
        forget_sentences=args.forget_sentences,
    )


def load(args: argparse.Namespace) -> "ELMoEmbedder":
    from elmo import ELMoEmbedder  # imports Paddle

    runtime.set_device(args.device, args.tf32)
    return ELMoEmbedder(
        args.init_from_ckpt,
        batch_size=args.batch_size,
        device=args.device,
        layers=args.layers,
        pool=args.pool,
        dtype=args.dtype,
        precision=args.precision,
        progress=False,
    )


if __name__ == "__main__":
    script.run(main)
