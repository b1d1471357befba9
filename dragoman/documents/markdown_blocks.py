"""Finds the texts of a Markdown document: its blocks, by CommonMark and common additions to it.

Blocks are told apart line by line, as the appendix of CommonMark describes it: each line continues the containers that
are open (quotations, items of lists, notes), and the rest of the line begins a block or goes on with the one before. So
the positions of every text are known, and the time is proportional to the length.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Span = tuple[int, int]


@dataclass(frozen=True)
class Block:
    """A text in a document."""

    kind: Literal["text", "heading", "cell", "title", "label", "html"]
    """Kinds that matter for spelling: a `heading` is in one line with its marks, a `title` is in quotation marks, a
    `label` is the title of a link's address."""
    lines: Sequence[Span]
    """Start and end of each line, without marks of quotations and lists before it."""


@dataclass
class _Container:
    """A container of blocks: a quotation, or lines that are indented as those of an item."""

    width: int
    """Columns by which lines are indented; 0 in a quotation."""
    first_quote: int | None
    """Index of the outermost quotation among this container and those around it."""
    is_empty: bool = False
    """Whether it is an item with nothing but its mark so far."""


@dataclass
class _Leaf:
    """The block that lines are added to."""

    kind: Literal["paragraph", "table", "html", "kept"]
    lines: list[Span] = field(default_factory=list)
    ends: Callable[[str], bool] | None = None
    """Says whether a line ends the block. Without it, the block ends at an empty line."""
    columns: int = 0
    """Columns of a table."""


MOST_NESTED = 100
"""Most containers inside of each other. Marks of further ones are text."""
_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
_BLANK = re.compile(r"[ \t]*")
_QUICK = re.compile(r"[^\W\d_ie]")
"""Letters that begin no block but a paragraph; `import` and `export` may."""
_SETEXT = re.compile(r"(?:=+|-+)[ \t]*\Z")
_RULE = re.compile(r"(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})\Z")
_ITEM = re.compile(r"(?:[-+*]|(?P<number>\d{1,9})[.)])(?=[ \t]|\Z)")
_HEADING = re.compile(r"#{1,6}(?=[ \t]|\Z)")
_FENCE = re.compile(r"`{3,}(?=[^`]*\Z)|~{3,}")
_DELIMITERS = re.compile(r"(?!-[ \t])[-|:][-|: \t]*\Z")
_DELIMITER = re.compile(r"\s*:?-+:?\s*")
_DEFINITION = re.compile(r":[ \t]+(?=\S)")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:")
_ABBREVIATION = re.compile(r"\*\[[^\]]+\]:[ \t]*")
_CONTAINER = re.compile(r""":{3,}[ \t]*(?:(?P<name>[\w-]+)|\{[^{}]*\})?[ \t]*(?:\[(?P<label>[^\]]*)\])?(?P<title>.*)""")
_CODE_NAMES = {"mermaid", "plantuml", "math", "katex"}
_TITLED = re.compile(
    r"""(?:!!!|\?\?\?\+?)(?:[ \t]+[\w-]+)+(?:[ \t]+"(?P<note>.*)")?[ \t]*\Z|===[!+]{0,2}[ \t]+"(?P<tab>.*)"[ \t]*\Z"""
)
_SLASHES = re.compile(r"/{3,}[ \t]*(?:[\w-]+[ \t]*(?:\|[ \t]*(?P<title>.*))?)?\Z")
_ATTRIBUTES = re.compile(r"\{:[^{}]*\}[ \t]*\Z|\{[#.][\w-]+(?:[ \t]+[#.][\w-]+)*\}[ \t]*\Z")
_BAR = re.compile(r"(?<!\\)\|")
_GRID = re.compile(r"(?:\+:?[-=]+:?)+\+[ \t]*\Z")
_DASHES = re.compile(r"-{2,}(?:[ \t]+-{2,})+[ \t]*\Z")
_RAW = re.compile(
    r"\{%-?[ \t]*(?P<liquid>raw|highlight|comment|mermaid|math)\b"
    r"|\{\{[<%][ \t]*(?P<hugo>highlight|mermaid|math|katex|chem)\b"
)
_SCRIPT = re.compile(
    r"""import\s+(?:["']|[\w$*{][^;]*?\sfrom\s*["']|\{[^}]*\Z)
      |export\s+(?:(?:const|let|var|function|async|class)\s+[\w$]|\{|\*
                  |default\s+(?:[\w$]+[.(;]|[\w$]+\s*\Z|function|class|[({\[`]|\w+\s*=>))""",
    re.VERBOSE,
)
_TAG_NAMES = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt"
    "|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu"
    "|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr"
    "|track|ul"
)
_ATTRIBUTE = r"""(?:\s++[a-zA-Z_:@][\w:.@-]*+(?:\s*+=\s*+(?:[^\s"'=<>`]++|'[^']*+'|"[^"]*+"))?+)*+"""
_HTML: Sequence[tuple[re.Pattern[str], str | None]] = [
    (re.compile(r"<(?:script|pre|style|textarea)(?=\s|>|\Z)", re.IGNORECASE), r"(?i)</(?:script|pre|style|textarea)>"),
    (re.compile(r"<!--"), "-->"),
    (re.compile(r"<\?"), r"\?>"),
    (re.compile(r"<![a-zA-Z]"), ">"),
    (re.compile(r"<!\[CDATA\["), r"\]\]>"),
    (re.compile(rf"</?(?:{_TAG_NAMES})(?=\s|/?>|\Z)", re.IGNORECASE), None),
]
"""Pairs of patterns: what begins a block of HTML, and what ends it, or None if an empty line does."""
_LONE_TAG = re.compile(rf"<(?:[a-z][a-zA-Z0-9-]*{_ATTRIBUTE}\s*/?|/[a-z][a-zA-Z0-9-]*\s*)>[ \t]*\Z")
"""A tag alone in its line begins a block, too, but for components, which begin with a capital."""
_REFERENCE = re.compile(
    r"""\[(?P<label>(?:[^\[\]\\]|\\.){1,999}+)\]:[ \t]*\n?[ \t]*(?:<[^<>\n]*>|(?!<)\S+)
        (?:(?:[ \t]+|[ \t]*\n[ \t]*)(?P<title>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|\((?:[^()\\]|\\.)*+\)))?
        [ \t]*(?:\n|\Z)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass
class Blocks:
    """The texts of a document, in order, and the labels of addresses that its links refer to."""

    texts: list[Block]
    labels: set[str]


def read_blocks(text: str, start: int = 0) -> Blocks:
    """The blocks of a document from a position on, such as that after its front matter."""
    return _Parser(text).parse(start)


def normalized(label: str) -> str:
    """The label of an address in the form in which labels are compared."""
    return " ".join(label.split()).casefold()


def cells_of(text: str, start: int, end: int) -> list[Span]:
    """The cells of a row of a table. Bars at both ends are outside of them."""
    cells, position = [], start
    for bar in _BAR.finditer(text, start, end):
        cells.append((position, bar.start()))
        position = bar.end()
    cells.append((position, end))
    if not text[slice(*cells[0])].strip():
        cells = cells[1:]
    if cells and not text[slice(*cells[-1])].strip():
        cells = cells[:-1]
    return cells


class MarkFinder:
    """Finds marks in a text without searching a part of it twice for the same mark."""

    def __init__(self, text: str):
        self.text = text
        self._known: dict[str, tuple[int, int]] = {}
        """For each mark, the position of its latest search, and the result."""

    def find(self, mark: str, position: int) -> int:
        """Index of the next mark from a position on, or -1."""
        searched, index = self._known.get(mark, (0, 0))
        if not (mark in self._known and searched <= position and (index < 0 or position <= index)):
            index = self.text.find(mark, position)
            self._known[mark] = (position, index)
        return index


class _Parser:
    """Reads the blocks of a document line by line."""

    def __init__(self, text: str):
        self.text = text
        self.texts: list[Block] = []
        self.labels: set[str] = set()
        self.containers: list[_Container] = []
        self.leaf: _Leaf | None = None
        self.finder = MarkFinder(text)
        self.starts: dict[str, Callable[[int, int, int, bool], int | bool]] = {
            "#": self._heading, "`": self._fence, "~": self._fence, "<": self._html, "*": self._star, "-": self._dash,
            "_": self._rule, "+": self._plus, "$": self._mathematics, "\\": self._mathematics, ":": self._colon,
            "!": self._titled, "?": self._titled, "=": self._titled, "/": self._slashes, "{": self._brace,
            "[": self._footnote, "i": self._script, "e": self._script,
        }  # fmt: skip
        self.starts |= dict.fromkeys("0123456789", self._item)
        """By its first character, the method that begins a block; see "blocks by their first character" below."""
        self.column = 0
        """Column of the current line up to which it is read."""

    def parse(self, start: int) -> Blocks:
        """Read the document from a position on."""
        for line in _LINE.finditer(self.text, start):
            if line.start() < len(self.text):
                self._line(*line.span(1))
        self._close(0)
        return Blocks(self.texts, self.labels)

    # ---- lines and containers ----

    def _line(self, start: int, end: int) -> None:
        """Read a line: leave the containers that it does not continue, and go on with the rest of it."""
        text = self.text
        depth = self.column = 0
        position = start
        first = _BLANK.match(text, start, end).end()
        if first == end:
            self._empty_line(start, end)
            return
        for container in self.containers:
            first, indent = self._indentation(position, end)
            if not container.width:
                if indent > 3 or text[first : min(first + 1, end)] != ">":
                    break
                position = self._after(first, 1, indent, end)
            elif first == end:
                if container.is_empty:
                    break
            elif indent >= container.width:
                position = self._advanced(position, container.width)
            else:
                break
            depth += 1
        matched = depth == len(self.containers)
        first, indent = self._indentation(position, end)
        if matched and self.leaf and self.leaf.kind in ("html", "kept") and (first < end or self.leaf.ends):
            self._go_on(position, end)
        elif first == end:
            self._empty(depth)
        else:
            if depth:
                self.containers[depth - 1].is_empty = False
            self._begin(position, end, depth)

    def _empty_line(self, start: int, end: int) -> None:
        """Read a line without any mark. It ends quotations, and items with nothing but their marks."""
        depth = len(self.containers)
        if self.containers and self.containers[-1].first_quote is not None:
            depth = self.containers[-1].first_quote
        elif self.containers and self.containers[-1].is_empty and not self.leaf:
            depth -= 1
        if depth == len(self.containers) and self.leaf and self.leaf.kind in ("html", "kept") and self.leaf.ends:
            self._go_on(start, end)
        else:
            self._empty(depth)

    def _empty(self, depth: int) -> None:
        """Read an empty line in the first containers. It ends the others, and the block."""
        if depth < len(self.containers):
            self._close(depth)
        else:
            self._close_leaf()

    def _go_on(self, start: int, end: int) -> None:
        """Add a line to a block that may hold any text."""
        self.leaf.lines.append((start, end))
        if self.leaf.ends and self.leaf.ends(self.text[start:end]):
            self._close_leaf()

    def _indentation(self, position: int, end: int) -> tuple[int, int]:
        """The position of the first character that is no space, and its distance in columns."""
        first = _BLANK.match(self.text, position, end).end()
        spaces = self.text[position:first]
        if "\t" not in spaces:
            return first, len(spaces)
        before = self.column % 4
        return first, len((" " * before + spaces).expandtabs(4)) - before

    def _advanced(self, position: int, width: int) -> int:
        """The position that many columns of spaces later, which may be within a tab."""
        while width and self.text[position : position + 1] in (" ", "\t"):
            step = 4 - self.column % 4 if self.text[position] == "\t" else 1
            self.column += min(step, width)
            position += step <= width
            width -= min(step, width)
        return position

    def _after(self, first: int, length: int, indent: int, end: int) -> int:
        """The position after a mark and one space."""
        self.column += indent + length
        return self._advanced(first + length, 1) if first + length < end else first + length

    def _push(self, width: int, *, is_empty: bool = False) -> None:
        """Open a container."""
        first_quote = self.containers[-1].first_quote if self.containers else None
        if first_quote is None and not width:
            first_quote = len(self.containers)
        self.containers.append(_Container(width, first_quote, is_empty))

    def _close(self, depth: int) -> None:
        """End the block and all containers but the first ones."""
        self._close_leaf()
        del self.containers[depth:]

    # ---- blocks ----

    def _begin(self, position: int, end: int, depth: int) -> None:
        """Begin blocks with the rest of a line that is in the first containers, or go on with the one before."""
        text = self.text
        opened = False
        while True:
            first, indent = self._indentation(position, end)
            goes_on = self.leaf is not None and self.leaf.kind == "paragraph" and not opened
            if first == end:
                return
            if indent >= 4:
                if not goes_on:
                    self._close(depth)
                    return  # code
                break
            if _QUICK.match(text, first):
                break
            interrupts = goes_on and depth == len(self.containers)
            if interrupts and self._ends_paragraph(first, end):
                return
            if text[first] == ">" and len(self.containers[:depth]) < MOST_NESTED:
                self._close(depth)
                self._push(0)
                position = self._after(first, 1, indent, end)
            else:
                start = self.starts.get(text[first])
                self._depth, self._indent = depth, indent
                began = start(position, first, end, interrupts) if start else False
                if began is True:
                    return
                if began is False:
                    break
                position = began
            depth, opened = len(self.containers), True
        if goes_on:
            self.leaf.lines.append((first, end))
        elif self.leaf and self.leaf.kind == "table" and depth == len(self.containers) and not opened:
            self._row(first, end)
        else:
            self._close(depth)
            self.leaf = _Leaf("paragraph", [(first, end)])

    def _ends_paragraph(self, first: int, end: int) -> bool:
        """Whether the line makes a heading or a table of the paragraph before it."""
        line = self.text[first:end]
        if "-" not in line and "=" not in line:
            return False
        header = self.leaf.lines[-1]
        if _DELIMITERS.match(line) and "|" in self.text[slice(*header)]:
            columns = cells_of(self.text, first, end)
            names = cells_of(self.text, *header)
            if len(names) == len(columns) and all(_DELIMITER.fullmatch(self.text, *cell) for cell in columns):
                self.leaf.lines.pop()
                self._close_leaf()
                self.leaf = _Leaf("table", columns=len(columns))
                self._row(*header)
                return True
        if _SETEXT.match(line) and (lines := self._without_references(self.leaf.lines)):
            self.texts.append(Block("text", lines))
            self.leaf = None
            return True
        return False

    def _row(self, first: int, end: int) -> None:
        """Add the cells of a row to the table."""
        cells = cells_of(self.text, first, end)
        self._add_cells(cells[: self.leaf.columns])

    def _add_cells(self, cells: Iterable[Span]) -> None:
        trimmed = (self._trimmed(*cell) for cell in cells)
        self.texts += [Block("cell", [(start, end)]) for start, end in trimmed if start < end]

    def _trimmed(self, start: int, end: int) -> Span:
        """The span without spaces at both ends."""
        whole = self.text[start:end]
        return start + len(whole) - len(whole.lstrip()), end - len(whole) + len(whole.rstrip())

    def _close_leaf(self) -> None:
        """End the block, and add its texts."""
        leaf, self.leaf = self.leaf, None
        if not leaf:
            return
        if leaf.kind == "html":
            self.texts.append(Block("html", leaf.lines))
        elif leaf.kind == "paragraph" and (lines := self._without_references(leaf.lines)):
            if all(self.text[start] == "|" for start, _ in lines):  # a table without a header, or a line block
                self._add_cells(cell for line in lines for cell in cells_of(self.text, *line))
            else:
                self.texts.append(Block("text", lines))

    def _without_references(self, lines: list[Span]) -> list[Span]:
        """The lines of a paragraph after the addresses of links that it may begin with."""
        if not lines or self.text[lines[0][0]] != "[":
            return lines
        whole = "\n".join(self.text[start:end] for start, end in lines)
        position = number = 0
        while reference := _REFERENCE.match(whole, position):
            if not reference["label"].strip():
                break
            self.labels.add(normalized(reference["label"]))
            if reference["title"] and "\n" not in reference["title"]:
                title = reference.start("title")
                line = number + whole.count("\n", position, title)
                start = lines[line][0] + title - (whole.rfind("\n", 0, title) + 1)
                self.texts.append(Block("label", [(start + 1, start + len(reference["title"]) - 1)]))
            number += reference[0].count("\n")
            position = reference.end()
        return lines[number:] if position < len(whole) else []

    def _keep(self, start: int, end: int, ends: Callable[[str], bool] | None = None) -> bool:
        """Begin a block that stays as it is, up to the line that ends it or the next empty one."""
        self._close(self._depth)
        self.leaf = _Leaf("kept", [(start, end)], ends)
        return True

    def _keep_line(self) -> bool:
        """Leave a line as it is."""
        self._close(self._depth)
        return True

    def _add(self, kind: Literal["text", "heading", "cell", "title"], start: int, end: int) -> None:
        """Add a text in one line."""
        start, end = self._trimmed(start, end)
        if start < end:
            self.texts.append(Block(kind, [(start, end)]))

    # ---- blocks by their first character ----
    #
    # Each method gets the position in the line, that of the first character, the end of the line, and whether the block
    # would interrupt a paragraph. It returns False if the line is a text, True if it has read the line, and if it has
    # opened a container, the position from which on the rest of the line is read.

    def _heading(self, position: int, first: int, end: int, interrupts: bool) -> bool:
        """Read a heading with `#`, without the marks that may close it."""
        marks = _HEADING.match(self.text, first, end)
        if not marks:
            return False
        self._close(self._depth)
        line = self.text[marks.end() : end].rstrip(" \t")
        closed = line.rstrip("#")
        if not closed or closed[-1] in " \t":
            line = closed
        self._add("heading", marks.end(), marks.end() + len(line))
        return True

    def _fence(self, position: int, first: int, end: int, interrupts: bool) -> bool:
        """Begin a block of code between fences."""
        fence = _FENCE.match(self.text[first:end])
        if not fence:
            return False
        closing = re.compile(rf" {{0,3}}{fence[0]}{fence[0][0]}*[ \t]*\Z")
        return self._keep(first, end, lambda line: bool(closing.match(line.expandtabs(4))))

    def _html(self, position: int, first: int, end: int, interrupts: bool) -> bool:
        """Begin a block of HTML."""
        line = self.text[first:end]
        closings = [closing for begins, closing in _HTML if begins.match(line)]
        if not closings and (interrupts or not _LONE_TAG.match(line)):
            return False
        self._close(self._depth)
        ends = re.compile(closings[0]).search if closings and closings[0] else None
        self.leaf = _Leaf("html", [(position, end)], (lambda text: bool(ends(text))) if ends else None)
        if ends and ends(line):
            self._close_leaf()
        return True

    def _rule(self, position: int, first: int, end: int, interrupts: bool) -> bool:
        """Leave a thematic break as it is."""
        return bool(_RULE.match(self.text[first:end])) and self._keep_line()

    def _star(self, position: int, first: int, end: int, interrupts: bool) -> int | bool:
        """Read an abbreviation, a thematic break or an item."""
        if abbreviation := _ABBREVIATION.match(self.text, first, end):
            self._close(self._depth)
            self._add("text", abbreviation.end(), end)
            return True
        return self._rule(position, first, end, interrupts) or self._item(position, first, end, interrupts)

    def _dash(self, position: int, first: int, end: int, interrupts: bool) -> int | bool:
        """Begin a table whose columns are made of spaces, or read a thematic break or an item."""
        line = self.text[first:end]
        if interrupts and _DASHES.match(line):  # a table whose columns are made of spaces
            self.leaf.lines.pop()
            if not self.leaf.lines:
                self.leaf = None
            return self._keep(first, end)
        return self._rule(position, first, end, interrupts) or self._item(position, first, end, interrupts)

    def _plus(self, position: int, first: int, end: int, interrupts: bool) -> int | bool:
        """Begin a grid table, or read an item."""
        if _GRID.match(self.text[first:end]):
            return self._keep(first, end)
        return self._item(position, first, end, interrupts)

    def _item(self, position: int, first: int, end: int, interrupts: bool) -> int | bool:
        """Open an item of a list."""
        mark = _ITEM.match(self.text[first : min(end, first + 12)])
        if not mark or len(self.containers[: self._depth]) >= MOST_NESTED:
            return False
        length = mark.end()
        is_empty = not self.text[first + length : end].strip(" \t")
        if interrupts and (is_empty or (mark["number"] and int(mark["number"]) != 1)):
            return False
        return self._contain(first, length, end, is_empty=is_empty)

    def _contain(self, first: int, length: int, end: int, *, width: int = 0, is_empty: bool = False) -> int:
        """Open a container whose lines are indented as the text behind its mark, or by a `width`."""
        self._close(self._depth)
        self.column += self._indent + length
        _, spaces = self._indentation(first + length, end)
        spaces = 1 if is_empty or spaces > 4 else spaces
        self._push(width or self._indent + length + spaces, is_empty=is_empty)
        return self._advanced(first + length, spaces)

    def _colon(self, position: int, first: int, end: int, interrupts: bool) -> int | bool:
        """Open a definition, or read one end of a container such as `:::note[Title]`."""
        if _DEFINITION.match(self.text, first, end):
            if interrupts:  # each line of the paragraph is a term
                terms, self.leaf = self.leaf.lines, None
                self.texts += [Block("text", [term]) for term in terms]
            return self._contain(first, 1, end)
        container = _CONTAINER.fullmatch(self.text, first, end)
        if not container:
            return False
        if container["name"] in _CODE_NAMES:
            return self._keep(first, end, lambda line: line.strip() == ":::")
        self._close(self._depth)
        group = "label" if container["label"] else "title"
        title = container[group]
        if "=" not in title and ":::" not in title:
            start = container.start(group)
            self._add("title", start, start + len(re.sub(r"\{[^{}]*\}\s*\Z", "", title)))
        return True

    def _titled(self, position: int, first: int, end: int, interrupts: bool) -> int | bool:
        """Open an admonition or a tab, whose lines are indented: `!!! note "Title"`."""
        titled = _TITLED.fullmatch(self.text, first, end)
        if not titled:
            return False
        self._close(self._depth)
        for group in ("note", "tab"):
            if titled[group]:
                self._add("title", *titled.span(group))
        self._push(4)
        return end

    def _slashes(self, position: int, first: int, end: int, interrupts: bool) -> bool:
        """Read one end of a block such as `/// note | Title`."""
        slashes = _SLASHES.fullmatch(self.text, first, end)
        if not slashes:
            return False
        self._close(self._depth)
        if slashes["title"]:
            self._add("title", *slashes.span("title"))
        return True

    def _footnote(self, position: int, first: int, end: int, interrupts: bool) -> int | bool:
        """Open a footnote."""
        mark = _FOOTNOTE.match(self.text, first, end)
        return self._contain(first, len(mark[0]), end, width=4) if mark else False

    def _brace(self, position: int, first: int, end: int, interrupts: bool) -> bool:
        """Leave a list of attributes, or a block of template code, as it is."""
        if _ATTRIBUTES.match(self.text[first:end]):
            return self._keep_line()
        if raw := _RAW.match(self.text, first, end):
            closing = rf"\{{%-?\s*end{raw['liquid']}\b" if raw["liquid"] else rf"\{{\{{[<%]\s*/\s*{raw['hugo']}\b"
            closes = re.compile(closing).search
            if closes(self.text, first, end):
                return self._keep_line()
            return self._keep(first, end, lambda line: bool(closes(line)))
        return False

    def _script(self, position: int, first: int, end: int, interrupts: bool) -> bool:
        """Begin lines of a program in MDX, which must not be indented."""
        if interrupts or self._depth or self._indent or not _SCRIPT.match(self.text[first:end]):
            return False
        return self._keep(first, end)

    def _mathematics(self, position: int, first: int, end: int, interrupts: bool) -> bool:
        """Leave mathematics as it is: between `$$` or brackets with backslashes, or an environment."""
        line = self.text[first:end].rstrip()
        if line.startswith("$$"):
            opening, closing = "$$", "$$"
        elif line.startswith("\\["):
            opening, closing = "\\[", "\\]"
        elif environment := re.match(r"\\begin\{(\w+\*?)\}", line):
            opening, closing = environment[0], f"\\end{{{environment[1]}}}"
        else:
            return False
        if line.find(closing, len(opening)) >= 0:
            return line.endswith(closing) and line.count(closing) < 3 and opening != "\\[" and self._keep_line()
        closing_start = self.finder.find(closing, end)
        # An empty line may be inside only if both marks are alone in their lines.
        if closing_start < 0 or (line != opening and re.search(r"\n[ \t>]*\r?\n", self.text[end:closing_start])):
            return False
        return self._keep(first, end, lambda text: closing in text)
