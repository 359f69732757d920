"""Surprisal of every word: against the reference, in any batch, from sentence to sentence."""

import itertools
import math

import numpy as np
import pytest
import reference
import tiny
from experiment_runs import bits

from elmo import ELMoEmbedder, UserError, load_bilm
from elmo_core.network.start_state import StartState
from elmo_core.text.speller import UnknownWords
from elmo_core.text.vocabulary import UNK_ID, Vocabulary

SENTENCES = [*tiny.SENTENCES, ["the", "<UNK>", "river"]]


def expected_surprisal(
    parameters, sentences: list[list[str]], start: dict | None = None
) -> list[np.ndarray]:
    """Per sentence (6, n + 1): surprisal in nats, entropy, rank; each forward, then backward.

    The state is carried from sentence to sentence. start: the first one, in place of zeros.
    """
    state = reference.start_state(parameters, 1, start)
    rows = [np.zeros((6, len(sentence) + 1)) for sentence in sentences]
    for d, direction in enumerate(reference.DIRECTIONS):
        h = state[direction]
        for sentence, row in zip(sentences, rows, strict=True):
            positions = list(range(len(sentence)))
            first = reference.BOS
            last = tiny.WORDS.index("</S>")
            if direction == "backward":
                positions.reverse()
                first = reference.EOS
                last = tiny.WORDS.index("<S>")
            words = [sentence[position] for position in positions]
            vectors = [reference.token_vectors(parameters, [first, *words])]
            outputs, h = reference.run_layers(parameters, direction, vectors, h)
            targets = [tiny.WORDS.index(w) if w in tiny.WORDS else UNK_ID for w in words]
            positions.append(len(sentence))
            targets.append(last)
            for position, output, target in zip(positions, outputs[-1][0], targets, strict=True):
                weight, bias = parameters.softmax
                logits = weight @ output + bias
                p = np.exp(logits - reference.logsumexp(logits))
                row[d::2, position] = (
                    -np.log(p[target]),
                    -p @ np.log(p),
                    1 + (logits > logits[target]).sum(),
                )
    return rows


def assert_surprisal(found, sentences, expected) -> None:
    for records, sentence, values in zip(found, sentences, expected, strict=True):
        assert [record.token for record in records] == [*sentence, "</S>"]
        known = [word in tiny.WORDS and word != "<UNK>" for word in sentence]
        assert [record.in_vocabulary for record in records] == [*known, True]
        numbers = np.array([record[1:7] for record in records]).T
        numbers[:4] *= math.log(2)
        np.testing.assert_allclose(numbers, values, rtol=0, atol=1e-5)


@pytest.mark.parametrize("input", ["char", "word"])
@pytest.mark.usefixtures("implementation")
def test_surprisal_equals_the_reference(input, tmp_path):
    """From the zero state in every batch, and in a single stream.

    From a file, and from a model of one's own.
    """
    bilm = tiny.random_bilm(input=input)
    prefix = tiny.save(bilm, tmp_path)
    parameters = tiny.reference_of(bilm)
    expected = [expected_surprisal(parameters, [sentence])[0] for sentence in SENTENCES]
    for size in (1, 3, 128):
        embedder = ELMoEmbedder(prefix, size, device="cpu")
        assert_surprisal(embedder.surprisal(SENTENCES), SENTENCES, expected)
    own = ELMoEmbedder(
        load_bilm(prefix, softmax=True), batch_size=3, carry_state=True, device="cpu"
    )
    assert_surprisal(
        own.iter_surprisal(iter(SENTENCES)), SENTENCES, expected_surprisal(parameters, SENTENCES)
    )


@pytest.mark.parametrize("input", ["char", "word"])
@pytest.mark.usefixtures("implementation")
def test_sentences_begin_with_the_start_state(input):
    """In any batch; from zeros if that is asked for; `encode` reads from zeros."""
    bilm = tiny.random_bilm(input=input)
    vocabulary = Vocabulary(tiny.WORDS)
    before = ELMoEmbedder((bilm, vocabulary), device="cpu")
    vectors = before.encode(SENTENCES)
    from_zeros = before.surprisal(SENTENCES)
    arrays, start = tiny.random_start(bilm.config)
    bilm.start_state = StartState(*arrays.values())
    parameters = tiny.reference_of(bilm)
    expected = [expected_surprisal(parameters, [sentence], start)[0] for sentence in SENTENCES]
    for size in (1, 3, 128):
        embedder = ELMoEmbedder((bilm, vocabulary), size, device="cpu")
        assert_surprisal(embedder.surprisal(SENTENCES), SENTENCES, expected)
    np.testing.assert_equal(embedder.encode(SENTENCES), vectors)
    assert embedder.surprisal(SENTENCES, context="zero") == from_zeros


def test_in_an_open_vocabulary_unknown_words_are_spelled(model):
    """Exactly their spelling is added, in both directions; a closed one is as without a speller."""
    bilm, vocabulary = load_bilm(model, softmax=True)
    closed = ELMoEmbedder((bilm, vocabulary), device="cpu").surprisal(SENTENCES)
    vocabulary.unknown_words = UnknownWords({"unheard": 2, "of": 1}, total=4)
    embedder = ELMoEmbedder((bilm, vocabulary), device="cpu")
    assert embedder.surprisal(SENTENCES, vocabulary="closed") == closed
    embedder.surprisal([["the", "bank"]])
    assert "speller" not in vars(vocabulary)  # learning takes seconds: only for unknown words
    n_spelled = 0
    in_open = itertools.chain.from_iterable(embedder.surprisal(SENTENCES))
    for record, before in zip(in_open, itertools.chain.from_iterable(closed), strict=True):
        bits = 0.0
        if not record.in_vocabulary:
            bits = vocabulary.speller.surprisals([record.token])[0] / math.log(2)
            n_spelled += 1
        assert record.forward == pytest.approx(before.forward + bits, abs=1e-9)
        assert record.backward == pytest.approx(before.backward + bits, abs=1e-9)
        assert record[3:] == before[3:]
    assert n_spelled > 1
    good, bad = [["the", "bank"]], [["the", "unheard"]]
    (spelled,) = embedder.compare(good, bad)
    (as_one,) = embedder.compare(good, bad, vocabulary="closed")
    bits = vocabulary.speller.surprisals(["unheard"])[0] / math.log(2)
    assert spelled.forward - as_one.forward == pytest.approx(bits, abs=1e-9)


def test_a_model_without_a_speller_says_how_to_add_one(model, caplog):
    embedder = ELMoEmbedder(model, device="cpu")
    with caplog.at_level("INFO", "elmo"):
        embedder.surprisal([["unheard"]])
    assert f"{model} has no speller" in caplog.text and "convert.py speller" in caplog.text
    with pytest.raises(UserError, match=r"no speller.*convert\.py speller"):
        embedder.surprisal([["unheard"]], vocabulary="open")


def test_surprisal_in_nats(model):
    embedder = ELMoEmbedder(model, device="cpu")
    (bits,) = embedder.surprisal([["the", "bank"]])
    (nats,) = embedder.surprisal([["the", "bank"]], unit="nats")
    for in_nats, in_bits in zip(nats, bits, strict=True):
        assert np.array(in_nats[1:5]) == pytest.approx(np.array(in_bits[1:5]) * math.log(2))
        assert in_nats[5:] == in_bits[5:]


@pytest.mark.parametrize(
    "option", [{"unit": "bit"}, {"vocabulary": True}, {"context": "start"}, {"unit": None}]
)
def test_a_wrong_option_is_an_error(model, option):
    with pytest.raises(UserError, match=next(iter(option))):
        ELMoEmbedder(model, device="cpu").surprisal([["the"]], **option)


def test_unknown_words_are_in_one_sum_and_not_in_the_other(model):
    (records,) = ELMoEmbedder(model, device="cpu").surprisal([["the", "unheard", "bank"]])
    with_unknown = np.array(records.total())
    without = np.array(records.total(unknown=False))
    np.testing.assert_allclose(with_unknown - without, [records[1].forward, records[1].backward])
    np.testing.assert_allclose(
        with_unknown, [sum(r.forward for r in records), sum(r.backward for r in records)]
    )


def test_a_stream_is_read_as_far_as_needed(model):
    endless = itertools.cycle(SENTENCES)
    embedder = ELMoEmbedder(model, 2, device="cpu")
    records = next(embedder.iter_surprisal(endless))
    assert records[0].token == SENTENCES[0][0]


def test_compare_is_the_difference_of_the_surprisals(model):
    good = [["the", "bank"], ["a", "river"]]
    bad = [["bank", "the"], ["unheard"]]
    found = ELMoEmbedder(model, batch_size=2, device="cpu").compare(good, bad)
    for comparison, better, worse in zip(found, good, bad, strict=True):
        bits_of_worse = bits(model, " ".join(worse)).sum(axis=0)
        bits_of_better = bits(model, " ".join(better)).sum(axis=0)
        forward, backward = bits_of_worse - bits_of_better
        assert comparison[:3] == pytest.approx((forward, backward, forward + backward), abs=1e-4)
    assert [comparison.in_vocabulary for comparison in found] == [True, False]
    with pytest.raises(UserError, match="2 good and 1 bad"):
        ELMoEmbedder(model, device="cpu").compare(good, bad[:1])
    with pytest.raises(UserError, match="by itself"):
        ELMoEmbedder(model, carry_state=True, device="cpu").compare(good, bad)
