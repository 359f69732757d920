"""Token encoders: the word table learns with any optimizer."""

import itertools

import pytest
import tiny

from elmo import ELMo
from elmo_core.kernels.row_gradients import row_gradient
from elmo_core.machine.runtime import paddle
from elmo_core.text.vocabulary import Vocabulary

SENTENCES = tiny.SENTENCES


@pytest.mark.parametrize("input", ["word", "char+word"])
def test_any_optimizer_trains_the_word_table(input):
    """Also of a biLM with a softmax, whose tables would collect row gradients, which nobody would
    clear.
    """
    bilm = tiny.random_bilm(input=input)
    layer = ELMo((bilm, Vocabulary(tiny.WORDS)), trainable=True)
    table = dict(bilm.token_encoder.named_parameters())[bilm.token_encoder.word_tables[0]]
    before = table.numpy()
    optimizer = paddle.optimizer.Adam(0.05, parameters=layer.parameters())
    for _ in range(2):
        layer(SENTENCES)[0][0].sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    read = Vocabulary(tiny.WORDS).ids(list(itertools.chain.from_iterable(SENTENCES)))
    assert (table.numpy() != before).any(axis=1)[read].all()
    assert row_gradient(table) is None
