"""Strings of interfaces in JSON and YAML: the values; keys, numbers and what is no language stay."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import yaml

from dragoman.config.recipes import BoundedLoader
from dragoman.documents.document import UNKNOWN, Document, Edit, FormatError, Segment, has_words
from dragoman.documents.messages import FORMS, IDENTIFIER, Left, codes_of, is_icu, is_language, pieces_of
from dragoman.text.language_codes import CODE, Languages, find_language, is_written_alike, language_of

Path = tuple[str | int, ...]
"""The keys and numbers that lead to a value."""


@dataclass(frozen=True)
class _Value:
    """A string of a document that is a value."""

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
    spelled = partial(_json_spelled, ascii_only=text.isascii() and "\\u" in text, slashes="\\/" in text)
    if isinstance(parsed, dict) and isinstance(named := parsed.get("@@locale"), str):
        _check_language(named, languages)
    is_chrome, by_language = _is_chrome(parsed), None
    if isinstance(parsed, dict) and all(isinstance(inside, dict) for inside in parsed.values()):
        by_language = _by_language([*parsed], languages)
    segments, edits, left, done = [], [], Left(), 0
    for value in _json_values(text):
        if by_language and value.path[0] != by_language.key:
            done += 1
            continue
        if edit := _language_edit(value, languages):
            edits.append(edit)
        elif is_chrome and value.path[1:] != ("message",):
            continue
        elif not any(isinstance(key, str) and key.startswith("@") for key in value.path):  # metadata of ARB, JSON-LD
            places = _json_places(text[value.start + 1 : value.end - 1])
            segments += _segments(value, places, spelled, left)
    if by_language:
        key = next(match for match in _json_keys(text) if json.loads(match[0]) == by_language.key)
        edits.append(Edit(key.start() + 1, key.end() - 1, by_language.named))
    return Document(text, segments, edits, done, left.notes())


def _json_keys(text: str) -> Iterator[re.Match[str]]:
    """The keys at the top of an object."""
    depth = 0
    for match in _TOKEN.finditer(text):
        depth += (match[0] in "{[") - (match[0] in "}]")
        if depth == 1 and match[0][0] == '"' and _COLON.match(text, match.end()):
            yield match


def _json_values(text: str) -> Iterator[_Value]:
    """The strings that are values, with the way to them."""
    stack: list[bool] = []  # whether each of what is open is an object
    path: list[str | int] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            stack.append(token == "{")
            path.append("" if token == "{" else 0)
        elif token in "}]":
            stack.pop()
            path.pop()
        elif token == ",":
            path[-1] = "" if stack[-1] else path[-1] + 1
        elif stack and stack[-1] and _COLON.match(text, match.end()):
            path[-1] = json.loads(token, strict=False)
        else:
            yield _Value(tuple(path), match.start(), match.end(), json.loads(token, strict=False))


def _json_places(spelled: str) -> Callable[[int], int]:
    """From the index of a character of a string to that of its spelling, which may have more than one."""
    if "\\" not in spelled:
        return lambda position: position
    starts: list[int] = []
    for match in _ESCAPE.finditer(spelled):
        starts += [match.start()] if match[0][0] == "\\" else range(match.start(), match.end())
    return [*starts, len(spelled)].__getitem__


def _json_spelled(text: str, *, ascii_only: bool, slashes: bool) -> str:
    """A text between quotation marks, with the habits of its file."""
    spelled = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    return spelled.replace("/", "\\/") if slashes else spelled


def _is_chrome(parsed: object) -> bool:
    """Whether this is a messages.json of a browser's extension: each key has a message, perhaps with a description."""
    known = {"message", "description", "placeholders", "hash"}
    return isinstance(parsed, dict) and bool(parsed) and all(
        isinstance(entry, dict) and isinstance(entry.get("message"), str) and entry.keys() <= known
        for entry in parsed.values()
    )  # fmt: skip


def _language_edit(value: _Value, languages: Languages) -> Edit | None:
    """What names the target language where a file names that of its texts."""
    source, target = languages
    is_named = len(value.path) == 1 and value.path[0] in _LANGUAGE_KEYS and CODE.fullmatch(value.text)
    if not is_named or not source or not target or not is_written_alike(value.text, source):
        return None
    return Edit(value.start + 1, value.end - 1, target.replace("-", "_") if "_" in value.text else target)


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
    """Texts by language at the top of a file, as in the files of Rails."""

    key: str
    """The key of the texts in the source language."""
    named: str
    """The target language, spelled alike."""


def _by_language(keys: Sequence[str], languages: Languages) -> _ByLanguage | None:
    """The key at the top of a file that is the source language, if all keys there are languages.

    Raises `FormatError` if the target language is there too, as nothing that somebody translated is replaced, and if
    there are several languages and the source is none of them.
    """
    source, target = languages
    if not source or not target or not all(CODE.fullmatch(key) and language_of(key) for key in keys):
        return None
    ours = [key for key in keys if is_written_alike(key, source)]
    key = find_language(source, ours) or next(iter(ours), None)
    if key and any(is_written_alike(other, target) for other in keys if other not in ours):
        raise FormatError(f"has texts in {target} beside those in {source}; give a file with those in {source} alone.")
    if not key and (len(keys) > 1 or any(is_written_alike(other, target) for other in keys)):
        raise FormatError(
            f"has texts in {', '.join(keys[:12])}, and none in {source}, which the model translates from."
        )
    return _ByLanguage(key, target.replace("-", "_") if "_" in key else target) if key else None


def _segments(value: _Value, places: Callable[[int], int], spelled: Callable[[str], str], left: Left) -> list[Segment]:
    """The segments of a value in quotation marks: one for each text in it that is translated by itself."""
    if not _is_text(value.text, left):
        return []
    first = value.start + 1
    return [
        Segment(
            first + places(piece.start), first + places(piece.end), piece.content,
            wrap=partial(_changed, piece.wrap, spelled),
        )
        for piece in pieces_of(value.text, left, bars=True)
    ]  # fmt: skip


def _changed(change: Callable[[str], str], write: Callable[[str], str], text: str) -> str:
    """A translation after a change, as the document spells it."""
    return write(change(text))


def _is_text(text: str, left: Left) -> bool:
    """Whether a value is language; what only has letters is counted."""
    if is_icu(text):
        return True
    if not has_words(codes_of(text)) or _SURROGATE.search(text):
        return False
    if is_language(text):
        return True
    left.add(IDENTIFIER, text)
    return False


# --- YAML

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_STRING = "tag:yaml.org,2002:str"


def read_yaml(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of YAML: all scalars that are strings and values."""
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=BoundedLoader) if node]
    except (yaml.YAMLError, RecursionError) as error:
        raise FormatError(f"is no YAML ({error}); repair it first.") from None
    shift = text.startswith("\ufeff")  # which the loader leaves out
    left, segments, edits, done = Left(), [], [], 0
    for node in nodes:
        by_language = _by_language([key.value for key, _ in node.value], languages) if _is_by_language(node) else None
        for key, inside in node.value if by_language else [(None, node)]:
            scalars = [*_scalars(inside)]
            if by_language and key.value != by_language.key:
                done += len(scalars)
                continue
            if by_language:
                edits.append(Edit(key.start_mark.index + shift, key.end_mark.index + shift, by_language.named))
            for scalar in scalars:
                if _is_text(scalar.value, left):
                    start, end = scalar.start_mark.index + shift, scalar.end_mark.index + shift
                    start += len(_PROPERTIES.match(text, start, end)[0])
                    segments += _yaml_segments(text, start, end, scalar, left)
    return Document(text, segments, edits, done, left.notes())


def _is_by_language(node: yaml.Node) -> bool:
    """Whether the keys at the top may be languages: plain ones, with more inside."""
    return isinstance(node, yaml.MappingNode) and all(
        isinstance(key, yaml.ScalarNode) and key.style is None and isinstance(inside, yaml.MappingNode)
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


def _yaml_segments(text: str, start: int, end: int, scalar: yaml.ScalarNode, left: Left) -> Iterator[Segment]:
    """The segments of a scalar: where its lines or branches stand in the document as they are, one for each."""
    spelled, value = text[start:end], scalar.value
    pieces = pieces_of(value, left, bars=scalar.style is not None)
    if scalar.style in ("|", ">") and not _INDENTED.match(spelled):
        if is_icu(value):
            left.add(FORMS, value)
        else:
            yield from _lines_of_block(text, start, end)
        return
    inside = spelled[1:-1]
    if scalar.style in WRITERS and "\n" not in spelled and (places := _yaml_places(inside, value, scalar.style)):
        escaped = _in_single_quotes if scalar.style == "'" else _in_double_quotes
        for piece in pieces:
            wrap = partial(_changed, piece.wrap, escaped)
            first, last = places[piece.start], places[piece.end]
            yield Segment(start + 1 + first, start + 1 + last, piece.content, wrap=wrap)
        return
    if is_icu(value):
        if pieces:
            left.add(FORMS, value)
        return
    write = WRITERS.get(scalar.style)
    if scalar.style is None:
        write = partial(_plain, value)
    elif write is None:
        end -= len(spelled) - len(spelled.rstrip())
        value = value.rstrip()
        write = partial(_block, text[start:end], value)
    core = value.strip()
    if len(pieces) == 1 and pieces[0].end - pieces[0].start == len(core):
        write, content = partial(_changed, pieces[0].wrap, write), pieces[0].content
    else:
        content = codes_of(core)
    before, after = value[: len(value) - len(value.lstrip())], value[len(value.rstrip()) :]
    yield Segment(start, end, content, wrap=partial(_between, before, after, write))


def _between(before: str, after: str, write: Callable[[str], str], text: str) -> str:
    """A translation with the spaces around its source."""
    return write(before + text + after)


_INDENTED = re.compile(r"[|>][+-]?\d")
"""The header of a block that says how far its lines are indented."""
_LINE = re.compile(r"([ \t]*)([^\r\n]*)")


def _lines_of_block(text: str, start: int, end: int) -> Iterator[Segment]:
    """The segments of a block: its lines, of which those that `>` joins are one."""
    is_folded = text[start] == ">"
    lines = [match.span(2) for match in _LINE.finditer(text, text.find("\n", start, end) + 1 or end, end) if match[2]]
    columns = [first - text.rfind("\n", start, first) for first, _ in lines]
    groups: list[list[tuple[int, int]]] = []
    last_column = 0
    for line, column in zip(lines, columns, strict=True):
        is_next = bool(groups) and text.count("\n", groups[-1][-1][1], line[0]) == 1
        if is_folded and is_next and column == last_column == min(columns):
            groups[-1].append(line)
        else:
            groups.append([line])
        last_column = column
    left = Left()
    for group in groups:
        message = " ".join(text[first:last].strip() for first, last in group)
        pieces = pieces_of(message, left)
        if len(group) > 1:
            content = pieces[0].content if len(pieces) == 1 else codes_of(message)
            yield Segment(group[0][0], group[-1][1], content, wrap=pieces[0].wrap if len(pieces) == 1 else str)
        else:
            for piece in pieces:
                yield Segment(group[0][0] + piece.start, group[0][0] + piece.end, piece.content, wrap=piece.wrap)


_YAML_CHARACTER = {
    '"': re.compile(r"\\x[\da-fA-F]{2}|\\u[\da-fA-F]{4}|\\U[\da-fA-F]{8}|\\.|[^\\]"),
    "'": re.compile(r"''|[^']"),
}
"""A character as a string in these quotes spells it."""


def _yaml_places(inside: str, value: str, quote: str) -> list[int] | None:
    """The position of each character of a string in quotes, and its end; None where that is not certain."""
    starts = [match.start() for match in _YAML_CHARACTER[quote].finditer(inside)]
    return [*starts, len(inside)] if len(starts) == len(value) else None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_double_quotes(text: str) -> str:
    return _quoted(text)[1:-1]


def _in_single_quotes(text: str) -> str:
    return text.replace("'", "''")


def _single_quoted(text: str) -> str:
    return _quoted(text) if "\n" in text else "'" + _in_single_quotes(text) + "'"


def _plain(source: str, text: str) -> str:
    """Without quotation marks, if it means the same then: in a list in brackets, if its source may stand in one."""
    is_plain = _means(f"[{text}]", [text]) or (_means(f"- {text}", [text]) and not _means(f"[{source}]", [source]))
    return text if is_plain and "\n" not in text else _quoted(text)


def _means(text: str, value: object) -> bool:
    """Whether YAML means this."""
    try:
        return yaml.load(text, BoundedLoader) == value
    except (ValueError, RecursionError, yaml.YAMLError):
        return False


WRITERS = {"'": _single_quoted, '"': _quoted}
"""By the style of a scalar in quotation marks."""


def _block(spelled: str, value: str, text: str) -> str:
    """The lines of a block with the header and the indentation of the one that is replaced, which meant `value`."""
    header, _, lines = spelled.partition("\n")
    first = value.lstrip("\n")
    indent = re.match(r"(?:[ \t]*\n)*( *)", lines)[1].removesuffix(" " * (len(first) - len(first.lstrip(" "))))
    if header.startswith(">"):
        # Here one line break is a space, except beside lines that begin with one.
        text = re.sub(r"(?m)^([^ \t\n].*\n)(?=\n*[^ \t\n])", r"\1\n", text)
    return "\n".join([header, *(indent + line if line else "" for line in text.split("\n"))])
