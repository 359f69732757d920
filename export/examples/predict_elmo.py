"""ELMo's vectors of lines of tokens, separated by white space."""

from collections.abc import Iterator

from model_io import SETTINGS, Run, arrays, tokeniser


def predict(run: Run, lines: list[str], lang: str = SETTINGS["lang"]) -> Iterator[tuple[dict, str]]:
    """Yield the tokens of each line and their vectors, or the mean of these; and the vectors' shape, as text."""
    sentences = list(map(tokeniser(lang), lines))
    output = run(arrays(sentences))
    for row, tokens in enumerate(sentences):
        vectors = output[..., row, :] if SETTINGS["pool"] else output[..., row, : len(tokens), :]
        yield {"tokens": tokens, "vectors": vectors.tolist()}, f"vectors {vectors.shape}"
