"""Raw text to sentences and tokens: English, Chinese, and any script.

English tokens follow the 1 Billion Word corpus. Punctuation, currencies and clitics are separate
tokens (`$ 2,900`, `it 's`, `7 / 10`); hyphenated words and dotted abbreviations stay whole
(`U.S.-led`); quotation marks, apostrophes and dashes become ASCII; an abbreviation's full stop is
not doubled at the end of a sentence. Two deliberate differences: `do n't`, where that corpus has
`don 't`; and missing spaces are restored (`fun--really`, `bad.The`).

Chinese words are jieba's, or characters; a sentence includes its closing quotation marks and
brackets.

Any other script: words as in Unicode's UAX 29. Where a script has no spaces, they are single
characters (Chinese) or combinations of a character with its marks (Thai, Lao, Khmer, Burmese).
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain

from elmo_core.messages import UserError
from elmo_core.text.segmenter import Segmenter, segmenter

HAS_WORD = re.compile(r"[^\W_]")
# In a tag, only attributes follow the name: `x<b or y>b` and `0 <p and p> 1` are plain text.
ATTRIBUTE = r"""[\w:.-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+)"""
ATTRIBUTES = rf"(?:\s+(?:{ATTRIBUTE}|nowrap|noshade|compact))*\s*/?>"
BREAK = re.compile(
    rf"</?(?:br|p|div|li|ul|ol|tr|td|h[1-6]|hr){ATTRIBUTES}|[\r\n\v\f\u2028\u2029]", re.IGNORECASE
)
# With the semicolon: `?a=1&section=2` has none.
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w+);")
TAG = re.compile(
    rf"</?(?:a|b|i|u|s|em|strong|span|font|sup|sub|small|big|center|img){ATTRIBUTES}", re.IGNORECASE
)
JOINERS = r"\u200c\u200d"  # which Persian needs
INVISIBLE_BUT_JOINERS = (
    r"\x00-\x08\x0e-\x1b\x7f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef"
)
INVISIBLE = re.compile(f"[{INVISIBLE_BUT_JOINERS}{JOINERS}]")
NOT_JOINING = re.compile(f"[{INVISIBLE_BUT_JOINERS}]")
# C1 controls are Windows-1252 read as latin-1, and mapped accordingly, as in HTML. Free-standing
# accents are meant as apostrophes and quotation marks.
WINDOWS_1252 = {
    code: bytes([code]).decode("cp1252", "ignore") or None for code in range(0x80, 0xA0)
}
CP1252_FIXES = WINDOWS_1252 | str.maketrans({"´": "'", "¨": '"'})


def paragraphs(line: str, form: str = "NFC", invisible: re.Pattern = INVISIBLE) -> list[str]:
    """Return the paragraphs of a line of raw text.

    They are without HTML and invisible characters, and have single spaces.
    """
    is_marked_up = "<" in line or "&" in line
    found = []
    for part in BREAK.split(line):
        if is_marked_up:
            part = ENTITY.sub(_entity, TAG.sub("", part))
        if is_marked_up or not line.isascii():
            part = unicodedata.normalize(form, part.translate(CP1252_FIXES))
        part = " ".join(invisible.sub("", part).split())
        if part:
            found.append(part)
    return found


def _entity(match: re.Match) -> str:
    return html.unescape(match[0])


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# English abbreviations without their last full stop. NEVER_LAST do not end a sentence. TITLES
# always keep their full stop, NUMBERED before a number. After SELDOM_LAST, a sentence begins only
# with one of STARTERS.
NEVER_LAST = _set("mr mrs ms dr messrs mme mlle prof st vs v cf e.g i.e eg ie feat ft approx esp")
TITLES = NEVER_LAST | _set(
    "adj adm adv asst bldg brig capt cmdr col comdr corp cpl drs ens gen gov hon insp lt maj msgr "
    "mt op ord pfc ph.d pvt rep reps rev rt sen sens sfc sgt sr supt surg"
)
NUMBERED = _set(
    "no nos nr p pp vol vols fig ch ca c jan feb mar apr jun jul aug sep sept oct nov dec"
)
SELDOM_LAST = TITLES | _set(
    "inc ltd co bros jr calif fla conn mich tenn minn wis ariz okla ave blvd dept univ assn est al "
    "incl resp viz aka dist"
)
ABBREVIATIONS = SELDOM_LAST | NUMBERED | _set("etc ect min max sec hr hrs lb lbs oz mins www")
STARTERS = _set(
    "a after all also although an and another any as at be because before both but by can could "
    "despite did do does during each even every everyone everything few for from had has have he "
    "her here his how however i if in is it it's its just let like many maybe most my nobody none "
    "nor not nothing now of oh on once one only or other others our overall perhaps please she "
    "should since so some someone still such than that that's the their then there there's these "
    "they this those though thus to two under unless until was we well were what when where "
    "whether which while who whoever why will with without would yes yet you your"
)

W = r"[\w\u0300-\u036f]"  # a word character
SENTENCE_END = re.compile(
    r"""(?<![.!?])([.!?]+(?: [.!?]+)*)(["')\]}]*)(?:( +)|(?=[("]?[^\W\d_]))"""
)
LAST_WORD = re.compile(r"""(?!')[^\s"(\[/:;,]*$""")
NEXT_WORD = re.compile(r"[\w']*\.?")
INITIALS = re.compile(r"[A-Z]|(?:\w+-)?(?:[^\W\d_]\.)+[^\W\d_]")
FULL_STOP = re.compile(rf"(?<=[^\s.])\.(?!\.|-?{W})")  # at the end of a word
NEGATION = re.compile(r"(?<=[^\W\d_])n't(?!\w)", re.IGNORECASE)
TOKEN = re.compile(
    rf"""n't(?!{W}) | N'T(?!{W})
       | (?: (?<=[^\W\d_])'(?=[^\W\d_]) | (?<=\d)'(?=s(?!{W}))  # a clitic: 's, 're, and O 'Neill
           | (?<=["')\]])-                                      # "round"-like
           | (?<![^\s(\[$£€])[-.](?=\d) )?                      # -5, .302
         {W}+ (?: (?: [.-] | \.- | (?<=\d),(?=\d) ) {W}+ )*     # 2,900, U.S.-led
         (?: \.(?!\.) | -(?=\s(?:and|or|to)\b) )?               # Mr., mid- to late
       | \.{{2,}} | -{{2,}} | \S""",
    re.VERBOSE,
)
ASCII_MARKS = str.maketrans(
    {
        "“": '"',
        "”": '"',
        "„": '"',
        "‟": '"',
        "‘": "'",
        "’": "'",
        "‚": "'",
        "‛": "'",
        "`": "'",
        "—": " -- ",
        "―": " -- ",
        "…": "...",
        "‐": "-",
        "‑": "-",
        "_": " _ ",
    }
)
DASH_IN_NUMBER = re.compile(r"(?<=\d)–(?=\d)")
SPACED_DOTS = re.compile(r"(?<!\.)\.(?: \.)+(?![.\w])")


def english(paragraph: str) -> Iterator[list[str]]:
    """Yield the sentences of an English paragraph, each a list of tokens.

    In the style of the 1 Billion Word corpus.
    """
    text = DASH_IN_NUMBER.sub("-", paragraph)
    text = text.replace("–", " - ")
    text = text.translate(ASCII_MARKS)
    text = text.replace("''", '"')
    text = SPACED_DOTS.sub(_without_spaces, text)
    for sentence in split_english(text):
        sentence = FULL_STOP.sub(_full_stop, sentence)
        sentence = NEGATION.sub(r" \g<0>", sentence)
        yield TOKEN.findall(sentence)


def _without_spaces(dots: re.Match) -> str:
    return dots[0].replace(" ", "")


def split_english(text: str) -> list[str]:
    """Return the sentences of a paragraph."""
    sentences = []
    start = 0
    word = _next_word(text, 0)
    for match in SENTENCE_END.finditer(text):
        if word < match.start() and _ends_sentence(text, start, match):
            sentences.append(text[start : match.end()].rstrip())
            start = match.end()
            word = _next_word(text, start)
    if start < len(text):
        sentences.append(text[start:])
    return sentences


def _next_word(text: str, start: int) -> int:
    """Return the position of the next letter or digit, or the end of the text."""
    match = HAS_WORD.search(text, start)
    return match.start() if match else len(text)


def _ends_sentence(text: str, start: int, match: re.Match) -> bool:
    """Tell whether a match of SENTENCE_END ends the sentence that begins at `start`."""
    marks, closed, gap = match.groups()
    before = text[max(start, match.start() - 40) : match.start()].rstrip()
    word = LAST_WORD.search(before)[0].rstrip(")]'")
    key = word.lower()
    after = text[match.end() : match.end() + 40].lstrip("\"'([{")
    first = after[:1]
    follower = NEXT_WORD.match(after)[0]
    if first and first in ",;:.!?)":
        return False
    if not gap:
        return _is_missing_space(word, marks, closed, follower)
    if "!" in marks or "?" in marks:
        is_name = bool(closed) or word.istitle()  # Yahoo! said
        return not (first.islower() and is_name)
    if len(marks) > 1:
        return not first.islower()
    if first.islower():
        return not closed and (word.isdigit() or _is_plain_word(word))
    if closed:
        return True
    is_list_number = text[start : match.start()].isdigit()
    if key in NEVER_LAST or (key in NUMBERED and first.isdigit()) or is_list_number:
        return False
    if key in ("a.m", "p.m"):
        is_time_zone = follower.isupper() and 1 < len(follower) < 5  # 5 p.m. EST
        return not is_time_zone
    if key in SELDOM_LAST or INITIALS.fullmatch(word):
        return follower.lower() in STARTERS or word == "I"
    return True


def _is_plain_word(word: str) -> bool:
    """Tell whether a word is no abbreviation, as far as one can see."""
    shortest = 2 if word.islower() else 4
    return len(word) >= shortest and "." not in word and word.lower() not in ABBREVIATIONS


def _is_missing_space(word: str, marks: str, closed: str, follower: str) -> bool:
    """Tell whether a sentence ends without a space.

    It does in bad.The, but not in imdb.com, Node.Js, F.E.A.R., well...then.
    """
    is_starter = follower.lower() in STARTERS
    is_capital = follower[:1].isupper()
    if len(word) < 2 or "." in word or word.lower() in ABBREVIATIONS or closed not in ("", ")"):
        return False
    is_ordinary = word.isalpha() and word[-2:].islower()
    if closed or ".." in marks or not is_ordinary:
        return is_starter and is_capital
    return is_starter or (is_capital and word.islower())


def _full_stop(match: re.Match) -> str:
    """Return the full stop at the end of a word: a separate token unless it belongs to the word."""
    text = match.string
    end = match.end()
    word = LAST_WORD.search(text, max(0, end - 40), end - 1)[0]
    key = word.lower()
    rest = text[end : end + 2].strip()
    if key in NUMBERED and rest.isdigit():
        belongs = True
    elif len(word) == 1 and word.isupper():
        belongs = rest[:1].isalnum()
    else:
        belongs = rest[:1].islower() or INITIALS.fullmatch(word) or (key in TITLES and rest)
    return "." if belongs else " ."


SENTENCE_END_ZH = re.compile(
    r"(?:[。！？｡…]|[!?](?![A-Za-z0-9])|\.{3,}|(?<=[\u4e00-\u9fff])\.(?![A-Za-z0-9.]))+"
    r"([”’」』）】》〉〕)\]}]*)"
)
CONTINUES_ZH = re.compile(r"\s*[，、；：,;:。！？…!?]")
SPLIT_RUN_ZH = re.compile(r"(?<=…) (?=…)|(?<=—) (?=—)|(?<=[０-９Ａ-Ｚａ-ｚ]) (?=[０-９Ａ-Ｚａ-ｚ])")


def chinese(paragraph: str, segment: Segmenter | None = None) -> Iterator[list[str]]:
    """Yield the sentences of a Chinese paragraph, each a list of words.

    segment: by default jieba without a dictionary.
    """
    cut = (segment or segmenter()).cut
    for sentence in split_chinese(paragraph):
        yield SPLIT_RUN_ZH.sub("", " ".join(cut(sentence))).split()


def characters(paragraph: str) -> Iterator[list[str]]:
    """Yield the sentences of a Chinese paragraph, each a list of characters."""
    for sentence in split_chinese(paragraph):
        yield [character for character in sentence if not character.isspace()]


def split_chinese(text: str) -> list[str]:
    """Return the sentences of a paragraph.

    A straight quotation mark is closing if an odd number precedes it.
    """
    sentences = []
    start = 0
    word = _next_word(text, 0)
    quotes = 0  # straight quotation marks before `counted`
    counted = 0
    for match in SENTENCE_END_ZH.finditer(text):
        mark = match.start()
        end = match.end()
        if text.startswith('"', end):
            quotes += text.count('"', counted, end)
            counted = end
            if quotes % 2 == 1:
                end += 1
        before = text[max(start, mark - 30) : mark]
        after = text[mark : mark + 30]
        in_title = before.rfind("《") > before.rfind("》") and "》" in after
        if not in_title and word < mark and not CONTINUES_ZH.match(text, end):
            sentences.append(text[start:end].strip())
            start = end
            word = _next_word(text, end)
    rest = text[start:].strip()
    if rest:
        sentences.append(rest)
    return sentences


SENTENCE_END_ANY = r"""
    (?<! [.!?…] ) (?: (?: [.…]++ CLOSE*+ | [.!?…]++ CLOSE++ )
        (?! \s+ \P{L}{0,3} \p{Ll} )                       # 2.000 Euro usw. und; «Nein!» rief er
        (?<! \b (?: [\p{Lu}\p{Ll}] | \d{1,2} ) \. )       # J. S. Bach, am 3. März
      | [.…]*+ [!?] [.!?…]*+ | (?<= \p{Greek} ) ;
    ) (?= \s | $ )
    # 。 ؟ ।, also without a space:
    | (?<! [[\p{SB=STerm}．]--[.!?]] ) [[\p{SB=STerm}．]--[.!?]]++ [\p{Pe}\p{Pf}"']*+
"""
CONTINUES_ANY = r"\s*+ [\p{SB=SContinue}\p{SB=STerm}\p{SB=ATerm}]"


@cache
def any_patterns() -> tuple:
    """Return the patterns of word boundaries and of sentence ends in any script."""
    import regex

    end = SENTENCE_END_ANY.replace("CLOSE", r"""[\p{Pe}\p{Pf}\p{Pi}"']""")
    end = regex.compile(rf"(?:{end})(?!{CONTINUES_ANY})", regex.VERSION1 | regex.VERBOSE)
    return regex.compile(r"\b", regex.VERSION1 | regex.WORD), end


def any_script(paragraph: str) -> Iterator[list[str]]:
    """The sentences of a paragraph, each a list of UAX 29's words.

    Thai, for one, has no marks at the end of sentences.
    """
    word_break, sentence_end = any_patterns()
    start = 0
    word = _next_word(paragraph, 0)
    ends = [match.end() for match in sentence_end.finditer(paragraph)]
    ends.append(len(paragraph))
    for end in ends:
        if start < end and (end == len(paragraph) or word < end):
            pieces = " ".join(word_break.split(paragraph[start:end])).split()
            tokens = [piece for piece in pieces if piece.strip("\u200c\u200d")]
            if tokens:
                yield tokens
            start = end
            word = _next_word(paragraph, end)


CHINESE = ("zh", "characters")
# characters: Chinese ones; none: split at white space
LANGUAGES = ("en", "zh", "characters", "any", "none")


@dataclass(frozen=True)
class Tokeniser:
    """Splits raw text into sentences and tokens.

    lang: of LANGUAGES. segment: of Chinese words, see `chinese`.
    """

    lang: str
    segment: Segmenter | None = None

    def sentences(self, line: str, form: str = "NFC") -> list[list[str]]:
        """Return the sentences of a line of raw text, each a list of tokens."""
        if self.lang not in LANGUAGES:  # "auto" is resolved before
            raise UserError(f"`lang` is {self.lang!r:.60}, expected one of {', '.join(LANGUAGES)}.")
        if self.lang == "none":
            tokens = line.split()
            return [tokens] if tokens else []
        splitters = {
            "en": english,
            "zh": partial(chinese, segment=self.segment),
            "characters": characters,
            "any": any_script,
        }
        split = splitters[self.lang]
        invisible = NOT_JOINING if self.lang == "any" else INVISIBLE
        found: list[list[str]] = []
        for paragraph in paragraphs(line, form, invisible):
            found.extend(split(paragraph))
        return found

    def __call__(self, text: str) -> list[str]:
        """Return the tokens of a text, as `preprocess.py text` makes them.

        In English these are `it 's`, `do n't`, and no HTML. rt-polarity itself does not split
        clitics (`it's`): vectors trained on such a corpus lack these words.
        """
        return list(chain.from_iterable(self.sentences(text)))
