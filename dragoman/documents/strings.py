"""Strings of interfaces in JSON and YAML: finds the values to translate. Keys, numbers and identifiers stay."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import yaml

from dragoman.config.recipes import BoundedLoader
from dragoman.documents.document import UNKNOWN, Document, Edit, FormatError, Segment, has_words
from dragoman.documents.messages import (
    FORMS,
    IDENTIFIER,
    Piece,
    SkippedValues,
    codes_of,
    is_icu,
    is_language,
    pieces_of,
)
from dragoman.text.language_codes import ALSO_WORDS, CODE, Languages, find_language, is_written_alike, language_of

Path = tuple[str | int, ...]
"""The keys and numbers that lead to a value."""


@dataclass(frozen=True)
class _Value:
    """A string of JSON that is a value, not a key."""

    path: Path
    start: int
    end: int
    text: str


# --- JSON

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],]', re.DOTALL)
_COLON = re.compile(r"\s*:")
_ESCAPE = re.compile(r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\.|[^\\]+", re.DOTALL)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LANGUAGE_KEYS = frozenset(["@@locale", "locale", "language", "lang"])
"""Keys at the top of a file whose value may be its language."""


def read_json(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of JSON: all strings that are values."""
    try:
        parsed = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is no JSON ({error}); repair it first.") from None
    spell = partial(_json_spelled, ascii_only=text.isascii() and "\\u" in text, escape_slashes="\\/" in text)
    by_language = None
    if isinstance(parsed, dict):
        locale = parsed.get("@@locale")
        if isinstance(locale, str):
            _check_language(locale, languages)
        if all(isinstance(inside, dict) for inside in parsed.values()):
            by_language = _by_language([*parsed], languages)
    is_chrome = _is_chrome(parsed)
    segments, edits, skipped, done = [], [], SkippedValues(), 0
    for value in _json_values(text):
        if by_language and value.path[0] != by_language.key:
            done += 1
            continue
        if edit := _language_edit(value, languages):
            edits.append(edit)
        elif not _is_metadata(value.path, is_chrome=is_chrome):
            segments += _json_segments(value, text, spell, skipped)
    if by_language:
        key = next(match for match in _json_keys(text) if json.loads(match[0]) == by_language.key)
        edits.append(Edit(key.start() + 1, key.end() - 1, by_language.target_key, if_changed=True))
    return Document(text, segments, edits, done, skipped.notes())


def _json_keys(text: str) -> Iterator[re.Match[str]]:
    """The keys at the top of an object."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
        elif depth == 1 and token != "," and _COLON.match(text, match.end()):
            yield match


def _json_values(text: str) -> Iterator[_Value]:
    """The strings that are values, with the keys and numbers that lead to them."""
    are_objects: list[bool] = []  # for each open bracket, whether it is that of an object
    path: list[str | int] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            are_objects.append(token == "{")
            path.append("" if token == "{" else 0)
        elif token in "}]":
            are_objects.pop()
            path.pop()
        elif token == ",":
            path[-1] = "" if are_objects[-1] else path[-1] + 1
        elif are_objects and are_objects[-1] and _COLON.match(text, match.end()):
            path[-1] = json.loads(token, strict=False)
        else:
            yield _Value(tuple(path), match.start(), match.end(), json.loads(token, strict=False))


def _is_metadata(path: Path, *, is_chrome: bool) -> bool:
    """Whether a value is not for people: below a key with `@`, as in ARB and JSON-LD, or beside a message of Chrome."""
    if is_chrome and path[1:] != ("message",):
        return True
    return any(isinstance(key, str) and key.startswith("@") for key in path)


def _json_segments(value: _Value, text: str, spell: Callable[[str], str], skipped: SkippedValues) -> Iterator[Segment]:
    """The segments of a value: one for each text in it that is translated by itself."""
    if not _is_text(value.text, skipped):
        return
    first = value.start + 1  # after the quotation mark
    starts = _json_starts(text[first : value.end - 1])
    for piece in pieces_of(value.text, skipped, bars=True):
        wrap = partial(_changed, piece.wrap, spell)
        yield Segment(first + starts[piece.start], first + starts[piece.end], piece.content, wrap=wrap)


def _json_starts(spelled: str) -> Sequence[int]:
    """For each character of a string, the index at which its spelling begins, and the end of the last one."""
    if "\\" not in spelled:
        return range(len(spelled) + 1)
    starts: list[int] = []
    for match in _ESCAPE.finditer(spelled):
        starts += [match.start()] if match[0][0] == "\\" else range(match.start(), match.end())
    return [*starts, len(spelled)]


def _json_spelled(text: str, *, ascii_only: bool, escape_slashes: bool) -> str:
    """A text as JSON spells it between quotation marks, with the habits of its file."""
    spelled = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    return spelled.replace("/", "\\/") if escape_slashes else spelled


def _is_chrome(parsed: object) -> bool:
    """Whether this is a messages.json of a browser's extension: each key has a message, perhaps with a description."""
    known = {"message", "description", "placeholders", "hash"}
    return isinstance(parsed, dict) and bool(parsed) and all(
        isinstance(entry, dict) and isinstance(entry.get("message"), str) and entry.keys() <= known
        for entry in parsed.values()
    )  # fmt: skip


def _language_edit(value: _Value, languages: Languages) -> Edit | None:
    """The edit of a value that names the language of a file's texts; None for other values."""
    source, target = languages
    is_language = len(value.path) == 1 and value.path[0] in _LANGUAGE_KEYS and CODE.fullmatch(value.text)
    if not is_language or not source or not target or not is_written_alike(value.text, source):
        return None
    return Edit(value.start + 1, value.end - 1, _spelled_like(value.text, target), if_changed=True)


def _spelled_like(code: str, language: str) -> str:
    """A language with an underscore for its hyphen if another code has one."""
    return language.replace("-", "_") if "_" in code else language


def _check_language(named: str, languages: Languages) -> None:
    """Raises `FormatError` if a file says that its texts are in another language than that of the model's source."""
    source = languages[0]
    if source and CODE.fullmatch(named) and not is_written_alike(named, source):
        raise FormatError(
            f"says that it is in {named}, and the model translates from {source}; give the file with the texts in "
            f"{source}, or correct the language in it."
        )


@dataclass(frozen=True)
class _ByLanguage:
    """The keys of a file with texts by language at its top, as in the files of Rails."""

    key: str
    """Key of the texts in the source language."""
    target_key: str
    """The key that replaces it: the target language, spelled alike."""


def _by_language(keys: Sequence[str], languages: Languages) -> _ByLanguage | None:
    """The key at the top of a file that is the source language; None unless all keys there are languages.

    Raises `FormatError` if the target language is there too, as nothing that somebody translated is replaced, and if
    there are several languages and the source is none of them.
    """
    source, target = languages
    if not source or not target or not all(CODE.fullmatch(key) and language_of(key) for key in keys):
        return None
    source_keys = [key for key in keys if is_written_alike(key, source)]
    has_target = any(is_written_alike(key, target) for key in keys if key not in source_keys)
    if source_keys and has_target:
        raise FormatError(f"has texts in {target} beside those in {source}; give a file with those in {source} alone.")
    if not source_keys and not has_target and ALSO_WORDS.issuperset(keys):
        return None
    if not source_keys and (len(keys) > 1 or has_target):
        raise FormatError(
            f"has texts in {', '.join(keys[:12])}, and none in {source}, which the model translates from."
        )
    if not source_keys:
        return None
    key = find_language(source, source_keys) or source_keys[0]
    return _ByLanguage(key, _spelled_like(key, target))


def _changed(change: Callable[[str], str], write: Callable[[str], str], text: str) -> str:
    """The translation after a change, as the document spells it."""
    return write(change(text))


def _is_text(text: str, skipped: SkippedValues) -> bool:
    """Whether a value is language. Other values with words are counted as skipped."""
    if is_icu(text):
        return True
    if not has_words(codes_of(text)) or _SURROGATE.search(text):
        return False
    if is_language(text):
        return True
    skipped.add(IDENTIFIER, text)
    return False


# --- YAML

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
"""Anchors and tags before a scalar."""
_STRING = "tag:yaml.org,2002:str"


def read_yaml(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of YAML: all scalars that are strings and values."""
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=BoundedLoader) if node]
    except (yaml.YAMLError, RecursionError) as error:
        raise FormatError(f"is no YAML ({error}); repair it first.") from None
    scalars: list[yaml.ScalarNode] = []
    edits, done = [], 0
    for node in nodes:
        by_language = _by_language([key.value for key, _ in node.value], languages) if _is_by_language(node) else None
        if not by_language:
            scalars += _scalars(node)
            continue
        for key, inside in node.value:
            if key.value == by_language.key:
                scalars += _scalars(inside)
                start, end = key.start_mark.index, key.end_mark.index
                if quotes := key.style:
                    new_key = f"{quotes}{by_language.target_key}{quotes}"
                else:
                    new_key = _plain(key.value, by_language.target_key)  # in quotes where it is no text, as `no`
                edits.append(Edit(start, end, new_key, if_changed=True))
            else:
                done += sum(1 for _ in _scalars(inside))
    segments, skipped = [], SkippedValues()
    for scalar in scalars:
        if _is_text(scalar.value, skipped):
            start, end = scalar.start_mark.index, scalar.end_mark.index
            start = _PROPERTIES.match(text, start, end).end()
            segments += _yaml_segments(text, start, end, scalar, skipped)
    return Document(text, segments, edits, done, skipped.notes())


def _is_by_language(node: yaml.Node) -> bool:
    """Whether the keys at the top may be languages: words, perhaps in quotes, with more inside."""
    return isinstance(node, yaml.MappingNode) and all(
        isinstance(key, yaml.ScalarNode) and key.style in (None, "'", '"') and isinstance(inside, yaml.MappingNode)
        for key, inside in node.value
    )


def _scalars(root: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """The strings that are values, in order; an alias is read once, where its anchor is."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in reversed(node.value)]
        elif isinstance(node, yaml.SequenceNode):
            waiting += reversed(node.value)
        elif node.tag == _STRING:
            yield node


def _yaml_segments(
    text: str, start: int, end: int, scalar: yaml.ScalarNode, skipped: SkippedValues
) -> Iterator[Segment]:
    """The segments of a scalar: one for each line or branch that the document spells as it is, else one for all."""
    spelled, value, style = text[start:end], scalar.value, scalar.style
    pieces = pieces_of(value, skipped, bars=style is not None)
    if style in ("|", ">") and not _INDENTED.match(spelled):
        if is_icu(value):
            skipped.add(FORMS, value)
        else:
            yield from _lines_of_block(text, start, end)
        return
    starts = _yaml_starts(spelled[1:-1], value, style) if style in _IN_QUOTES and "\n" not in spelled else None
    if starts:
        for piece in pieces:
            wrap = partial(_changed, piece.wrap, _IN_QUOTES[style])
            yield Segment(start + 1 + starts[piece.start], start + 1 + starts[piece.end], piece.content, wrap=wrap)
    elif not is_icu(value):
        yield _whole_scalar(text, start, end, scalar, pieces)
    elif pieces:
        skipped.add(FORMS, value)


def _whole_scalar(text: str, start: int, end: int, scalar: yaml.ScalarNode, pieces: Sequence[Piece]) -> Segment:
    """The segment of a scalar whose texts do not stand in the document as they are: it is written anew."""
    value = scalar.value
    if scalar.style is None:
        write = partial(_plain, value)
    elif scalar.style in _WITH_QUOTES:
        write = _WITH_QUOTES[scalar.style]
    else:
        end = start + len(text[start:end].rstrip())
        value = value.rstrip()
        write = partial(_block, text[start:end], value)
    core = value.strip()
    content = codes_of(core)
    if len(pieces) == 1 and pieces[0].end - pieces[0].start == len(core):
        content = pieces[0].content
        write = partial(_changed, pieces[0].wrap, write)
    before, after = value[: len(value) - len(value.lstrip())], value[len(value.rstrip()) :]
    return Segment(start, end, content, wrap=partial(_between, before, after, write))


def _between(before: str, after: str, write: Callable[[str], str], text: str) -> str:
    """The translation with the spaces around its source, as the document spells it."""
    return write(before + text + after)


_INDENTED = re.compile(r"[|>][+-]?\d")
"""The header of a block that says how far its lines are indented."""
_LINE = re.compile(r"([ \t]*)([^\r\n]*)")


def _lines_of_block(text: str, start: int, end: int) -> Iterator[Segment]:
    """The segments of a block: its lines, of which those that `>` joins are one."""
    is_folded = text[start] == ">"
    first_line = text.find("\n", start, end) + 1 or end
    lines = [match.span(2) for match in _LINE.finditer(text, first_line, end) if match[2]]
    columns = [line_start - text.rfind("\n", start, line_start) for line_start, _ in lines]
    least_column = min(columns, default=0)
    groups: list[list[tuple[int, int]]] = []
    last_column = 0
    for line, column in zip(lines, columns, strict=True):
        is_next = bool(groups) and text.count("\n", groups[-1][-1][1], line[0]) == 1
        if is_folded and is_next and column == last_column == least_column:
            groups[-1].append(line)
        else:
            groups.append([line])
        last_column = column
    skipped = SkippedValues()  # not reported: the value as a whole was looked at
    for group in groups:
        group_start, group_end = group[0][0], group[-1][1]
        message = " ".join(text[line_start:line_end].strip() for line_start, line_end in group)
        pieces = pieces_of(message, skipped)
        if len(group) == 1:
            for piece in pieces:
                yield Segment(group_start + piece.start, group_start + piece.end, piece.content, wrap=piece.wrap)
        elif len(pieces) == 1:
            yield Segment(group_start, group_end, pieces[0].content, wrap=pieces[0].wrap)
        else:
            yield Segment(group_start, group_end, codes_of(message), wrap=str)


_YAML_CHARACTER = {
    '"': re.compile(r"\\x[\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\U[\da-fA-F]{8}|\\.|[^\\]"),
    "'": re.compile(r"''|[^']"),
}
"""A character as a string in these quotes spells it."""


def _yaml_starts(inside: str, value: str, quote: str) -> list[int] | None:
    """For each character of a string in quotes, the index at which its spelling begins, and the end of the last one.

    None where that is not certain.
    """
    starts = [match.start() for match in _YAML_CHARACTER[quote].finditer(inside)]
    return [*starts, len(inside)] if len(starts) == len(value) else None


def _double_quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_double_quotes(text: str) -> str:
    return _double_quoted(text)[1:-1]


def _single_quoted(text: str) -> str:
    return _double_quoted(text) if "\n" in text else "'" + _in_single_quotes(text) + "'"


def _in_single_quotes(text: str) -> str:
    return text.replace("'", "''")


_WITH_QUOTES = {"'": _single_quoted, '"': _double_quoted}
_IN_QUOTES = {"'": _in_single_quotes, '"': _in_double_quotes}
"""Functions that spell a text for the style of a scalar: with its quotation marks, and without them."""


def _plain(source: str, text: str) -> str:
    """The text without quotation marks if it means the same then, also in a list in brackets if its source does."""
    is_plain = _means(f"[{text}]", [text]) or (_means(f"- {text}", [text]) and not _means(f"[{source}]", [source]))
    return text if is_plain and "\n" not in text else _double_quoted(text)


def _means(text: str, value: object) -> bool:
    """Whether a text in YAML stands for a value."""
    try:
        return yaml.load(text, BoundedLoader) == value
    except (ValueError, RecursionError, yaml.YAMLError):
        return False


def _block(spelled: str, value: str, text: str) -> str:
    """The lines of a block with the header and the indentation of the one that is replaced, which meant `value`."""
    header, _, lines = spelled.partition("\n")
    first = value.lstrip("\n")
    indent = re.match(r"(?:[ \t]*\n)*( *)", lines)[1].removesuffix(" " * (len(first) - len(first.lstrip(" "))))
    if header.startswith(">"):
        # Here one line break is a space, except beside lines that begin with one.
        text = re.sub(r"(?m)^([^ \t\n].*\n)(?=\n*[^ \t\n])", r"\1\n", text)
    return "\n".join([header, *(indent + line if line else "" for line in text.split("\n"))])
