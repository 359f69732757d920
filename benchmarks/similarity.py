"""How well cosines of texts' vectors agree with people's judgments of pairs.

    python benchmarks/similarity.py --train sts-b.tsv --test sts-b-test.tsv
    python benchmarks/similarity.py --test afqmc.tsv --word_vectors word2vec.bin

Lines are text<TAB>score<TAB>text. Of scores 0 and 1, the ROC AUC is printed, of others Spearman's
rank correlation, in percent. --train has the texts that vectors are fitted on, by default those of
--test; its scores are not used. Whitened vectors are principal components of equal variance.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jieba
import numpy as np
from choosing import mean_vectors
from scipy import sparse, stats
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, normalize

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import args as arguments
import script
from elmo_core.files import disk
from elmo_core.messages import UserError
from elmo_core.text.language import recognise
from elmo_core.text.text_files import read_lines

VARIANCE = 0.95  # share that whitened vectors keep


class Pairs(NamedTuple):
    """n pairs of texts, and their scores (n,)."""

    first: list[str]
    second: list[str]
    scores: np.ndarray

    @property
    def texts(self) -> list[str]:
        """The distinct texts."""
        return list(dict.fromkeys([*self.first, *self.second]))


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    test = read_pairs(args.test)
    train = read_pairs(args.train or args.test)
    lang = "zh" if recognise(train.texts) == "zh" else "en"
    measure = "ROC AUC" if is_yes_or_no(test) else "Spearman's correlation"
    print(f"{args.test.name}: {len(test.scores):,} pairs, {measure}")
    for name, vectorizer in vectorizers(lang, args).items():
        print(f"{name:34} {agreement(vectorizer, train, test):6.1%}", flush=True)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("--test", **arguments.FILE, required=True, help="the pairs")
    parser.add_argument("--train", **arguments.FILE, help="pairs whose texts vectors are fitted on")
    parser.add_argument("--word_vectors", **arguments.FILE, help="of `preprocess.py vectors`")
    parser.add_argument("--elmo", default="auto", help="model; auto: en or zh, by the texts")
    return parser.parse_args(argv)


def read_pairs(path: Path) -> Pairs:
    disk.check_input(path, "pairs of texts")
    first = []
    second = []
    scores = []
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        if len(fields) != 3 or not is_number(fields[1]):
            expected = "text<TAB>score<TAB>text"
            raise UserError(f"{path}:{number}: found {line!r:.60}, expected {expected}.")
        first.append(fields[0])
        second.append(fields[2])
        scores.append(float(fields[1]))
    if len(set(scores)) < 2:
        raise UserError(f"{path}: found {len(set(scores))} scores, expected two or more.")
    return Pairs(first, second, np.array(scores))


def is_number(text: str) -> bool:
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


def is_yes_or_no(pairs: Pairs) -> bool:
    return set(pairs.scores.tolist()) <= {0, 1}


def vectorizers(lang: str, args: argparse.Namespace) -> dict[str, Any]:
    """What makes vectors of texts, by name."""
    from elmo_tasks import ELMoVectorizer  # --help does not wait for Paddle

    words = TfidfVectorizer(sublinear_tf=True)
    if lang == "zh":
        words.set_params(tokenizer=jieba.lcut, token_pattern=None)
    found = {
        "TF-IDF of words": words,
        "TF-IDF of 1 to 3 characters": TfidfVectorizer(
            sublinear_tf=True, analyzer="char", ngram_range=(1, 3)
        ),
    }
    if args.word_vectors:
        found["word2vec, mean"] = FunctionTransformer(
            partial(mean_vectors, lang, args.word_vectors)
        )
    found["ELMo, mean of layers and tokens"] = ELMoVectorizer(
        args.elmo, layers="average", weighting=None, standardize=False
    )
    found["ELMoVectorizer"] = ELMoVectorizer(args.elmo)
    whitening = PCA(VARIANCE, whiten=True)
    found["ELMoVectorizer, whitened"] = make_pipeline(ELMoVectorizer(args.elmo), whitening)
    return found


def agreement(vectorizer: Any, train: Pairs, test: Pairs) -> float:
    """The agreement of the pairs' cosines with their scores."""
    vectorizer.fit(train.texts)
    index = {text: row for row, text in enumerate(test.texts)}
    vectors = sparse.csr_array(normalize(vectorizer.transform(test.texts)))
    first = vectors[[index[text] for text in test.first]]
    second = vectors[[index[text] for text in test.second]]
    cosines = np.asarray((first * second).sum(axis=1)).ravel()
    if is_yes_or_no(test):
        return roc_auc_score(test.scores, cosines)
    return stats.spearmanr(test.scores, cosines).statistic


if __name__ == "__main__":
    script.run(main)
