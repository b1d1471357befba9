"""Strings of interfaces in JSON and YAML: the values; keys, numbers and what is no language stay."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

import yaml

from dragoman.documents.document import UNKNOWN, Document, FormatError, Languages, Segment, has_words
from dragoman.documents.subtitles import split_codes

_JSON = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"(?P<key>\s*:)?')
# What has no spaces and is no word: addresses, paths, identifiers, colours, times. A message of ICU with forms of the
# plural is no text to translate either.
_NO_LANGUAGE = re.compile(
    r"\S*[\d_/\\@#=]\S*|\S+[.:]\S+|[a-z]+[A-Z]\S*|.*\{\s*\w+\s*,\s*(plural|select|selectordinal)\s*,.*", re.DOTALL
)
_PROPERTIES = re.compile(r"(?:[&!]\S+\s+)*")
_STRING = "tag:yaml.org,2002:str"


def read_json(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of JSON: all strings that are values."""
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is no JSON ({error}); repair it first.") from None
    values = (match for match in _JSON.finditer(text) if not match["key"])
    return Document(text, list(filter(None, (_segment(*v.span(), json.loads(v[0]), _quoted) for v in values))))


def _segment(start: int, end: int, text: str, write: Callable[[str], str]) -> Segment | None:
    """The segment of a value; None for what is no language. Spaces around it stay."""
    core = text.strip()
    if _NO_LANGUAGE.fullmatch(core[:1000]) or not has_words([core]):
        return None
    left = text[: len(text) - len(text.lstrip())]
    right = text[len(text.rstrip()) :]
    return Segment(start, end, split_codes(core), wrap=lambda translation: write(left + translation + right))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def read_yaml(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of YAML: all scalars that are strings and values."""
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        scalars = [scalar for node in nodes if node for scalar in _scalars(node, set())]
    except (yaml.YAMLError, RecursionError) as error:
        raise FormatError(f"is no YAML ({error}); repair it first.") from None
    shift = text.startswith("\ufeff")  # which the loader leaves out
    segments = []
    for scalar in scalars:
        start, end = scalar.start_mark.index + shift, scalar.end_mark.index + shift
        start += len(_PROPERTIES.match(text, start, end)[0])
        value, write = scalar.value, WRITERS.get(scalar.style)
        if write is None:
            end -= len(text[start:end]) - len(text[start:end].rstrip())
            value = value.rstrip()
            write = partial(_block, text[start:end], value)
        segments.append(_segment(start, end, value, write))
    return Document(text, list(filter(None, segments)))


def _scalars(node: yaml.Node, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        if node.tag == _STRING:
            yield node
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _scalars(value, seen)
    else:
        for value in node.value:
            yield from _scalars(value, seen)


def _single_quoted(text: str) -> str:
    return _quoted(text) if "\n" in text else "'" + text.replace("'", "''") + "'"


def _plain(text: str) -> str:
    """Without quotation marks, if it means the same then, also in a list in brackets."""
    try:
        same = yaml.safe_load(f"[{text}]") == [text]
    except (ValueError, yaml.YAMLError):
        same = False
    return text if same and "\n" not in text else _quoted(text)


WRITERS = {None: _plain, "'": _single_quoted, '"': _quoted}
"""By the style of a scalar; others are blocks."""


def _block(spelled: str, value: str, text: str) -> str:
    """The lines of a block with the header and the indentation of the one that is replaced, which meant `value`."""
    header, _, lines = spelled.partition("\n")
    first = value.lstrip("\n")
    indent = re.match(r"(?:[ \t]*\n)*( *)", lines)[1].removesuffix(" " * (len(first) - len(first.lstrip(" "))))
    if header.startswith(">"):
        # Here one line break is a space, except beside lines that begin with one.
        text = re.sub(r"(?m)^([^ \t\n].*\n)(?=\n*[^ \t\n])", r"\1\n", text)
    return "\n".join([header, *(indent + line if line else "" for line in text.split("\n"))])
