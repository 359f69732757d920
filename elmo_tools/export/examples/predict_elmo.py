"""ELMo's vectors of lines of tokens, separated by white space."""

from collections.abc import Iterator

from model_io import Run, arrays


def predict(run: Run, lines: list[str]) -> Iterator[tuple[dict, str]]:
    """Yield the tokens of each line and their vectors; and the vectors' shape, as text."""
    sentences = [line.split() for line in lines]
    (output,) = run(arrays(sentences))
    for row, tokens in enumerate(sentences):
        vectors = output[..., row, : len(tokens), :]
        yield {"tokens": tokens, "vectors": vectors.tolist()}, f"vectors {vectors.shape}"
