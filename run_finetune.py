"""ELMo + bag of words on the sentence polarity task.

    python run_finetune.py --data_dir=data/polarity --init_from_ckpt=checkpoints/sample
    python run_finetune.py --data_dir=DIR --init_from_ckpt=checkpoints --elmo_trainable --results=elmo.json
    python run_finetune.py --data_dir=DIR --init_from_ckpt=checkpoints --concat_word2vec=vectors.bin --compare_with=elmo.json
    python run_finetune.py --load_head=head --predict=reviews.txt

By default the biLM is frozen: it runs once over the reviews, and a head with a mix of its layers is trained in seconds.
--elmo_trainable then fine-tunes the biLM and the head together, in minutes for each fold. word2vec_base.py is the
baseline, by the same protocol.
"""

import argparse
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

import args as arguments
import elmo
from elmo_core import checkpoint, runtime
from elmo_core.ranks import Ranks
from elmo_core.runtime import UserError, hint_if_moved, log, paddle
from elmo_core.tokens import UNK_ID, Tokens, Vocabulary, token_batch
from elmo_core.word_vectors import load_word_vectors
from tasks import bow, polarity

nn = paddle.nn

TUNING_OF_ELMO = {"elmo_lr": [0.0005], "elmo_dropout": 0.2, "elmo_lr_decay": 1.0, "unfreeze_epochs": 0}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    model = parser.add_argument_group("ELMo")
    arguments.add_checkpoint(model)
    model.add_argument(
        "--layers", type=layers, default="mix", metavar="WHICH", help="mix, top, average, or the number of a layer"
    )
    model.add_argument("--concat_word2vec", type=Path, metavar="FILE", help="add word vectors: [word vector; ELMo]")
    model.add_argument(
        "--random_weights",
        nargs="?",
        const="all",
        choices=("all", "lstm"),
        help="put random weights in place of the pretrained, to see what these are worth: of all, or of the LSTMs alone",
    )
    model.add_argument("--elmo_trainable", action="store_true", help="fine-tune the biLM")
    model.add_argument(
        "--elmo_lr", type=arguments.positive, nargs="+", metavar="X", help="its learning rate (default: 0.0005)"
    )
    model.add_argument(
        "--elmo_dropout", type=arguments.share, metavar="X", help="its dropout between the layers (default: 0.2)"
    )
    model.add_argument(
        "--elmo_lr_decay",
        type=arguments.positive,
        metavar="X",
        help="factor of the rate for each layer below (default: 1)",
    )
    model.add_argument(
        "--unfreeze_epochs",
        type=arguments.whole_number,
        metavar="N",
        help="gradual unfreezing: each N epochs the next layer below begins to learn; 0: all from the start (default)",
    )
    arguments.add_task(parser)
    args = parser.parse_args(argv)
    if not (args.init_from_ckpt or args.load_head):
        parser.error("--init_from_ckpt is missing")
    arguments.settle(parser, args, TUNING_OF_ELMO, args.elmo_trainable, "--elmo_trainable")
    arguments.settle(parser, args, arguments.TUNING_OF_VECTORS, args.vectors_trainable, "--vectors_trainable")
    learns = args.elmo_trainable or args.vectors_trainable
    arguments.settle(parser, args, arguments.TUNING, learns, "--elmo_trainable or --vectors_trainable")
    for name in ("vectors_trainable", "limit"):
        if getattr(args, name) and not (args.concat_word2vec or args.load_head):
            parser.error(f"--{name} has no effect without --concat_word2vec")
    return args


def layers(text: str) -> str | int:
    if text.isdecimal():
        return int(text)
    if text not in ("mix", "top", "average"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected mix, top, average, or a layer's number")
    return text


def main(argv: Sequence[str] | None = None) -> None:
    polarity.main(parse(argv), build, rebuild)


def build(args: argparse.Namespace, reviews: polarity.Reviews, ranks: Ranks) -> list[bow.Encoder]:
    args.init_from_ckpt = str(checkpoint.resolve(args.init_from_ckpt).absolute())  # for --results: not only a folder
    bilm, vocabulary = elmo.load_bilm(args.init_from_ckpt)
    if isinstance(args.layers, int) and args.layers > bilm.config.n_layers:
        raise UserError(f"--layers {args.layers}: {args.init_from_ckpt} has layers 0 to {bilm.config.n_layers}.")
    if args.random_weights:
        randomise(bilm, args.random_weights, args.seed)
    learning = None
    if args.elmo_trainable:
        learning = bow.Learning(
            args.elmo_lr, args.word_dropout, args.elmo_dropout, args.elmo_lr_decay, args.unfreeze_epochs
        )
    source = None if args.random_weights else args.init_from_ckpt
    if bilm.config.input == "word":
        ids = vocabulary.ids(list(chain.from_iterable(reviews.sentences)))
        unknown = np.count_nonzero(ids == UNK_ID) / max(1, len(ids))
        log.info(f"ELMo's words  {len(vocabulary):,}; {unknown:.2%} of the reviews' tokens are not among them: <UNK>")
    encoders = [Contextual(bilm, vocabulary, args.layers, learning, source)]
    if args.concat_word2vec:
        vectors = load_word_vectors(args.concat_word2vec, args.limit)
        encoders.append(polarity.build_bags(args, args.concat_word2vec, vectors, reviews))
    return encoders


def rebuild(args: argparse.Namespace, specs: list[dict]) -> list[bow.Encoder]:
    encoders = []
    for spec in specs:
        if spec["encoder"] == bow.Bags.name:
            encoders.append(polarity.rebuild_bags(spec, args.load_head, args.concat_word2vec))
            continue
        source = args.load_head / OWN if spec["own"] else args.init_from_ckpt or spec["checkpoint"]
        with hint_if_moved("--init_from_ckpt", spec["own"] or args.init_from_ckpt):
            encoders.append(Contextual(*elmo.load_bilm(source), spec["layers"]))
    return encoders


def randomise(bilm: elmo.BiLM, what: str, seed: int) -> None:
    """Give the biLM, or only its LSTMs, the random weights that pretraining starts from."""
    paddle.seed(seed)
    fresh = elmo.BiLM(bilm.config, head=False).state_dict()
    for name, weight in bilm.state_dict().items():
        if what == "all" or "_lstm." in name:
            weight.set_value(fresh[name])


OWN = "bilm/final"  # in a head's folder, the biLM where it is not that of a checkpoint


class Contextual(bow.Encoder):
    """The biLM.

    layers: mix (all of them, for the head to mix), top, average, or a layer's number.
    source: the checkpoint whose weights these are; None if they are random.
    """

    name = "elmo"

    def __init__(
        self,
        bilm: elmo.BiLM,
        vocabulary: Vocabulary | None,
        layers: str | int,
        learning: bow.Learning | None = None,
        source: str | None = None,
    ):
        super().__init__()
        self.bilm, self.vocabulary, self.layers = bilm, vocabulary, layers
        self.learning, self.source = learning, source
        self.embedder = elmo.ELMoEmbedder(
            (bilm, vocabulary), device=paddle.get_device(), layers="all" if layers == "mix" else layers, pool="mean"
        )
        self.shape = (bilm.config.n_layers + 1 if layers == "mix" else 1, self.embedder.dim)

    def read(self, sentences: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        return list(sentences)

    def means(self, reviews: list[Sequence[str]]) -> np.ndarray:
        return np.array(self.embedder.encode(reviews), np.float32).reshape(-1, *self.shape)

    def forward(self, reviews: list[Sequence[str]]) -> paddle.Tensor:
        batch = token_batch(reviews, self.bilm.config.input, self.vocabulary)
        vectors = self.without_words(self._token_vectors(batch.tokens))
        dropout = self.learning.dropout if self.training and self.learning else 0.0
        layers, packing, _ = self.bilm.encode(vectors, batch.index, batch.lengths, dropout=dropout)
        words = np.flatnonzero(packing.step > 0)  # step 0 is the marker at a direction's start
        rows = packing.row[words]
        shares = np.zeros((len(reviews), len(packing.row)), np.float32)  # (B, M)
        shares[rows, words] = 1 / (batch.lengths - 2)[rows]
        shares = paddle.to_tensor(shares)
        means = [paddle.concat([shares @ side for side in pair], axis=1) for pair in layers]  # each (B, 2P)
        if self.layers == "average":
            return (sum(means) / len(means)).unsqueeze(1)
        if self.layers == "mix":
            return paddle.stack(means, axis=1)
        return means[-1 if self.layers == "top" else self.layers].unsqueeze(1)

    def _token_vectors(self, tokens: Tokens) -> paddle.Tensor:
        """Vectors (N, P) of distinct tokens. A table of words gets a sparse gradient, which its optimizer is quick with."""
        if self.bilm.config.input == "char":
            return self.bilm.token_encoder(tokens)
        table = self.bilm.token_encoder.embedding.weight
        return nn.functional.embedding(paddle.to_tensor(tokens.ids), table, sparse=True)

    def groups(self) -> list[list[paddle.Tensor]]:
        pairs = zip(self.bilm.forward_lstm, self.bilm.backward_lstm, strict=True)
        return [self.bilm.token_encoder.parameters(), *([*f.parameters(), *b.parameters()] for f, b in pairs)]

    def save(self, folder: Path) -> dict:
        own = bool(self.learning) or self.source is None
        if own:
            prefix = folder / OWN
            checkpoint.save(prefix, {name: weight.numpy() for name, weight in self.bilm.state_dict().items()})
            checkpoint.save_config(prefix.parent, {"model": self.bilm.config.to_dict()})
            if self.vocabulary:
                checkpoint.save_vocabulary(prefix.parent, self.vocabulary)
        return {"encoder": self.name, "own": own, "checkpoint": self.source, "layers": self.layers}


if __name__ == "__main__":
    runtime.script(main)
