"""Messages of software, as catalogues hold them: finds the texts in them, line by line and branch by branch.

A message may have placeholders that prose has not, such as `:name`, the mark of an access key as in `&Open`, plural
forms as ICU writes them, and lines each of which is translated by itself. `is_language` tells messages from identifiers
such as `icon-home`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from dragoman.documents.document import Code, Content, has_words
from dragoman.text.scripts import is_unspaced
from dragoman.text.tokenizers.placeholders import LITERAL

_TAG = r"""</?(?P<name>[A-Za-z0-9][\w:.-]*)(?:\s+(?:[\w:.@-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>=]+)
    | (?:checked|controls|disabled|download|hidden|novalidate|readonly|required|selected)\b
    | [%{$][^\s<>]*))*+\s*(?P<empty>/?)>"""
# Placeholders of messages alone: :name of Laravel, [[name]], __name__, ~name~, and \n as two characters.
_CODE = re.compile(
    rf"""(?P<tag>{_TAG}) | <!--[^<>]*--> | \{{\\[^{{}}\n]*\}}
    | (?P<word>{LITERAL}
      | \[\[[^\[\]\n]{{1,80}}\]\] | (?<!\w)__[A-Za-z0-9][\w.-]{{0,80}}__(?!\w) | ~[A-Za-z_]\w{{0,80}}~
      | (?<![\w:/]):[A-Za-z_]\w*+(?![\w:])
      | \\[rnt](?![a-z]) )""",
    re.VERBOSE | re.DOTALL,
)
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


# ---- tags and placeholders ----


def codes_of(text: str, *, branch: bool = False) -> Content:
    """The text of a message with its tags and placeholders as codes; in a `branch` of a plural, `#` is one too."""
    content: list[str | Code] = []
    last = 0
    for match in _CODE.finditer(text):
        content += [text[last : match.start()], _code(match)]
        last = match.end()
    content.append(text[last:])
    if branch:
        content = [piece for part in content for piece in (_with_hashes(part) if isinstance(part, str) else [part])]
    return [part for part in content if part != ""]


def _code(match: re.Match[str]) -> Code:
    if match["tag"] is None:
        return Code(match[0], "word" if match["word"] else "alone")
    name = match["name"]
    if match["empty"] or name.lower() in _VOID:
        return Code(match[0], "break" if name.lower() == "br" else "alone")
    return Code(match[0], "close" if match[0].startswith("</") else "open", name)


def _with_hashes(text: str) -> Iterator[str | Code]:
    """The text with each number sign, which ICU replaces by the number, as a code for a word."""
    first, *others = text.split("#")
    yield first
    for other in others:
        yield Code("#", "word")
        yield other


# ---- values that are not translated ----


@dataclass(frozen=True)
class Reason:
    """Why values are left as they are: the end of a sentence about one value, and of one about several."""

    one: str
    several: str


IDENTIFIER = Reason("looks like an identifier", "look like identifiers")
FORMS = Reason("has ICU forms in the midst of a sentence", "have ICU forms in the midst of a sentence")
MOST_SHOWN = 60
"""Most characters of a value that are shown to a person."""


@dataclass
class SkippedValues:
    """Counts and samples of values that are left as they are, by the reason."""

    counts: Counter[Reason] = field(default_factory=Counter)
    samples: dict[Reason, str] = field(default_factory=dict)

    def add(self, reason: Reason, value: str) -> None:
        """Count a value."""
        self.counts[reason] += 1
        self.samples.setdefault(reason, value if len(value) <= MOST_SHOWN else value[:MOST_SHOWN] + "…")

    def notes(self) -> list[str]:
        """Sentences that follow the name of the document."""
        notes = []
        for reason, count in self.counts.items():
            sample = repr(self.samples[reason])
            if count == 1:
                notes.append(f"has 1 value that {reason.one}, {sample}, and was left as it is.")
            else:
                notes.append(
                    f"has {count:,} values that {reason.several}, such as {sample}, and were left as they are."
                )
        return notes


# ---- the texts of a message ----


@dataclass(frozen=True)
class Piece:
    """A part of a message that is translated by itself."""

    start: int
    end: int
    content: Content
    wrap: Callable[[str], str] = str
    """Changes the translation, such as by putting the mark of an access key into it."""


# Texts of a message are separated by line breaks, also as two characters, by tabs, and by bars between plural forms.
_SEPARATOR = re.compile(r"[\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+|(?:\\r)?\\n(?![a-z])|\\t(?![a-z])")
_NUMBERS = r"(?:\{\d+\}|[\[\]](?:\d+|-?Inf|\*),\s*(?:\d+|-?Inf|\*)[\[\]])"
"""The numbers for which a plural form is used, as Laravel and Symfony write them: {0}, [1,19], [20,*]."""
_INTERVAL = re.compile(rf"{_NUMBERS}\s+")
_BAR = re.compile(rf"\s*\|\s*(?:{_NUMBERS}\s*)?")
_SEPARATOR_OR_BAR = re.compile(f"{_SEPARATOR.pattern}|{_BAR.pattern}")


def pieces_of(message: str, skipped: SkippedValues, *, bars: bool = False) -> list[Piece]:
    """The texts of a message. With `bars`, texts are also separated by `|`, which stands between plural forms.

    A message that cannot be divided is counted as skipped.
    """
    if is_icu(message):
        branches = icu_branches(message)
        if branches is None:
            skipped.add(FORMS, message)
            return []
        return [piece for start, end in branches for piece in _pieces(message, start, end, branch=True)]
    separator, start = _SEPARATOR, 0
    if bars and "|" in message:
        separator = _SEPARATOR_OR_BAR
        if interval := _INTERVAL.match(message):
            start = interval.end()
    pieces: list[Piece] = []
    for match in separator.finditer(message, start):
        pieces += _pieces(message, start, match.start())
        start = match.end()
    pieces += _pieces(message, start, len(message))
    return pieces


def _pieces(message: str, start: int, end: int, *, branch: bool = False) -> Iterator[Piece]:
    """The piece between two positions, without the spaces around it; none if it has no words."""
    text = message[start:end]
    core = text.strip()
    start += len(text) - len(text.lstrip())
    wrap: Callable[[str], str] = str
    if branch:
        content, wrap = branch_content(core)
    elif key := _find_access_key(core):
        content, wrap = codes_of(key.plain), key.marked
    else:
        content = codes_of(core)
    if has_words(content):
        yield Piece(start, start + len(core), content, wrap)


def branch_content(text: str) -> tuple[Content, Callable[[str], str]]:
    """The content of a branch, and a function that spells its translation as ICU reads it.

    One apostrophe before a brace or a number sign would quote that, and the end of a branch is a brace; two are an
    apostrophe. Where the source has two of them, so has the translation.
    """
    is_doubled = "''" in text
    content = codes_of(text.replace("''", "'") if is_doubled else text, branch=True)
    return content, partial(re.sub, "'" if is_doubled else r"'(?=[{}#|]|\Z)", "''")


# ---- access keys ----

MOST_OF_A_LABEL = 200
"""Most characters of a message that may have an access key."""
_LETTER = re.compile(r"[^\W\d_]")
_KEY_MARK = re.compile(r"(?<![^\s(\"'>])[&_~](?=[^\W\d_])|(?<=[A-Za-z])[&_~](?=[a-z])")
_CAPITALISED = re.compile(r"(?<!\S)[A-Z][a-z]*\Z")


@dataclass(frozen=True)
class _AccessKey:
    """The letter of a message that is pressed to choose it, as in `&Open` and `E_xit`."""

    plain: str
    """The message without the mark."""
    mark: str
    letter: str

    def marked(self, text: str) -> str:
        """The translation with the mark before the same letter, best at the start of a word, or the first letter."""
        free = [match.start() for match in _outside_codes(_LETTER, text)]
        same = [position for position in free if text[position].casefold() == self.letter.casefold()]
        first = [position for position in same if not text[position - 1 : position].isalnum()]
        if same or (free and not is_unspaced(text)):
            position = (first or same or free)[0]
            return text[:position] + self.mark + text[position:]
        return f"{text}({self.mark}{self.letter.upper()})"  # as translators do it in Chinese and Japanese


def _find_access_key(text: str) -> _AccessKey | None:
    """The access key of a message that has the mark of one, and only one: not `snake_case`, and not AT&T."""
    if len(text) > MOST_OF_A_LABEL or not any(mark in text for mark in "&_~"):
        return None
    marks = [match.start() for match in _outside_codes(_KEY_MARK, text)]
    marks = [
        position for position in marks if not text[:position][-1:].isalpha() or _CAPITALISED.search(text[:position])
    ]
    if len(marks) != 1 or text.count(text[marks[0]]) != 1:
        return None
    (position,) = marks
    return _AccessKey(text[:position] + text[position + 1 :], text[position], text[position + 1])


def _outside_codes(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches of a pattern that begin outside of tags and placeholders."""
    codes = [match.span() for match in _CODE.finditer(text)]
    for match in pattern.finditer(text):
        if not any(start <= match.start() < end for start, end in codes):
            yield match


# ---- plurals and other forms as ICU writes them ----

_COMPLEX = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal|choice)\s*,")
_ICU_HEAD = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset\s*:\s*\d+\s*)?")
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
_QUOTED_BRACE = re.compile(r"'[{}|]|'#")
_BRACE = re.compile("[{}]")
_ARGUMENT = re.compile(r"\{[^{}]*\}")
_CLOSING = re.compile(r"\s*\}")


def is_icu(message: str) -> bool:
    """Whether a message has forms as ICU writes them: `{count, plural, one {# file} other {# files}}`."""
    return _COMPLEX.search(message) is not None


@dataclass
class _Branch:
    """A branch of a message while it is read, or the message as a whole."""

    start: int
    has_branches: bool = False
    """Whether an argument inside has branches of its own."""
    texts_beside: list[str] = field(default_factory=list)
    """The texts beside arguments with branches."""

    def has_words_beside(self, *, branch: bool) -> bool:
        """Whether there are words beside arguments with branches."""
        return has_words(codes_of("".join(self.texts_beside), branch=branch))


def icu_branches(message: str) -> list[tuple[int, int]] | None:
    """Start and end of each text in the branches of a message of ICU, also of branches inside of branches.

    None where a sentence would be cut: if there are words beside an argument with branches, or quoted braces.
    """
    if _QUOTED_BRACE.search(message.replace("''", "")):
        return None
    texts: list[tuple[int, int]] = []
    current = _Branch(0)
    outer: list[_Branch] = []
    position = 0
    while brace := _BRACE.search(message, position):
        index = brace.start()
        current.texts_beside.append(message[position:index])
        if brace[0] == "{" and (head := _ICU_HEAD.match(message, index)):
            first = _SELECTOR.match(message, head.end())
            if first is None:
                return None
            current.has_branches = True
            outer.append(current)
            current, position = _Branch(first.end()), first.end()
        elif brace[0] == "{":
            argument = _ARGUMENT.match(message, index)
            if argument is None or _COMPLEX.match(message, index):
                return None
            current.texts_beside.append("x")  # its value may be a word
            position = argument.end()
        else:
            if not outer:  # a closing brace that nothing opens
                return None
            if not current.has_branches:
                texts.append((current.start, index))
            elif current.has_words_beside(branch=True):
                return None
            if following := _SELECTOR.match(message, index + 1):
                current, position = _Branch(following.end()), following.end()
                continue
            closing = _CLOSING.match(message, index + 1)
            if closing is None:
                return None
            current, position = outer.pop(), closing.end()
    current.texts_beside.append(message[position:])
    is_whole = not outer and current.has_branches and not current.has_words_beside(branch=False)
    return texts if is_whole else None


# ---- language and identifiers ----

_OUTER = " \t\r\n.,;:!?…¡¿()[]{}\"'“”‘’„«»*•·—–-"
_WORDS = re.compile(
    r"""[A-Z]?[a-z]+|[A-Z][a-z]*(?:[A-Z][a-z]+)*   # Save, save, HomePage
    | [A-Z]+(?:s|'s)? | [A-Z\d]*[A-Z][A-Z\d]*        # OK, PDFs, 3D, MP3
    | [A-Z][a-z]+\d{1,3}                             # Step1
    | [A-Z][A-Za-z]*(?:-[A-Za-z]+)+ | [A-Z]+(?:-[A-Z]+)+  # Wi-Fi, Sign-in, READ-ONLY
    | [A-Za-z]+(?:''|['’])[A-Za-z]+ | [A-Za-z]+\([a-z]{1,3}\)?   # Don't, Don''t, file(s)
    | (?:[A-Za-z]\.)+[A-Za-z]? | [A-Z]\+{0,2}\#?     # U.S., C++, C#
    """,
    re.VERBOSE,
)
_ALTERNATIVES = re.compile(r"(?=.{0,80}\Z)[A-Z][\w'’-]*(?:[/,&+][A-Za-z][\w'’-]*)+|[a-z]{2,4}/[a-z]{2,4}")
_ZONE = re.compile(r"(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)/\w.*", re.DOTALL)
_KEYBOARD = re.compile(r"(?:Ctrl|Alt|Shift|Cmd|Meta|Super|Win|Option|Fn)\+.*", re.IGNORECASE | re.DOTALL)
_LOCALE = re.compile(r"[a-z]{2,3}[-_](?:[A-Z][a-z]{3}|[A-Z]{2}|\d{3})(?:[-_][A-Z]{2})?")
_CLASSES = re.compile(r"[a-z\d][a-z\d:/_.-]*+(?:\s++[a-z\d][a-z\d:/_.-]*+)+")
_DATE_PATTERN = re.compile(r"(?=.{0,40}\Z)(?=.*([yYMdDhHms])\1)(?:([yYMdDEeHhmsSaAzZXLkK])\2*+|[\s.,:/T'-])++")
_CODED = re.compile(r"[0-9A-Fa-f]{8,}|(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[A-Za-z\d+/]{16,}={0,2}")
_SPACE = re.compile(r"\s")
_NOT_ASCII_LETTER = re.compile(r"(?![A-Za-z])[^\W\d_]")


def is_language(value: str) -> bool:
    """Whether a value with letters is text in a language, not an identifier, a path, a colour, a class or the like."""
    core = value.strip()
    if len(core) > MOST_OF_A_LABEL:
        return _SPACE.search(core) is not None or _NOT_ASCII_LETTER.search(core) is not None
    if "()" in core:
        return _SPACE.search(core) is not None
    key = _find_access_key(core)
    core = _CODE.sub(" ", key.plain if key else core).strip(_OUTER)
    if not _LETTER.search(core) or _NOT_ASCII_LETTER.search(core):
        return True
    if _DATE_PATTERN.fullmatch(core):
        return False
    if _SPACE.search(core):
        return not (_CLASSES.fullmatch(core) and _are_classes(core.split()))
    if any(pattern.fullmatch(core) for pattern in (_CODED, _LOCALE, _ZONE, _KEYBOARD)):
        return False
    if _ALTERNATIVES.fullmatch(core):
        return all(map(_has_vowel, core.split("/"))) if core.islower() else True
    return bool(_WORDS.fullmatch(core)) and not (core[0].islower() and not core.islower() and "'" not in core)


def _has_vowel(word: str) -> bool:
    return not {*"aeiouy"}.isdisjoint(word)


def _are_classes(words: Sequence[str]) -> bool:
    """Whether words in small letters are class names of a style sheet, such as `btn btn-primary`."""
    marked = [word for word in words if not word.isalpha()]
    names = {*words}
    return 2 * len(marked) > len(words) or any(word.partition("-")[0] in names for word in marked if "-" in word)
