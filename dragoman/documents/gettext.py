"""Catalogues of gettext, .po: empty translations are filled and marked for review, others stay."""

import re
from functools import partial

from dragoman.documents.document import UNKNOWN, Document, Edit, Languages, Segment, has_words
from dragoman.documents.subtitles import split_codes

_STRING = r'"(?:[^"\\\n]|\\.)*+"'
_STRINGS = rf"{_STRING}(?:\s*\n{_STRING})*+"
_ENTRY = re.compile(
    rf"""(?P<flags>(?:^\#,[^\n]*\n)?)(?P<comments>(?:^\#(?![~,])[^\n]*\n){{0,200}})
         (?P<start>^(?:msgctxt\s+{_STRINGS}\s*\n)?
         ^msgid\s+(?P<id>{_STRINGS})\s*\n
         (?:^msgid_plural\s+(?P<plural>{_STRINGS})\s*\n)?)
         (?P<targets>(?:^msgstr(?:\[\d+\])?\s+{_STRINGS}[ \t]*\r?\n?)+)""",
    re.MULTILINE | re.VERBOSE,
)
_TARGET = re.compile(rf"^msgstr(?:\[(\d+)\])?\s+({_STRINGS})", re.MULTILINE)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_SPELLED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def read_po(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a catalogue: the messages whose translations are all empty."""
    segments: list[Segment] = []
    edits = []
    for entry in _ENTRY.finditer(text):
        targets = [*_TARGET.finditer(text, entry.start("targets"), entry.end("targets"))]
        if any(_unquoted(target[2]) for target in targets):
            continue
        source = _unquoted(entry["id"])
        plural = _unquoted(entry["plural"]) if entry["plural"] else source
        found = []
        for number, target in enumerate(targets):
            asked = source if number == 0 and len(targets) > 1 else plural
            core = asked.strip()
            if has_words([core]):
                left, right = asked[: len(asked) - len(asked.lstrip())], asked[len(asked.rstrip()) :]
                wrap = partial(_quoted, left, right)
                found.append(Segment(target.start(2), target.end(2), split_codes(core), wrap=wrap, in_place=False))
        segments += found
        if found and entry["flags"]:
            if "fuzzy" not in entry["flags"]:
                edits.append(Edit(entry.start("flags") + 2, entry.start("flags") + 2, " fuzzy,"))
        elif found:
            edits.append(Edit(entry.start("start"), entry.start("start"), "#, fuzzy\n"))
    return Document(text, segments, edits)


def _unquoted(strings: str) -> str:
    text = "".join(each[1:-1] for each in re.findall(_STRING, strings))
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text)


def _quoted(left: str, right: str, text: str) -> str:
    """A text in quotation marks, on a line for each of its lines."""
    spelled = re.sub(r'[\n\t\r"\\]', lambda match: _SPELLED[match[0]], left + text + right)
    lines = re.split(r"(?<=\\n)(?=.)", spelled)
    return "\n".join([*(['""'] if len(lines) > 1 else []), *(f'"{line}"' for line in lines)])
