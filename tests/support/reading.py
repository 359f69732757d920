"""A passage, its questions, a tiny reader, and one with random weights."""

import numpy as np

from elmo_core.text.tokenise import Tokeniser
from elmo_core.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_tasks.reading.data import QuestionGroup
from elmo_tasks.reading.network import BiDAF
from elmo_tasks.reading.reader import Reader
from elmo_tasks.reading.settings import ReaderSettings
from elmo_tasks.reading.text import Text, Window

TEXT = "老师住在北京。他在银行工作。医生住在上海。"
QUESTIONS = {"老师住在哪里？": "北京", "谁住在上海？": "医生", "老师在哪里工作？": "银行"}
SMALL = ReaderSettings(elmo=None, word_dim=5, hidden_dim=3, dropout=0.0, lang="zh")
TOKENS = "老师 医生 住 在 北京 上海 银行 工作 他 。 哪里 谁 ？"
WORDS = Vocabulary([*SPECIAL_TOKENS, *TOKENS.split()])


def group(
    text: str = TEXT, *questions: str, begin: int = 0, end: int | None = None
) -> QuestionGroup:
    """Questions to the tokens [begin, end) of a text; the answers are at the same span."""
    tokeniser = Tokeniser("zh")
    passage = Text.from_string(text, tokeniser)
    if end is None:
        end = len(passage.tokens)
    asked = [Text.from_string(question, tokeniser) for question in questions or QUESTIONS]
    return QuestionGroup(Window(passage, begin, end), asked, spans=[(1, 2)] * len(asked))


def make_reader(settings: ReaderSettings = SMALL, no_answer: bool = False) -> Reader:
    return Reader.create(settings, {"words": WORDS.words, "no_answer": no_answer}, "cpu")


def random_network() -> BiDAF:
    net = make_reader().network
    random = np.random.default_rng(5)
    for weight in net.parameters():
        weight.set_value(random.standard_normal(weight.shape).astype(np.float32) * 0.7)
    net.eval()
    return net
