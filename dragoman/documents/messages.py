"""Messages of software, as catalogues hold them: what in them is language, line by line and branch by branch.

A message has placeholders that prose has not, such as `:name`, marks of a key as in `&Open`, forms for the plural as
ICU writes them, and lines of which each is translated by itself. What only looks like a message, such as `icon-home`,
is told from language here too.
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
# Beside what is a placeholder everywhere: :name of Laravel, [[name]], __name__, ~name~, \n as two characters.
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


def codes_of(text: str, *, branch: bool = False) -> Content:
    """A text of a message as texts and codes: its tags and placeholders; a `branch` of a plural has also `#`."""
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
    """A text with each number sign as a word, which ICU replaces by the number."""
    first, *others = text.split("#")
    yield first
    for other in others:
        yield Code("#", "word")
        yield other


@dataclass(frozen=True)
class Piece:
    """A part of a message that is translated by itself."""

    start: int
    end: int
    content: Content
    wrap: Callable[[str], str] = str
    """What is done to its translation, such as putting the mark of a key into it."""


@dataclass(frozen=True)
class Reason:
    """Why a value is left as it is, as it is said of one and of several."""

    one: str
    several: str


@dataclass
class Left:
    """Values that are left as they are, by the reason."""

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


MOST_SHOWN = 60
"""Characters of a sample in a message to a person."""
IDENTIFIER = Reason("looks like an identifier", "look like identifiers")
FORMS = Reason("has ICU forms in the midst of a sentence", "have ICU forms in the midst of a sentence")

# What separates texts in a message: line breaks, also as two characters, tabs, and bars between forms of the plural.
_SEPARATOR = re.compile(r"[\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+|(?:\\r)?\\n(?![a-z])|\\t(?![a-z])")
_BAR = re.compile(r"\s*\|\s*(?:(?:\{\d+\}|[\[\]](?:\d+|-?Inf|\*),\s*(?:\d+|-?Inf|\*)[\[\]])\s*)?")
_INTERVAL = re.compile(r"(?:\{\d+\}|[\[\]](?:\d+|-?Inf|\*),\s*(?:\d+|-?Inf|\*)[\[\]])\s+")


def pieces_of(message: str, left: Left, *, bars: bool = False) -> list[Piece]:
    """The texts of a message; `bars` separate them too if `|` stands between forms of the plural."""
    if is_icu(message):
        branches = icu_branches(message)
        if branches is None:
            left.add(FORMS, message)
            return []
        return [piece for start, end in branches for piece in _pieces(message, start, end, branch=True)]
    pieces, last = [], 0
    pattern = _BARRED if bars and "|" in message else _SEPARATOR
    if pattern is _BARRED and (interval := _INTERVAL.match(message)):
        last = interval.end()
    ends = [match.span() for match in pattern.finditer(message, last)]
    for start, end in [*ends, (len(message), len(message))]:
        pieces += _pieces(message, last, start)
        last = end
    return pieces


_BARRED = re.compile(f"{_SEPARATOR.pattern}|{_BAR.pattern}")


def _pieces(message: str, start: int, end: int, *, branch: bool = False) -> Iterator[Piece]:
    """The piece between two positions, without the spaces around it; none if it has no words."""
    text = message[start:end]
    core = text.strip()
    start += len(text) - len(text.lstrip())
    wrap: Callable[[str], str] = str
    if branch:
        content, wrap = branch_content(core)
    elif key := _key(core):
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


@dataclass(frozen=True)
class _Key:
    """The letter of a message that is pressed to choose it, as in `&Open` and `E_xit`."""

    plain: str
    mark: str
    letter: str

    def marked(self, text: str) -> str:
        """A translation with the mark before the same letter, best at the beginning of a word, or the first letter."""
        whole = [match.span() for match in _CODE.finditer(text)]
        free = [
            match.start()
            for match in _LETTER.finditer(text)
            if not any(start <= match.start() < end for start, end in whole)
        ]
        same = [position for position in free if text[position].casefold() == self.letter.casefold()]
        first = [position for position in same if not text[position - 1 : position].isalnum()]
        if same or (free and not is_unspaced(text)):
            position = (first or same or free)[0]
            return text[:position] + self.mark + text[position:]
        return f"{text}({self.mark}{self.letter.upper()})"  # as translators do it in Chinese and Japanese


_LETTER = re.compile(r"[^\W\d_]")
_MARK = re.compile(r"(?<![^\s(\"'>])[&_~](?=[^\W\d_])|(?<=[A-Za-z])[&_~](?=[a-z])")
_CAPITALISED = re.compile(r"(?<!\S)[A-Z][a-z]*\Z")


def _key(text: str) -> _Key | None:
    """The key of a message that has the mark of one, and only one: not `snake_case`, and not AT&T."""
    if len(text) > MOST_OF_A_LABEL or not any(mark in text for mark in "&_~"):
        return None
    whole = [match.span() for match in _CODE.finditer(text)]
    marks = [
        match.start()
        for match in _MARK.finditer(text)
        if not any(start <= match.start() < end for start, end in whole)
        and (not text[: match.start()][-1:].isalpha() or _CAPITALISED.search(text[: match.start()]))
    ]
    if len(marks) != 1 or text.count(text[marks[0]]) != 1:
        return None
    (position,) = marks
    return _Key(text[:position] + text[position + 1 :], text[position], text[position + 1])


MOST_OF_A_LABEL = 200
"""Characters of a message that may have the mark of a key."""

_COMPLEX = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal|choice)\s*,")
_ICU_HEAD = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset\s*:\s*\d+\s*)?")
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")


def is_icu(message: str) -> bool:
    """Whether a message has forms as ICU writes them: `{count, plural, one {# file} other {# files}}`."""
    return _COMPLEX.search(message) is not None


def icu_branches(message: str) -> list[tuple[int, int]] | None:
    """Start and end of each text in the branches of a message of ICU, also of branches inside of branches.

    None where a sentence would be cut: if there are words beside an argument with branches, or quoted braces.
    """
    texts: list[tuple[int, int]] = []
    position, start, has_branches = 0, 0, False
    plain: list[str] = []  # what stands beside arguments with branches
    stack: list[tuple[int, bool, list[str]]] = []
    if re.search(r"'[{}|]|'#", message.replace("''", "")):
        return None
    while True:
        brace = _BRACE.search(message, position)
        end = brace.start() if brace else len(message)
        plain.append(message[position:end])
        if brace is None:
            break
        if brace[0] == "{":
            if head := _ICU_HEAD.match(message, end):
                selector = _SELECTOR.match(message, head.end())
                if selector is None:
                    return None
                stack.append((start, True, plain))
                position, start, has_branches, plain = selector.end(), selector.end(), False, []
                continue
            argument = _ARGUMENT.match(message, end)
            if argument is None or _COMPLEX.match(message, end):
                return None
            plain.append("x")  # its value may be a word
            position = argument.end()
            continue
        if not stack:  # a closing brace that nothing opens
            return None
        if has_branches and has_words(codes_of("".join(plain), branch=True)):
            return None
        if not has_branches:
            texts.append((start, end))
        if selector := _SELECTOR.match(message, end + 1):
            position, start, has_branches, plain = selector.end(), selector.end(), False, []
            continue
        closing = _CLOSING.match(message, end + 1)
        if closing is None:
            return None
        start, has_branches, plain = stack.pop()
        position = closing.end()
    whole = not stack and has_branches and not has_words(codes_of("".join(plain)))
    return texts if whole else None


_BRACE = re.compile("[{}]")
_ARGUMENT = re.compile(r"\{[^{}]*\}")
_CLOSING = re.compile(r"\s*\}")


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


def is_language(value: str) -> bool:
    """Whether a value with letters is text in a language, not an identifier, a path, a colour, a class or the like."""
    core = value.strip()
    if len(core) > MOST_OF_A_LABEL:
        return _SPACE.search(core) is not None or _NOT_ASCII_LETTER.search(core) is not None
    if "()" in core:
        return _SPACE.search(core) is not None
    key = _key(core)
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


_SPACE = re.compile(r"\s")
_NOT_ASCII_LETTER = re.compile(r"(?![A-Za-z])[^\W\d_]")


def _has_vowel(word: str) -> bool:
    return not {*"aeiouy"}.isdisjoint(word)


def _are_classes(words: Sequence[str]) -> bool:
    """Whether words in small letters are names of classes of a style sheet, such as `btn btn-primary`."""
    marked = [word for word in words if not word.isalpha()]
    names = {*words}
    return 2 * len(marked) > len(words) or any(word.partition("-")[0] in names for word in marked if "-" in word)
