"""Normal forms and hashes of sentences: what a model is given, and which sentences count as the same."""

import hashlib
import re
import unicodedata
from collections.abc import Callable

from dragoman.text.patterns import LazyPattern

BOM = "\ufeff"
WIDE = "[\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
"""Chinese and Japanese characters and their punctuation, which have no spaces between them, as a pattern."""
FIRST_DENSE = "\u2e80"
"""From here on Unicode has Chinese, Japanese and Korean, whose characters are words or syllables, not letters."""
CHARACTERS, DENSE_CHARACTERS = 4.0, 1.7
"""Characters of a token: 3.1 to 4.8 were measured in ten languages with letters, 1.4 in Chinese, 2.0 in Japanese."""
OPEN, CLOSE = "\ufdee", "\ufdef"
"""Begin and end of a label (see `dragoman.text.labels`)."""
INVISIBLE = "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
"""Characters without width, such as the soft hyphen and the zero-width space, as a part of a character class."""
NO_WORDS = "ªº"
"""Letters by Unicode that are no part of words: those of 1º and 2ª."""
_LABEL = re.compile(f"{OPEN}[a-z0-9-]* [a-z0-9-]+{CLOSE}")
_LINE_BREAK = re.compile(r"(?<![ \t\r\n])[ \t\r\n]*\n[ \t\r\n]*")
_WIDE_BREAK = LazyPattern(f"(?<={WIDE}){_LINE_BREAK.pattern}(?={WIDE})")
_LETTER = re.compile(r"[^\W\d_]")
_CODE = re.compile(r"(?<![^\W_])[A-Z]\d*(?![^\W_])")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def normalised(text: str) -> str:
    """The text in NFC without surrounding whitespace and BOM, as models are trained on it and given it."""
    return unicodedata.normalize("NFC", text.strip().strip(BOM).strip())


def one_line(text: str) -> str:
    """The text with each line break, and the spaces around it, as one space, or none within Chinese and Japanese.

    So the translation of a line is a line.
    """
    return _LINE_BREAK.sub(" ", _WIDE_BREAK.sub("", text)) if "\n" in text else text


def has_words(text: str) -> bool:
    """Whether there is anything to translate: a letter, which is not alone and in capitals as in "A", "B2" or "(C)"."""
    return has_letters(_CODE.sub("", text))


def has_letters(text: str) -> bool:
    """Whether a text has a letter that may be a word or a part of one."""
    return any(letter[0].isalpha() and letter[0] not in NO_WORDS for letter in _LETTER.finditer(text))


def well_formed(text: str) -> str:
    """Text that can be encoded: a lone surrogate, which JSON may hold, becomes U+FFFD."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def in_same_case(old: str, new: str, before: str, after: str, raised: Callable[[str], str] = str.upper) -> str:
    """Letters in lower case for others in any case, in the case of these; `before` and `after` are the letters beside.

    One capital letter tells nothing about a second one, nor none about any, so the letters beside them do: њ is written
    nj, Њ before a small letter Nj, and Њ before a capital NJ. `raised` gives the capitals of a language.
    """
    is_capital = old.isupper() if old else before.isupper()
    if is_capital and (after.isupper() or (not after.isalpha() and (len(old) != 1 or before.isupper()))):
        return raised(new)
    return raised(new[:1]) + new[1:] if old[:1].isupper() else new


def cut_label(text: str) -> tuple[str, str]:
    """The label of languages that a text begins with, or nothing, and the text without it."""
    label = _LABEL.match(text) if text.startswith(OPEN) else None
    return (label[0], text[label.end() :]) if label else ("", text)


def without_label(text: str) -> str:
    """A text without its label."""
    return cut_label(text)[1]


def share(pair: tuple[str, str], purpose: str) -> float:
    """A number from 0 to 1 that follows from the pair; those of different purposes are independent."""
    return int.from_bytes(text_hash("\t".join(pair), purpose.encode())) / 2**64


def split_key(pair: tuple[str, str], by: str) -> str:
    """The text by which pairs are held out: the source sentence, or with "line" the whole pair."""
    return folded(pair[0]) if by == "sentence" else "\t".join(pair)


def folded(source: str) -> str:
    """A source sentence without label, case, spacing and normalisation: they do not matter when pairs are held out."""
    return " ".join(unicodedata.normalize("NFC", without_label(source).casefold()).split())


def sentence_hash(source: str) -> bytes:
    """Hash of a source sentence that is the same for all that `folded` makes equal."""
    return text_hash(folded(source))


def text_hash(text: str, key: bytes = b"") -> bytes:
    """Hash of 8 bytes, the same in every process."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=key).digest()


def expected_tokens(text: str) -> float:
    """Estimate of the number of tokens of a text, with a vocabulary of some thousands."""
    return len(text) / (DENSE_CHARACTERS if max(text, default="") >= FIRST_DENSE else CHARACTERS)
