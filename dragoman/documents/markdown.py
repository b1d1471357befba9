"""Markdown: headings, paragraphs, list items, tables and HTML blocks; code, addresses and front matter stay."""

import re
from collections.abc import Container
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

from dragoman.documents.document import UNKNOWN, Code, Content, Document, Languages, Segment, has_words, trimmed
from dragoman.documents.html import read_html
from dragoman.documents.inline import partners
from dragoman.documents.subtitles import in_lines

_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n.*?^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_TASK = re.compile(r"\A(?:\[[ xX]\]\s+|\[\^[^\]\s]+\]:\s+)")
_INLINE = re.compile(
    r"""(?P<escaped>\\[!-/:-@\[-`{-~])
      |(?P<whole>(?P<ticks>`+)(?!`).{1,2000}?(?<!`)(?P=ticks)(?!`)|<[a-zA-Z][\w+.-]*:[^\s<>]*>|<[^\s<>@]+@[^\s<>]+>|\[\^[^\]\s]+\]
                |\$[^\s$](?:[^$\n]*[^\s$])?\$(?!\d)|\{%.{0,2000}?%\}|<!--.{0,2000}?-->)
      |(?P<break>(?:\ {2,}|\\)\n)
      |(?P<tag></?(?P<name>[a-zA-Z][\w-]*)(?:\s[^<>]*)?/?>)
      |(?P<link>!?\[)|(?P<end>\](?:\((?:[^()\\\s]|\\.|\([^()\s]*\))*(?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*\)|\[[^\]]*\])?)
      |(?P<mark>\*{1,3}|_{1,3}|~~)""",
    re.DOTALL | re.VERBOSE,
)


def read_markdown(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a document."""
    front = _FRONT.match(text)
    shown = re.sub(r"[^\r\n]", " ", front[0]) + text[front.end() :] if front else text
    lines = [match.span() for match in re.finditer(r"[^\r\n]*(?:\r?\n|\r|\Z)", shown)]
    segments: list[Segment] = []
    position = 0
    known: dict[str, Any] = {}
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for token in parser.parse(shown.removeprefix("\ufeff"), known):
        if token.type == "html_block":
            start, end = lines[token.map[0]][0], lines[token.map[1] - 1][1]
            page = read_html(text[start:end])
            segments += [replace(each, start=each.start + start, end=each.end + start) for each in page.segments]
        elif token.type == "inline" and token.map and token.content.strip():
            position = max(position, lines[token.map[0]][0])
            if segment := _segment(text, token, position, known.get("references", ())):
                segments.append(segment)
                position = segment.end
    return Document(text, segments)


def _segment(text: str, token: Token, position: int, labels: Container[str]) -> Segment | None:
    """The segment of a text that stands after `position`, perhaps in lines with marks of quotations before them."""
    parts = []
    source = _TASK.sub("", token.content)
    for line in source.split("\n"):
        core = line.strip()
        found = text.find(core, position)
        if found < 0:
            return None  # written in another way than it is read, such as a NUL
        parts.append((found, found + len(core)))
        position = parts[-1][1]
    content = trimmed(codes(source, labels))
    if not has_words(content):
        return None
    between = [text[left:right] for (_, left), (right, _) in pairwise(parts)]
    literal = {each for each in "*_[]`<\\" for piece in content if isinstance(piece, str) and each in piece}
    lengths = [end - start for start, end in parts]
    return Segment(
        parts[0][0],
        parts[-1][1],
        content,
        partial(_escaped, literal),
        wrap=lambda translation: in_lines(lengths, between, _shortened(source, translation)),
    )


def _shortened(source: str, text: str) -> str:
    """A translation, with links whose text is still their label as the source spells them."""
    source = " ".join(source.split())
    same = re.compile(r"(\[([^\[\]]+)\])\[\2\]")
    return same.sub(lambda m: m[0] if m[0] in source else m[1] + "[]" * (f"{m[1]}[]" in source), text)


def _escaped(literal: set[str], text: str) -> str:
    """A text in which nothing is a mark by chance; `literal` are characters that the source has as such."""
    return re.sub(r"[*`\[\]<\\]|(?<!\w)_|_(?!\w)", lambda m: m[0] if m[0] in literal else f"\\{m[0]}", text)


def codes(text: str, labels: Container[str] = ()) -> Content:
    """A text with its marks as codes; `labels` are those of the addresses that links refer to."""
    content: list[str | Code] = []
    last = 0
    links: list[int] = []
    for match in _INLINE.finditer(text):
        content.append(text[last : match.start()])
        last = match.end()
        if match["escaped"]:
            content.append(match[0][1:])
        elif match["whole"]:
            content.append(Code(match[0], "alone" if match[0].startswith(("[^", "<!", "{%")) else "word"))
        elif match["break"]:
            content.append(Code(match[0], "break"))
        elif match["tag"]:
            kind = "close" if match[0].startswith("</") else "alone" if match[0].endswith("/>") else "open"
            content.append(Code(match[0], kind, match["name"]))
        elif match["link"]:
            links.append(match.end())
            content.append(Code(match[0], "open", "link"))
        elif match["end"]:
            content.append(_end_of_link(text[links.pop() : match.start()], match[0], labels) if links else match[0])
        else:
            content.append(_mark(text, match))
    return _without_lone_marks([*content, text[last:]])


def _without_lone_marks(content: Content) -> Content:
    """Marks that nothing opens, or that nothing closes, become text, such as in 2*3 and in addresses."""
    paired = partners(content)
    alone = {i: each for i, each in enumerate(content) if isinstance(each, Code) and i not in paired}
    kinds = {mark: {each.kind for each in alone.values() if each.name.startswith(mark)} for mark in "*_~"}
    text = [i for i, each in alone.items() if len(kinds.get(each.name[:1], ())) == 1]
    return [alone[i].markup if i in text else each for i, each in enumerate(content)]


def _end_of_link(text: str, end: str, labels: Container[str]) -> str | Code:
    """The end of a link, or a bracket. A text that is the label itself, `[text][]`, needs it once it is translated."""
    if end in ("]", "][]") and normalizeReference(text) in labels:
        end = f"][{' '.join(text.split())}]"
    return Code(end, "close", "link") if end != "]" else end


def _mark(text: str, match: re.Match[str]) -> str | Code:
    """An emphasis mark, if it touches a word on one side."""
    before, after = text[: match.start()][-1:], text[match.end() :][:1]
    opens = after.strip() and not (before.isalnum() and match[0][0] == "_") and not before.isalnum()
    closes = before.strip() and not (after.isalnum() and match[0][0] == "_")
    if not opens and not closes:
        return match[0]
    return Code(match[0], "open" if opens and not (closes and not after.isalnum()) else "close", match[0])
