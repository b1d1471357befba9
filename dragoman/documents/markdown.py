"""Markdown: finds headings, paragraphs, list items, tables and HTML blocks. Code, addresses and front matter stay."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise

from dragoman.documents.document import (
    UNKNOWN,
    Code,
    Content,
    Document,
    Edit,
    Languages,
    Segment,
    has_words,
    trimmed,
    with_spaces_outside,
)
from dragoman.documents.html import closed_up, read_html
from dragoman.documents.html_sentences import is_replaced
from dragoman.documents.inline import paired_codes
from dragoman.documents.lines import in_lines, joined, units
from dragoman.documents.markdown_blocks import Block, Span, normalized, read_blocks
from dragoman.documents.markdown_inline import ADDRESS, EMOJI, Piece, is_mark, pieces
from dragoman.text.characters import has_letters

MOST_MARKS = 10_000
"""Most characters of markup in one paragraph. With more it is hardly a text, and stays as it is."""
MOST_READINGS = 5
"""Most times that a translation is read again to find emphasis that does not work."""
_FRONT = re.compile(
    r"(?P<mark>---|\+\+\+)[ \t]*\r?\n(?P<text>(?:.*?\n)??)(?:(?P=mark)|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_KEY = re.compile(r"^\s*[\w\"'.-][^:=\n]{0,200}[:=]", re.MULTILINE)
_LINKS = {"link", "a"}
"""Names of elements that are texts by themselves where they touch or stand in a row."""
_TASK = re.compile(r"\[[ xX]\][ \t]+")
_ALERT = re.compile(r"\[![\w-]+(?:\|[^\]\n]*)?\][-+]?(?=\s|\Z)")
_DOCSIFY = re.compile(r"[!?]>[ \t]+")
_KEPT = re.compile(r"@?\[{1,2}_?(?:TOC|TOSP|toc)_?\]{1,2}|\$\{toc\}|\{:?toc\}")
_HOLDS_MARKDOWN = re.compile(r"\s*<[a-zA-Z][^<>\n]*\smarkdown(?=[\s=>])[^<>\n]*>")
_FIRST_TAG = re.compile(r"(<[^<>]{1,300}>)[ \t]*\r?\n[ \t]*")
_LAST_TAG = re.compile(r"\r?\n[ \t]*(</[^<>]{1,300}>)\Z")
_SPECIAL = "*_`[]<\\"
"""Characters that may begin or end markup wherever they stand."""
_ALL_SPECIAL = "\\`*_{}[]<>$~=^&!|"
"""Characters that begin or end markup in some places."""
_MARK = re.compile(r"[\\`*_{}\[\]<$~=^&:+]")
_MARKUP = re.compile(rf"[{re.escape(_ALL_SPECIAL)}]")
_COLON = re.compile(r":(?=[\w+-]+:|//)")
"""A colon that may begin an emoji, or stand in an address."""
_BEGINS_BLOCK = re.compile(
    r"""(?P<mark>\#{1,6}(?=\s|\Z)|>|[-+*](?=\s|\Z)|`{3,}(?=[^`]*\Z)|~{3}|:{3}|:(?=\s)|(?:=+|-+|[*_]{3,})(?=\s*\Z)
         |\[(?P<label>[^\[\]]*)\]:|\|
         |!!!|\?\?\?|===\s|\+(?=[-=]))
      |(?P<number>\d{1,9})[.)](?=\s|\Z)""",
    re.VERBOSE,
)
"""Beginnings of a line that would begin another block, and so are escaped."""
_ENDS_HEADING = re.compile(r"(?:(?<=\s)|\A)#+\Z")
_BEGINS_HTML = re.compile(
    r"<(?:[?!]|/?(?!(?:abbr|a|bdi|bdo|br|b|cite|code|data|del|dfn|em|img|input|ins|i|kbd|label|mark|q|samp|small|span"
    r"|strong|sub|sup|s|time|u|var|wbr)\b)[a-z])",
    re.IGNORECASE,
)
"""A tag that would begin a block of HTML at the beginning of a line."""


def read_markdown(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a document."""
    start = len(text) - len(text.removeprefix("\ufeff"))
    start = _after_front_matter(text, start)
    blocks = read_blocks(text, start)
    segments: list[Segment] = []
    edits: list[Edit] = []
    notes: list[str] = []
    for block in blocks.texts:
        if block.kind == "html" and _HOLDS_MARKDOWN.match(text, block.lines[0][0]):
            block = Block("text", [(end - len(text[start:end].lstrip()), end) for start, end in block.lines])
        if block.kind == "html":
            html_segments, html_edits = _html(text, block, languages)
            segments += html_segments
            edits += html_edits
        elif block.kind == "label":
            segments += _titles(text, block.lines)
        else:
            for passage in _passages(text, block):
                if len(passage.text) > MOST_MARKS and len(_MARK.findall(passage.text)) > MOST_MARKS:
                    notes.append(f"has a paragraph with more than {MOST_MARKS:,} marks, which stays as it is.")
                else:
                    segments += _segments(passage, pieces(passage.text, blocks.labels), blocks.labels)
    return Document(text, segments, edits, notes=list(dict.fromkeys(notes)))


def _after_front_matter(text: str, start: int) -> int:
    """The beginning of the document behind its front matter in YAML, TOML or JSON."""
    front = _FRONT.match(text, start)
    if front and (not front["text"].strip() or _KEY.search(front["text"])):
        return front.end()
    if text.startswith(("{\n", "{\r\n"), start):
        try:
            return json.JSONDecoder().raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            pass
    return start


def _html(text: str, block: Block, languages: Languages) -> tuple[list[Segment], list[Edit]]:
    """The segments and edits of a block of HTML. Marks of quotations before its lines are read as spaces."""
    start = position = block.lines[0][0]
    page = []
    for line_start, line_end in block.lines:
        page += [re.sub(r"[^\r\n]", " ", text[position:line_start]), text[line_start:line_end]]
        position = line_end
    document = read_html("".join(page), languages)
    segments = [_with_lone_tags(text, _moved(segment, start)) for segment in document.segments]
    edits = [replace(edit, start=edit.start + start, end=edit.end + start) for edit in document.edits]
    return segments, edits


def _with_lone_tags(text: str, segment: Segment) -> Segment:
    """The segment, where a tag alone in the first or last line stays alone: this makes the text a block of HTML."""
    source = text[segment.start : segment.end]
    first, last = _FIRST_TAG.match(source), _LAST_TAG.search(source, max(0, len(source) - 300))
    if not first and not last:
        return segment

    def wrapped(translation: str) -> str:
        translation = segment.wrap(translation)
        if first and translation.startswith(first[1]):
            translation = first[0] + translation[len(first[1]) :].lstrip()
        if last and translation.endswith(last[1]):
            translation = translation[: -len(last[1])].rstrip() + last[0]
        return translation

    return replace(segment, wrap=wrapped)


def _moved(segment: Segment, offset: int) -> Segment:
    """The segment with its positions moved on by an offset."""
    content = [
        replace(part, start=part.start + offset) if isinstance(part, Code) and part.start is not None else part
        for part in segment.content
    ]
    return replace(segment, start=segment.start + offset, end=segment.end + offset, content=content)


def _titles(text: str, spans: Sequence[Span]) -> Iterator[Segment]:
    """The titles of links, which stand between quotation marks."""
    for start, end in spans:
        quote = text[end]
        title = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text[start:end])
        if has_words([title]) and "\n" not in title:
            marks = r"[\\()]" if quote == ")" else rf"[\\{quote}]"
            yield Segment(start, end, [title], partial(re.sub, marks, r"\\\g<0>"))


@dataclass(frozen=True)
class _Passage:
    """A text in some lines of a document, without marks and indentation before each of them."""

    document: str
    kind: str
    lines: Sequence[Span]
    text: str = ""
    starts: Sequence[int] = ()
    """The position in the text at which each line begins."""

    @classmethod
    def of(cls, document: str, kind: str, lines: Sequence[Span]) -> "_Passage":
        """The passage in some lines."""
        starts, length = [], 0
        for start, end in lines:
            starts.append(length)
            length += end - start + 1
        return cls(document, kind, lines, "\n".join(document[start:end] for start, end in lines), starts)

    def line(self, offset: int) -> int:
        """The number of the line that a character of the text is in."""
        return bisect_right(self.starts, offset) - 1

    def position(self, offset: int) -> int:
        """The position in the document of a character of the text."""
        line = self.line(offset)
        return self.lines[line][0] + offset - self.starts[line]

    def end(self, offset: int) -> int:
        """Index in the document at which a part of the text ends."""
        return self.position(offset - 1) + 1


def _passages(document: str, block: Block) -> Iterator[_Passage]:
    """The text of a block without the mark of a task or an alert; the title of an alert is a text by itself."""
    lines = list(block.lines)
    start, end = lines[-1]
    lines[-1] = (start, start + len(document[start:end].rstrip(" \t")))
    whole = document[slice(*lines[0])]
    if len(lines) == 1 and _KEPT.fullmatch(whole):
        return
    if alert := _ALERT.match(whole):
        title = whole[alert.end() :].lstrip()
        if title.strip():
            yield _Passage.of(document, "title", [(lines[0][1] - len(title), lines[0][1])])
        lines = lines[1:]
    elif mark := _TASK.match(whole) or _DOCSIFY.match(whole):
        lines[0] = (lines[0][0] + mark.end(), lines[0][1])
    if lines:
        yield _Passage.of(document, block.kind, lines)


# ---- from pieces to segments ----


def _segments(passage: _Passage, parts: Sequence[Piece], labels: Collection[str]) -> Iterator[Segment]:
    """The segments of a passage: its texts, then the texts inside of codes."""
    if all(isinstance(part.content, str) for part in parts):
        if segment := _segment(passage, list(parts), labels):
            yield segment
        return
    closed = _closed(passage, parts)
    ends = _ends_of_lines(passage, closed)
    waiting = [closed]
    while waiting:
        stretch = _without_edges(passage, waiting.pop())
        divided = list(_divided(passage, stretch, ends))
        if len(divided) == 1:
            divided = list(_links_of_row(stretch))
        if len(divided) > 1:
            waiting += reversed(divided)
        elif stretch and (segment := _segment(passage, stretch, labels)):
            yield segment
    for piece in closed:
        yield from _segments_in_code(passage, piece)


def _segments_in_code(passage: _Passage, piece: Piece) -> Iterator[Segment]:
    """The segments inside of a code: the title of a link, and the attributes of a tag."""
    code = piece.content
    if not isinstance(code, Code) or code.start is None:
        return
    if piece.title:
        yield from _titles(passage.document, [(passage.position(piece.title[0]), passage.end(piece.title[1]))])
    elif code.markup.startswith("<") and "=" in code.markup:
        yield from (_moved(segment, code.start) for segment in read_html(code.markup).segments)


def _closed(passage: _Passage, parts: Sequence[Piece]) -> list[Piece]:
    """The pieces with each element that is not translated, such as `<kbd>`, as one code."""
    if not any(isinstance(part.content, Code) and part.content.markup.startswith("<") for part in parts):
        return [_placed(passage, part) for part in parts]
    by_start = {part.start: part for part in parts}
    spelled = [
        replace(part.content, markup=passage.text[part.start : part.end])
        if isinstance(part.content, Code)
        else passage.text[part.start : part.end]
        for part in parts
    ]
    closed, position = [], 0
    for content in closed_up(spelled):
        end = position + len(content.markup if isinstance(content, Code) else content)
        part = by_start[position]
        closed.append(_placed(passage, part if part.end == end else Piece(position, end, content)))
        position = end
    return closed


def _placed(passage: _Passage, part: Piece) -> Piece:
    """The piece, where a code knows its position in the document if the document has it in one piece."""
    if isinstance(part.content, Code):
        start = passage.position(part.start)
        if passage.document.startswith(part.content.markup, start):
            return replace(part, content=replace(part.content, start=start))
    return part


def _is_tag(part: Piece) -> bool:
    """Whether a piece is a tag, a comment or a shortcode."""
    return isinstance(part.content, Code) and part.content.kind != "word" and part.content.markup[0] in "<{"


def _divided(passage: _Passage, parts: Sequence[Piece], ends: Sequence[int]) -> Iterator[list[Piece]]:
    """The pieces divided at hard line breaks, at some ends of lines, and where two links or so touch."""
    opened = paired_codes([part.content for part in parts])
    closed = set(opened.values())
    depth = 0
    current: list[Piece] = []
    for index, part in enumerate(parts):
        if index in opened and not depth and _stand_apart(current[-2:], parts[index : index + 2]):
            yield current
            current = []
        depth += (index in opened) - (index in closed)
        if isinstance(part.content, Code):
            if _is_hard_break(part.content) and not depth:
                yield current
                current = []
            else:
                current.append(part)
            continue
        start = part.start
        for end in ends[bisect_left(ends, part.start) : bisect_left(ends, part.end)]:
            current.append(Piece(start, end, passage.text[start:end]))
            yield current
            current, start = [], end + 1
        if start == part.start:
            current.append(part)
        elif start < part.end:
            current.append(Piece(start, part.end, passage.text[start : part.end]))
    yield current


def _stand_apart(before: Sequence[Piece], after: Sequence[Piece]) -> bool:
    """Whether a word and the end of its element touch the beginning of another element that is another text."""
    match [part.content for part in (*before, *after)]:
        case [str(left), Code(kind="close") as first, Code() as second, str(right)]:
            apart = {first.name, second.name} <= _LINKS or is_replaced(first, second)
            return apart and left[-1:].isalnum() and right[:1].isalnum()
    return False


def _is_hard_break(code: Code) -> bool:
    return code.kind == "break" and code.markup.endswith("\n")


def _ends_of_lines(passage: _Passage, parts: Sequence[Piece]) -> list[int]:
    """The ends of lines at which no sentence goes on, since the line before or after them consists of tags.

    A line that begins and ends with tags counts if the first one is no inline element, but a component of MDX or so.
    """
    if len(passage.lines) == 1 or not any(map(_is_tag, parts)):
        return []
    parts_of_lines: list[list[Piece]] = [[] for _ in passage.lines]
    for part in parts:
        for number in range(passage.line(part.start), passage.line(part.end - 1) + 1):
            line_start, line_end = passage.lines[number]
            start = passage.starts[number]
            end = start + line_end - line_start
            if _is_tag(part) or passage.text[max(part.start, start) : min(part.end, end)].strip():
                parts_of_lines[number].append(part)
    are_tags = [_is_line_of_tags(line_parts) for line_parts in parts_of_lines]
    return [
        start - 1 for start, neighbours in zip(passage.starts[1:], pairwise(are_tags), strict=True) if any(neighbours)
    ]


def _is_line_of_tags(line: Sequence[Piece]) -> bool:
    """Whether a line, of which these are the pieces but for spaces, consists of tags or of a component."""
    if not line or not _is_tag(line[0]) or not _is_tag(line[-1]):
        return False
    return all(map(_is_tag, line)) or bool(_BEGINS_HTML.match(line[0].content.markup))


def _without_edges(passage: _Passage, parts: list[Piece]) -> list[Piece]:
    """The pieces without spaces and codes around them that need not move: pairs around all, and single codes."""
    opened = paired_codes([part.content for part in parts])
    closed = set(opened.values())
    first, last = 0, len(parts) - 1
    while first <= last:
        if _is_loose(parts[first]) and first not in opened and first not in closed:
            first += 1
        elif _is_loose(parts[last]) and last not in opened and last not in closed:
            last -= 1
        elif opened.get(first) == last and _is_as_spelled(passage, parts[last]):
            first, last = first + 1, last - 1
        else:
            break
    return parts[first : last + 1]


def _is_loose(part: Piece) -> bool:
    """Whether a piece does not belong to a text at whose beginning or end it stands."""
    if isinstance(part.content, Code):
        return part.content.kind != "word"
    return not part.content.strip()


def _is_as_spelled(passage: _Passage, part: Piece) -> bool:
    """Whether the document spells a code as it would be written."""
    return isinstance(part.content, Code) and part.content.markup == passage.text[part.start : part.end]


def _links_of_row(parts: list[Piece]) -> Iterator[list[Piece]]:
    """The links one by one if there are no words between them, as in a row of badges; else all pieces together."""
    opened = paired_codes([part.content for part in parts])
    links: list[list[Piece]] = []
    index = 0
    while index < len(parts):
        content = parts[index].content
        if index in opened and content.name in _LINKS:
            links.append(parts[index : opened[index] + 1])
            index = opened[index]
        elif has_letters(content) if isinstance(content, str) else content.kind == "word":
            yield parts
            return
        index += 1
    yield from links if len(links) > 1 else [parts]


def _segment(passage: _Passage, parts: list[Piece], labels: Collection[str]) -> Segment | None:
    """The segment of some pieces, without spaces around it; None if it has no words."""
    content = with_spaces_outside(trimmed(_with_single_codes([part.content for part in parts])))
    if not has_words(content):
        return None
    first, last = parts[0], parts[-1]
    start = first.end - len(passage.text[first.start : first.end].lstrip())
    end = last.start + len(passage.text[last.start : last.end].rstrip())
    numbers = range(passage.line(start), passage.line(end - 1))  # of all lines but the last
    ends = [passage.starts[number + 1] - 1 for number in numbers]
    return _MarkdownSegment(
        passage.position(start),
        passage.end(end),
        content,
        lengths=[line_end - line_start for line_start, line_end in pairwise([start, *ends, end])],
        newlines=[passage.document[passage.lines[n][1] : passage.lines[n + 1][0]] for n in numbers],
        kind=passage.kind,
        begins_line=start == passage.starts[passage.line(start)],
        spelling=_Spelling.of(passage, parts),
        labels=labels,
        short={
            part.content.markup: passage.text[part.start : part.end]
            for part in parts
            if isinstance(part.content, Code) and part.content.markup.startswith("][")
        },
    )


def _with_single_codes(content: Content) -> Content:
    """The content with its lines joined. Tags and shortcodes that are not closed become single codes."""
    opened = paired_codes(content)
    paired = opened.keys() | set(opened.values())
    single: list[str | Code] = []
    for index, part in enumerate(content):
        if isinstance(part, str):
            part = joined(part)
        elif part.kind in ("open", "close") and index not in paired:
            part = replace(part, kind="word" if part.markup.startswith("{{<") else "alone")
        single.append(part)
    return single


# ---- from translations to Markdown ----


@dataclass(frozen=True)
class _Spelling:
    """The spelling that a text uses for characters that could be markup."""

    literal: Collection[str] = ()
    """Characters that the text has as they are."""
    spelled: Mapping[str, str] = field(default_factory=dict)
    """Other characters, with the escape or entity that the text has for them."""
    escapes_colons: bool = False
    """Whether the text has an escaped colon, without which it would have an emoji or an address."""

    @classmethod
    def of(cls, passage: _Passage, parts: Sequence[Piece]) -> "_Spelling":
        """The spelling of a passage."""
        literal: set[str] = set()
        spelled: dict[str, str] = {}
        escapes_colons = False
        for part in parts:
            if isinstance(part.content, str):
                markup = passage.text[part.start : part.end]
                escapes_colons = escapes_colons or markup == "\\:"
                if markup == part.content:
                    literal.update(markup)
                elif len(part.content) == 1 and (markup[0] == "&" or part.content in _ALL_SPECIAL):
                    spelled[part.content] = markup
        return cls(
            literal - spelled.keys(),
            {character: markup for character, markup in spelled.items() if character not in literal},
            escapes_colons,
        )

    def write(self, text: str, *, escape_all: bool) -> str:
        """A text with characters escaped that would be markup, as far as can be told without the text around it."""

        def spelled(match: re.Match[str]) -> str:
            character = match[0]
            if character in self.spelled:
                return self.spelled[character]
            if escape_all:
                return f"\\{character}"
            if character in self.literal or character not in _SPECIAL:
                return character
            within_word = re.match(r"\w_\w", text[max(0, match.start() - 1) : match.start() + 2])
            return character if within_word else f"\\{character}"

        written = re.sub(f"[{re.escape(_ALL_SPECIAL + ''.join(self.spelled))}]", spelled, text)
        return _COLON.sub(r"\\:", written) if self.escapes_colons else written


@dataclass(frozen=True)
class _MarkdownSegment(Segment):
    """A segment whose translation is written as Markdown: with escapes, and in as many lines as the source."""

    lengths: Sequence[int] = ()
    """Characters in each line of the source."""
    newlines: Sequence[str] = ()
    """The texts between these lines: line breaks, marks of quotations and indentation."""
    kind: str = "text"
    begins_line: bool = False
    """Whether the segment is the first text of a line."""
    spelling: _Spelling = field(default_factory=_Spelling)
    labels: Collection[str] = ()
    """Labels of addresses that links of the document refer to."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Spellings of the ends of links whose text is the label itself, by their markup with the label."""

    def writable(self, content: Content) -> Content:
        """The translation without emphasis that Markdown cannot write: of nothing, or next to some characters."""
        if not any(map(_is_mark, content)):
            return content
        content = _without_empty_emphasis(content)
        loosened = _loosened(content)
        for attempt, escape_all in ((content, False), (content, True), (loosened, True)):
            if self._is_read_as(self._spelled(attempt, escape_all=escape_all), attempt):
                return attempt
        return self._without_unread_emphasis(loosened)

    def _without_unread_emphasis(self, content: Content) -> Content:
        """The content without emphasis whose marks are read as text. Other marks may be read as text after that."""
        for _ in range(MOST_READINGS):
            written = self._spelled(content, escape_all=True)
            read = pieces(_whole(written), self.labels)
            codes = {(piece.start, piece.end) for piece in read if isinstance(piece.content, Code)}
            ends = [*accumulate(len(part.markup if isinstance(part, Code) else part) for part in written)]
            unread = {
                index
                for index, (start, end) in enumerate(pairwise([0, *ends]))
                if _is_mark(content[index]) and (start, end) not in codes
            }
            if not unread:
                break
            unread |= {index for pair in paired_codes(content).items() if not unread.isdisjoint(pair) for index in pair}
            content = [part for index, part in enumerate(content) if index not in unread]
        return content

    def written(self, content: Content) -> str:
        """The translation as it is written into the document."""
        return self._in_lines(self._escaped(content))

    def _escaped(self, content: Content) -> Content:
        """The content with its texts spelled so that the same codes are read from it."""
        attempt = self._spelled(content, escape_all=False)
        return attempt if self._is_read_as(attempt, content) else self._spelled(content, escape_all=True)

    def _spelled(self, content: Content, *, escape_all: bool) -> list[str | Code]:
        """The content with its texts and codes as they are spelled."""
        written: list[str | Code] = []
        for part in content:
            if isinstance(part, str):
                text = self.spelling.write(part, escape_all=escape_all)
                if self.kind == "cell":
                    text = re.sub(r"(?<!\\)\|", r"\|", text)
                elif self.kind == "title":
                    text = text.replace('"', "'")
                written.append(text)
            elif _is_hard_break(part):
                written.append(part)
            else:
                markup = part.markup.replace("\n", " ")
                if written and markup == f"][{written[-1]}]":
                    markup = self.short.get(markup, markup)
                written.append(replace(part, markup=markup))
        return written

    def _is_read_as(self, written: Content, content: Content) -> bool:
        """Whether reading what is written gives the texts and codes of the content."""
        whole = _whole(written)
        if not _MARKUP.search(whole):
            return True
        return _merged([piece.content for piece in pieces(whole, self.labels)]) == _merged(content)

    def _in_lines(self, content: Content) -> str:
        """The content in as many lines as the source, but with its own lines if it has hard line breaks."""
        if not self.newlines or any(isinstance(part, Code) and _is_hard_break(part) for part in content):
            lines = _whole(content).split("\n")
            newlines = self.newlines[:1] * (len(lines) - 1)
        else:
            parts = units(content)
            for before, unit in pairwise(parts):
                unit.begins_line = not _BEGINS_HTML.match(unit.text) and not before.text.endswith("\\")
            lines, newlines = in_lines(self.lengths, parts), self.newlines
        lines = [self._without_blocks(line, number) for number, line in enumerate(lines)]
        return "".join(line + newline for line, newline in zip(lines, [*newlines[: len(lines) - 1], ""], strict=True))

    def _without_blocks(self, line: str, number: int) -> str:
        """The line, where marks are escaped that would make it a heading, a list or the like."""
        if self.kind == "heading" and (marks := _ENDS_HEADING.search(line)):
            return f"{line[: marks.start()]}\\{line[marks.start() :]}"
        if self.kind == "text" and (number or self.begins_line) and (block := _BEGINS_BLOCK.match(line)):
            if block["label"] is not None and normalized(block["label"]) in self.labels:
                return f"{block[0][:-1]}[]:{line[block.end() :]}"  # a link, not its address
            position = block.end("number") if block["number"] else 0
            return f"{line[:position]}\\{line[position:]}"
        return line


def _whole(content: Content) -> str:
    """The content as one text."""
    return "".join(part.markup if isinstance(part, Code) else part for part in content)


def _merged(content: Content) -> list[tuple[bool, str]]:
    """The content with neighbouring texts, and neighbouring codes, as one; each with whether it is a code.

    Addresses and emoji are read as codes, but count as texts.
    """
    parts: list[tuple[bool, list[str]]] = []
    for part in content:
        text = part.markup.replace("\n", " ") if isinstance(part, Code) else part
        is_code = isinstance(part, Code) and not ADDRESS.match(text) and not EMOJI.match(text)
        if text and parts and parts[-1][0] == is_code:
            parts[-1][1].append(text)
        elif text:
            parts.append((is_code, [text]))
    return [(is_code, "".join(texts)) for is_code, texts in parts]


def _without_empty_emphasis(content: Content) -> Content:
    """The content without emphasis of nothing, which Markdown cannot write: its marks would be text."""
    kept: list[str | Code] = []
    for part in content:
        if kept and _is_mark(part) and _is_mark(kept[-1]) and (kept[-1].kind, part.kind) == ("open", "close"):
            kept.pop()
        else:
            kept.append(part)
    return kept


def _is_mark(part: str | Code) -> bool:
    """Whether a part is one end of emphasis."""
    return isinstance(part, Code) and part.markup in ("*", "**", "_", "__", "~", "~~", "==")


def _loosened(content: Content) -> Content:
    """The content with emphasis that works beside letters, too: by `*`, and without punctuation at its ends."""
    loosened: list[str | Code] = []
    for part in content:
        if isinstance(part, Code) and part.markup in ("_", "__"):
            part = replace(part, markup="*" * len(part.markup), start=None)
        if isinstance(part, Code) and part.kind == "close" and set(part.markup) <= {"*"} and loosened:
            text = loosened[-1] if isinstance(loosened[-1], str) else ""
            core = text.rstrip("".join(filter(is_mark, set(text))))
            if core and core != text:
                loosened[-1:] = [core, part, text[len(core) :]]
                continue
        elif isinstance(part, str) and loosened and isinstance(loosened[-1], Code):
            code = loosened[-1]
            core = part.lstrip("".join(filter(is_mark, set(part))))
            if code.kind == "open" and set(code.markup) <= {"*"} and core and core != part:
                loosened[-1:] = [part[: len(part) - len(core)], code, core]
                continue
        loosened.append(part)
    return loosened
