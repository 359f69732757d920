"""The language of a text, recognised by its characters, and text that was not segmented into words."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

from elmo_core.checks import as_list
from elmo_core.command import command_line
from elmo_core.messages import UserError, log
from elmo_core.text.segmenter import HAN, Segmenter
from elmo_core.text.text_files import read_sentences
from elmo_core.text.tokenise import CHINESE, LANGUAGES, Tokeniser

AUTO = "auto"  # recognise the language
CHOICES = (AUTO, *LANGUAGES)
KANA = re.compile("[\u3041-\u30ff]")
LETTERS = re.compile(r"[^\W\d_]+")
UNSPLIT = re.compile(r"[^\W\d_][.?!]\s*$")
PLAIN = "the rules for English, as for any text in plain Latin letters (other languages: `any`)"
SAMPLE, LONGEST = 10_000, 500  # texts or tokens that are looked at, and characters of each
LONGEST_WORD = 4  # Chinese characters of a token; the mean of segmented text is below two
UNSEGMENTED = (
    f"Is the text segmented into words? `{command_line('preprocess.py text')}`, jieba.lcut or "
    "encode_texts does that."
)


def recognise(texts: Iterable[str], words: Sequence[str] = ()) -> str:
    """Recognise the language of texts: zh, characters, en, or any, as in LANGUAGES.

    words: the vocabulary of the ELMo that reads the texts, by decreasing frequency. If it is Chinese, a tenth of Chinese
    characters among the texts' words is enough, otherwise half. Other texts are cut as those of the ELMo were.
    """
    of_elmo, has_characters = _language_of_words("\n".join(words[:SAMPLE]))
    of_texts = _language(
        " ".join(text[:LONGEST] for text in islice(texts, SAMPLE)), 0.1 if of_elmo == "zh" else 0.5
    )
    if of_texts == "zh" and has_characters:
        return "characters"
    if of_texts == "zh" or of_elmo in (None, "zh"):
        return of_texts or of_elmo or "en"
    return of_elmo


@lru_cache(8)  # an embedder asks for each of its texts
def _language_of_words(words: str) -> tuple[str | None, bool]:
    """Return the language of an ELMo's words, a line each, and whether it is Chinese by characters."""
    language = _language(words, 0.5)
    return language, language == "zh" and all(
        len(HAN.findall(word)) < 2 for word in words.split("\n")
    )


def _language(text: str, chinese: float) -> str | None:
    """The language of a text; None if it has no letters. chinese: least share of Chinese characters among its words."""
    n_han, words = len(HAN.findall(text)), LETTERS.findall(HAN.sub(" ", text))
    if not n_han and not words:
        return None
    if n_han >= chinese * (n_han + len(words)) and n_han > 5 * len(
        KANA.findall(text)
    ):  # Japanese has more kana
        return "zh"
    letters = "".join(words)
    return "en" if len(letters.encode("ascii", "ignore")) >= 0.99 * len(letters) else "any"


def choose_language(lang: str, texts: Iterable[str], words: Sequence[str] = ()) -> str:
    """Return `lang`; if it is "auto", the texts' language. Warns if it does not suit them. words: see `recognise`."""
    texts = [text[:LONGEST] for text in islice(texts, SAMPLE)]
    found = recognise(texts, words)
    if lang == AUTO:
        if any(map(LETTERS.search, texts)):
            log.info(
                f"language      {found}, {PLAIN if found == 'en' else 'recognised from the text'}"
            )
        return found
    if lang == "en" and found in CHINESE:
        log.warning(
            "The text has many Chinese characters, which the language `en` does not segment. Use `zh`."
        )
    if lang == "none":
        warn_if_unreadable("The text", chain.from_iterable(map(str.split, texts)))
        if _has_attached_marks(texts):
            log.warning(
                "Many lines end with a mark attached to a word. Text that is not tokenised needs "
                f"a `lang`, or `{command_line('preprocess.py text')}`."
            )
    return lang


def is_raw(texts: Sequence[str]) -> bool:
    """Tell whether texts seem to be raw, not tokens separated by white space."""
    tokens = [token for text in texts[:SAMPLE] for token in text.split()]
    return _has_attached_marks(texts[:SAMPLE]) or _phrase_length(tokens) > LONGEST_WORD


def _has_attached_marks(texts: Sequence[str]) -> bool:
    """Tell whether more than a tenth of the texts end with a mark that is attached to a word."""
    n_attached = sum(1 for text in texts if UNSPLIT.search(text))
    return n_attached > len(texts) / 10


def _phrase_length(tokens: Sequence[str]) -> float:
    """The mean number of Chinese characters of the tokens that have some; 0 if these are no more than a tenth of all."""
    lengths = [n for n in (len(HAN.findall(token)) for token in tokens) if n]
    return sum(lengths) / len(lengths) if len(lengths) > len(tokens) / 10 else 0.0


def make_tokeniser(
    lang: str,
    texts: Iterable[str],
    words: Sequence[str] = (),
    user_dict: Path | str | Sequence[str] | None = None,
) -> Tokeniser:
    """Make the tokeniser of texts. lang, words: see `choose_language`. user_dict: a dictionary for jieba."""
    lang = choose_language(lang, texts, words)
    user_dict = as_list(user_dict) or user_dict  # of an array, its items
    if user_dict and lang != "zh":
        raise UserError(
            f"`user_dict` has no effect with the language `{lang}`. Use `zh`, whose words are jieba's."
        )
    return Tokeniser(lang, Segmenter.from_file(user_dict) if user_dict else None)


def warn_if_unreadable(
    source: Path | str, tokens: Iterable[str] | None = None, words: Sequence[str] = ()
) -> None:
    """Warn of tokens that are phrases of Chinese, or in foreign characters, unlike `words`.

    source: a file, or the name of the tokens in the message. tokens: by default those of the file. words: see `recognise`.
    """
    tokens = chain.from_iterable(read_sentences(source)) if tokens is None else tokens
    sample = list(islice(tokens, SAMPLE))
    letters, alphabet = list(filter(str.isalpha, "".join(sample))), set("".join(words[:SAMPLE]))
    length = _phrase_length(sample)
    if length > LONGEST_WORD:
        log.warning(f"{source}: tokens have about {length:.0f} Chinese characters. {UNSEGMENTED}")
    elif words and sum(letter not in alphabet for letter in letters) > len(letters) / 2:
        log.warning(
            f"{source}: most letters are in no word of the model's vocabulary. Is it of another language?"
        )
