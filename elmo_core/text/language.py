"""The language of a text, recognised by its characters; text that was not segmented into words."""

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
# Thai, Lao, Tibetan, Burmese, Khmer, kana: scripts without spaces between words
UNSPACED = re.compile("[\u0e01-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff]")
LETTERS = re.compile(r"[^\W\d_]+")
UNSPLIT = re.compile(r"[^\W\d_][.?!]\s*$")
PLAIN = "the rules for English, as for any text in plain Latin letters (other languages: `any`)"
SAMPLE = 10_000  # texts or tokens that are looked at
LONGEST = 500  # characters of each that are looked at
LONGEST_WORD = 4  # Chinese characters of a token; the mean of segmented text is below two
UNSEGMENTED = (
    f"Is the text segmented into words? `{command_line('preprocess.py text')}`, jieba.lcut or "
    "encode_texts does that."
)


def recognise(texts: Iterable[str], words: Sequence[str] = ()) -> str:
    """Recognise the language of texts: zh, characters, en, or any, as in LANGUAGES.

    words: the vocabulary of the ELMo that reads the texts, by decreasing frequency. If it is
    Chinese, a tenth of Chinese characters among the texts' words is enough, otherwise half. Other
    texts are cut as those of the ELMo were.
    """
    of_elmo, has_characters = _language_of_words("\n".join(words[:SAMPLE]))
    sample = " ".join(text[:LONGEST] for text in islice(texts, SAMPLE))
    of_texts = _language(sample, least_chinese=0.1 if of_elmo == "zh" else 0.5)
    if of_texts == "zh":
        return "characters" if has_characters else "zh"
    if of_elmo not in (None, "zh"):
        return of_elmo
    return of_texts or of_elmo or "en"


@lru_cache(8)  # an embedder asks for each of its texts
def _language_of_words(words: str) -> tuple[str | None, bool]:
    """Return the language of an ELMo's words, a line each; and if it is Chinese by characters."""
    language = _language(words, least_chinese=0.5)
    if language != "zh":
        return language, False
    return language, all(len(HAN.findall(word)) < 2 for word in words.split("\n"))


def _language(text: str, least_chinese: float) -> str | None:
    """The language of a text; None if it has no letters.

    least_chinese: the least share of Chinese characters among the words of a Chinese text.
    """
    n_han = len(HAN.findall(text))
    n_kana = len(KANA.findall(text))
    words = LETTERS.findall(HAN.sub(" ", text))
    if not n_han and not words:
        return None
    is_japanese = n_han <= 5 * n_kana
    if n_han >= least_chinese * (n_han + len(words)) and not is_japanese:
        return "zh"
    letters = "".join(words)
    n_ascii = len(letters.encode("ascii", "ignore"))
    return "en" if n_ascii >= 0.99 * len(letters) else "any"


def choose_language(lang: str, texts: Iterable[str], words: Sequence[str] = ()) -> str:
    """Return `lang`; if it is "auto", the texts' language. Warns if it does not suit them.

    words: see `recognise`.
    """
    texts = [text[:LONGEST] for text in islice(texts, SAMPLE)]
    found = recognise(texts, words)
    if lang == AUTO:
        if any(LETTERS.search(text) for text in texts):
            reason = PLAIN if found == "en" else "recognised from the text"
            log.info(f"language      {found}, {reason}")
        return found
    if lang == "en" and found in CHINESE:
        log.warning(
            "The text has many Chinese characters, which the language `en` does not segment. "
            "Use `zh`."
        )
    if lang == "none":
        warn_if_unreadable("The text", chain.from_iterable(text.split() for text in texts))
        if _has_attached_marks(texts):
            log.warning(
                "Many lines end with a mark attached to a word. Text that is not tokenised needs "
                f"a `lang`, or `{command_line('preprocess.py text')}`."
            )
    return lang


def warn_if_without_spaces(texts: Iterable[str]) -> None:
    """Warn of texts in a script whose words the rules for any language cannot find."""
    sample = "".join(text[:LONGEST] for text in islice(texts, SAMPLE))
    n_letters = sum(1 for character in sample if character.isalpha())
    if len(UNSPACED.findall(sample)) > n_letters / 2:
        log.warning(
            "The text's script has no spaces between words: its characters become the tokens. For "
            "words, segment it first, for instance with PyThaiNLP or MeCab, one sentence per line "
            "with spaces between the words, and use `lang=none`."
        )


def is_raw(texts: Sequence[str]) -> bool:
    """Tell whether texts seem to be raw, not tokens separated by white space."""
    sample = texts[:SAMPLE]
    tokens: list[str] = []
    for text in sample:
        tokens.extend(text.split())
    return _has_attached_marks(sample) or _phrase_length(tokens) > LONGEST_WORD


def _has_attached_marks(texts: Sequence[str]) -> bool:
    """Tell whether more than a tenth of the texts end with a mark that is attached to a word."""
    n_attached = sum(1 for text in texts if UNSPLIT.search(text))
    return n_attached > len(texts) / 10


def _phrase_length(tokens: Sequence[str]) -> float:
    """The mean number of Chinese characters of the tokens that have some.

    0 if these are no more than a tenth of all.
    """
    numbers = [len(HAN.findall(token)) for token in tokens]
    chinese = [number for number in numbers if number]
    if len(chinese) <= len(tokens) / 10:
        return 0.0
    return sum(chinese) / len(chinese)


def make_tokeniser(
    lang: str,
    texts: Iterable[str],
    words: Sequence[str] = (),
    user_dict: Path | str | Sequence[str] | None = None,
) -> Tokeniser:
    """Make the tokeniser of texts.

    lang, words: see `choose_language`. user_dict: a dictionary for jieba.
    """
    lang = choose_language(lang, texts, words)
    dictionary = as_list(user_dict) or user_dict  # of an array, its items
    if not dictionary:
        return Tokeniser(lang)
    if lang != "zh":
        raise UserError(
            f"`user_dict` has no effect with the language `{lang}`. "
            "Use `zh`, whose words are jieba's."
        )
    return Tokeniser(lang, Segmenter.from_file(dictionary))


def warn_if_unreadable(
    source: Path | str, tokens: Iterable[str] | None = None, words: Sequence[str] = ()
) -> None:
    """Warn of tokens that are phrases of Chinese, or in foreign characters, unlike `words`.

    source: a file, or the name of the tokens in the message. tokens: by default those of the file.
    words: see `recognise`.
    """
    if tokens is None:
        tokens = chain.from_iterable(read_sentences(source))
    sample = list(islice(tokens, SAMPLE))
    length = _phrase_length(sample)
    if length > LONGEST_WORD:
        log.warning(f"{source}: tokens have about {length:.0f} Chinese characters. {UNSEGMENTED}")
        return
    letters = [character for character in "".join(sample) if character.isalpha()]
    alphabet = set("".join(words[:SAMPLE]))
    n_foreign = sum(letter not in alphabet for letter in letters)
    if words and n_foreign > len(letters) / 2:
        log.warning(
            f"{source}: most letters are in no word of the model's vocabulary. "
            "Is it of another language?"
        )
