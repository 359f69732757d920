"""Raw text split into sentences of tokens, which are joined by spaces."""

from elmo_core.text import tokenise


def english(raw: str, **options) -> list[str]:
    return [" ".join(s) for p in tokenise.paragraphs(raw) for s in tokenise.english(p, **options)]


def chinese(raw: str, form: str = "NFC") -> list[str]:
    return [" ".join(s) for p in tokenise.paragraphs(raw, form) for s in tokenise.chinese(p)]
