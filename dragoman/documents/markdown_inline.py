"""Reads a paragraph of Markdown as texts and codes: emphasis, links, code spans, mathematics, tags, shortcodes.

Emphasis follows the rules of CommonMark for runs of delimiters. Each mark is looked at once, and the mark that closes
it is found without searching any stretch twice, so the time is proportional to the length.
"""

import html
import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from dragoman.documents.document import Code
from dragoman.documents.html import inline_tag
from dragoman.documents.markdown_blocks import MarkFinder, Span, normalized


@dataclass(frozen=True)
class Piece:
    """A text as people read it, or a code, and its position in the paragraph."""

    start: int
    end: int
    content: str | Code
    title: Span | None = None
    """Position of the title of a link, without its quotation marks."""


@dataclass
class _Run:
    """A run of delimiters, such as `**`, without those that emphasis has taken already."""

    mark: str
    start: int
    end: int
    opens: bool
    """Whether the run may open emphasis."""
    closes: bool
    """Whether the run may close emphasis."""
    length: int = field(init=False)
    """Number of delimiters before any was taken."""

    def __post_init__(self) -> None:
        self.length = self.end - self.start


@dataclass
class _Bracket:
    """A bracket that may begin a link."""

    start: int
    end: int
    runs: int
    """Number of runs of delimiters before it."""
    is_plain: bool = True
    """Whether no other bracket follows it so far."""


@dataclass(frozen=True)
class _Tail:
    """The end of a link, from the bracket behind its text on."""

    end: int
    markup: str
    title: Span | None = None


ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>]+")
EMOJI = re.compile(r"(?<![\w:]):[a-zA-Z+-][\w+-]*:(?![\w:])")
LONGEST_LABEL = 999
_HOT = re.compile(
    r"\\|`+|<|!?\[|\]|\*+|_+|~+|==+|\^|\$+|\{|&|:|\n|\+\+|(?<![\w/])(?:https?://|www\.)|(?<=[ \n])@(?=\[)"
)
_ESCAPED = re.compile(r"\\[!-/:-@\[-`{-~]")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_AUTOLINK = re.compile(r"<(?:[a-zA-Z][a-zA-Z0-9.+-]{1,31}:[^\s<>]*|[\w.!#$%&'*+/=?^`{|}~-]+@[\w.-]+)>")
_TAG = re.compile(r"</?(?P<name>[a-zA-Z][\w.:-]*)?")
_TAG_ATTRIBUTE = re.compile(
    r"""\s++(?:[a-zA-Z_:@][\w:.@-]*+(?:\s*+=\s*+(?:"[^"]*"|'[^']*'|(?P<value>\{)|[^\s"'=<>`{]++))?+|(?P<spread>\{))"""
)
_TAG_END = re.compile(r"\s*/?>")
_ATTRIBUTES = re.compile(
    r"""\{:?\s*+(?:(?:[#.][\w:.@/-]++|[\w:@.-]++=(?:"[^"{}]*"|'[^'{}]*'|[^\s{}"']++)|-)\s*+)++\}|\{:\s*\}"""
)
_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,200}\]")
_CITATION = re.compile(r"\[[^\[\]@\n]{0,40}@[\w{][^\[\]\n]{0,300}\]")
_WIKI = re.compile(r"!?\[\[(?P<page>[^\[\]|\n]{1,300})(?P<bar>\\?\|)?(?P<text>[^\[\]\n]{0,300})\]\](?![(\[])")
_ROUND = r"\((?:\\.|[^ \t\n()\\]|\((?:\\.|[^ \t\n()\\]|\([^ \t\n()]*\))*+\))*+\)"
_DESTINATION = rf"<(?:\\.|[^<>\n\\])*+>|(?!<)(?:\\.|\{{\{{[^{{}}]*\}}\}}|\{{%[^{{}}]*%\}}|[^ \t\n()\\]|{_ROUND})*+"
_TAIL = re.compile(
    rf"""\([ \t\n]*(?:{_DESTINATION})
        (?:[ \t\n]+(?:"(?P<double>(?:[^"\\]|\\.)*+)"|'(?P<single>(?:[^'\\]|\\.)*+)'|\((?P<round>(?:[^()\\]|\\.)*+)\)))?
        (?:[ \t\n]+=\d*%?x?\d*%?)?[ \t\n]*\)""",
    re.VERBOSE | re.DOTALL,
)
"""The address of a link, which may have brackets three deep, and its title."""
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){0,999}+)\]", re.DOTALL)
_MATH = re.compile(r"\$(?!\s)(?:[^$\n\\]|\\.)++(?<!\s)\$(?!\d)")
_SUPERSCRIPT = re.compile(r"\^[^\s^\[\]]{1,60}\^")
_KEYS = re.compile(r"\+\+[a-z0-9\"-]+(?:\+[a-z0-9\"-]+)*\+\+")
_LOOKS_LIKE_MATH = re.compile(r"[\\^_=<>+*/|{}]|\A\s*[a-zA-Z]?\s*[-\d.,()\[\]]*\s*[a-zA-Z]?\s*\Z")
_SHORTCODE = re.compile(r"(?P<mark>\{\{[<%]-?|\{%-?)\s*(?P<end>/?)\s*(?P<name>end)?(?P<word>[\w./-]+)?")
_TRAILING = ".,;:!?*_~'\""


def pieces(text: str, labels: Collection[str] = ()) -> list[Piece]:
    """The pieces of a text in order; `labels` are those of the addresses that links may refer to."""
    return _Scanner(text, labels).scan()


class _Scanner:
    """Reads a paragraph mark by mark."""

    def __init__(self, text: str, labels: Collection[str]):
        self.text, self.labels = text, labels
        self.marks: list[Piece] = []
        """Pieces so far that are no plain text."""
        self.runs: list[_Run] = []
        self.brackets: list[_Bracket] = []
        self.inactive = 0
        """Number of brackets, from the outermost on, that cannot begin a link since there is a link inside."""
        self.finder = MarkFinder(text)
        self._ticks: dict[int, list[int]] | None = None
        """Positions of the runs of backticks, by their length; None until they are needed."""
        self._braces: dict[int, int] | None = None
        """For each opening brace, the end of the brace that closes it; None until they are needed."""

    def scan(self) -> list[Piece]:
        """The pieces of the paragraph, in order."""
        position = 0
        while hot := _HOT.search(self.text, position):
            position = self._read(hot, hot.start(), hot[0]) or hot.end()
        self._emphasis(0)
        self.marks.sort(key=lambda piece: (piece.start, piece.end))
        return _with_attributes(self._filled())

    def _filled(self) -> Iterable[Piece]:
        """The marks, and the texts between them."""
        last = 0
        for piece in self.marks:
            if piece.start > last:
                yield Piece(last, piece.start, self.text[last : piece.start])
            yield piece
            last = piece.end
        if last < len(self.text):
            yield Piece(last, len(self.text), self.text[last:])

    def _read(self, hot: re.Match[str], start: int, mark: str) -> int | None:
        """Read the code that begins with a mark, and return its end; None if the mark is text."""
        match mark[0]:
            case "\\":
                return self._backslash(start)
            case "`":
                return self._code_span(start, hot.end())
            case "<":
                return self._tag(start)
            case "!" | "[":
                return self._bracket(start, hot.end())
            case "]":
                return self._end_of_link(start)
            case "*" | "_" | "~" | "=":
                return self._delimiters(mark, start, hot.end())
            case "^":
                return self._caret(start)
            case "$":
                return self._mathematics(start, mark)
            case "{":
                return self._brace(start)
            case "&":
                entity = _ENTITY.match(self.text, start)
                character = html.unescape(entity[0]) if entity else ""
                return self._add(start, entity.end(), character) if entity and character != entity[0] else None
            case ":":
                emoji = EMOJI.match(self.text, start)
                return self._add(start, emoji.end(), Code(emoji[0], "word")) if emoji else None
            case "\n":
                return self._newline(start)
            case "+":
                keys = _KEYS.match(self.text, start)
                return self._add(start, keys.end(), Code(keys[0], "word")) if keys else None
            case "h" | "w":
                return self._address(start)
        return None

    def _add(self, start: int, end: int, content: str | Code, title: Span | None = None) -> int:
        """Add a piece, and return its end."""
        self.marks.append(Piece(start, end, content, title))
        return end

    def _word(self, start: int, end: int) -> int:
        """Add a code that stands for a word, and return its end."""
        return self._add(start, end, Code(self.text[start:end], "word"))

    # ---- single codes ----

    def _backslash(self, start: int) -> int | None:
        """Read mathematics between brackets with backslashes, a hard line break or an escaped character."""
        following = self.text[start + 1 : start + 2]
        if following in ("(", "["):
            closing = self.finder.find("\\)" if following == "(" else "\\]", start + 2)
            if 0 <= closing < start + 2000 and _LOOKS_LIKE_MATH.search(self.text[start + 2 : closing]):
                return self._word(start, closing + 2)
        if following == "\n":
            return self._add(start, start + 2, Code("\\\n", "break"))
        if _ESCAPED.match(self.text, start):
            return self._add(start, start + 2, following)
        return None

    def _newline(self, start: int) -> int | None:
        """Read a hard line break: at least two spaces at the end of a line."""
        before = self.text[max(0, start - 200) : start]
        spaces = len(before) - len(before.rstrip(" "))
        if spaces < 2:
            return None
        return self._add(start - spaces, start + 1, Code(self.text[start - spaces : start + 1], "break"))

    def _code_span(self, start: int, end: int) -> int | None:
        """Read a code span, which goes up to the next run of as many backticks."""
        if self._ticks is None:
            self._ticks = defaultdict(list)
            for run in re.finditer("`+", self.text):
                self._ticks[len(run[0])].append(run.start())
        length = end - start
        closings = self._ticks[length]
        index = bisect_right(closings, end - 1)
        return self._word(start, closings[index] + length) if index < len(closings) else None

    def _address(self, start: int) -> int:
        """Read an address without marks of punctuation and closing brackets that belong to the text around it."""
        whole = ADDRESS.match(self.text, start)
        address = whole[0] if whole else self.text[start : start + 4]
        while address:
            if address[-1] in _TRAILING:
                address = address.rstrip(_TRAILING)
            elif address[-1] == ")" and address.count(")") > address.count("("):
                surplus = address.count(")") - address.count("(")
                address = address[: -min(surplus, len(address) - len(address.rstrip(")")))]
            elif "](" in address or address[-1] == "]":
                address = address[: address.index("]")]
            else:
                break
        return self._word(start, start + len(address)) if len(address) > 8 else start + max(1, len(address))

    def _mathematics(self, start: int, mark: str) -> int | None:
        """Read a formula between dollar signs."""
        if len(mark) == 2:
            closing = self.finder.find("$$", start + 2)
            return self._word(start, closing + 2) if closing > start + 2 else None
        formula = _MATH.match(self.text, start) if len(mark) == 1 else None
        return self._word(start, formula.end()) if formula else None

    def _caret(self, start: int) -> int | None:
        """Read a superscript, or begin a footnote in the text: `^[...]`."""
        if self.text[start + 1 : start + 2] == "[":
            self.brackets.append(_Bracket(start, start + 2, len(self.runs)))
            return start + 2
        if superscript := _SUPERSCRIPT.match(self.text, start):
            self._add(start, start + 1, Code("^", "open", "^"))
            return self._add(superscript.end() - 1, superscript.end(), Code("^", "close", "^"))
        return None

    def _brace(self, start: int) -> int | None:
        """Read a shortcode or other template code, a list of attributes, or an expression of MDX."""
        text = self.text
        for opening, closing in (("{{<", ">}}"), ("{{%", "%}}"), ("{{", "}}"), ("{%", "%}")):
            position = self.finder.find(closing, start + len(opening)) if text.startswith(opening, start) else -1
            if position >= 0:
                end = position + len(closing)
                return self._word(start, end) if opening == "{{" else self._add(start, end, _shortcode(text[start:end]))
        if attributes := _ATTRIBUTES.match(text, start):
            return self._add(start, attributes.end(), Code(attributes[0], "alone", "attributes"))
        end = self._end_of_brace(start)
        return self._word(start, end) if end else None

    def _end_of_brace(self, start: int) -> int | None:
        """The end of the brace that closes one, with all braces inside; None if it is not closed."""
        if self._braces is None:
            self._braces = {}
            opened: list[int] = []
            for brace in re.finditer("[{}]", self.text):
                if brace[0] == "{":
                    opened.append(brace.start())
                elif opened:
                    self._braces[opened.pop()] = brace.end()
        return self._braces.get(start)

    def _tag(self, start: int) -> int | None:
        """Read an address in angle brackets, a tag, a comment or the like."""
        text = self.text
        if link := _AUTOLINK.match(text, start):
            return self._word(start, link.end())
        for opening, closing in (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">")):
            if text.startswith(opening, start):
                position = self.finder.find(closing, start + len(opening))
                if position < 0 or (opening == "<!" and not text[start + 2 : start + 3].isalpha()):
                    return None
                end = position + len(closing)
                return self._add(start, end, Code(text[start:end]))
        tag = _TAG.match(text, start)
        end = tag.end()
        if not tag["name"]:  # of a fragment of JSX
            return self._add(start, end + 1, Code(text[start : end + 1])) if text[end : end + 1] == ">" else None
        while attribute := _TAG_ATTRIBUTE.match(text, end):
            end = attribute.end()
            if attribute["value"] or attribute["spread"]:
                end = self._end_of_brace(end - 1)
                if end is None:
                    return None
        last = _TAG_END.match(text, end)
        return self._add(start, last.end(), inline_tag(text[start : last.end()])) if last else None

    # ---- links ----

    def _bracket(self, start: int, end: int) -> int | None:
        """Read a link of a wiki, the mark of a footnote or a citation, or begin the text of a link."""
        text = self.text
        if (wiki := _WIKI.match(text, start)) and normalized(wiki["page"]) not in self.labels:
            if not wiki["bar"]:
                return self._word(start, wiki.end())
            middle = wiki.start("text")
            self._add(start, middle, Code(text[start:middle], "open", "link"))
            return self._add(wiki.end() - 2, wiki.end(), Code("]]", "close", "link"))
        if text[start] == "[":
            if note := _FOOTNOTE.match(text, start):
                return self._add(start, note.end(), Code(note[0]))
            citation = _CITATION.match(text, start) if "@" in text[start : start + 42] else None
            if citation and text[citation.end() : citation.end() + 1] not in ("(", "["):
                return self._word(start, citation.end())
        if self.brackets:
            self.brackets[-1].is_plain = False
        self.brackets.append(_Bracket(start, end, len(self.runs)))
        return end

    def _end_of_link(self, start: int) -> int | None:
        """Read a bracket that may end the text of a link."""
        if not self.brackets:
            return None
        bracket = self.brackets.pop()
        text = self.text
        is_link = text[bracket.start] == "["
        if is_link and len(self.brackets) < self.inactive:
            self.inactive = len(self.brackets)
            return None
        tail = self._tail(bracket, start)
        if not tail:
            if self.brackets:
                self.brackets[-1].is_plain = False
            return None
        self._emphasis(bracket.runs)
        self._add(bracket.start, bracket.end, Code(text[bracket.start : bracket.end], "open", "link"))
        self._add(start, tail.end, Code(tail.markup, "close", "link"), tail.title)
        if is_link:
            self.inactive = len(self.brackets)
        return tail.end

    def _tail(self, bracket: _Bracket, start: int) -> _Tail | None:
        """The end of a link from the bracket behind its text on; None if there is no link."""
        text = self.text
        if text[bracket.start] == "^":
            return _Tail(start + 1, "]")
        if match := _TAIL.match(text, start + 1):
            title = next((match.span(name) for name in ("double", "single", "round") if match[name]), None)
            return _Tail(match.end(), text[start : match.end()], title)
        label = _LABEL.match(text, start + 1)
        if label and label[1].strip():
            if normalized(label[1]) in self.labels:
                return _Tail(label.end(), text[start : label.end()])
        elif bracket.is_plain and start - bracket.end <= LONGEST_LABEL:
            link_text = text[bracket.end : start]
            if normalized(link_text) in self.labels:
                # A text that is the label itself, `[text][]` or `[text]`, needs the label once it is translated.
                return _Tail(label.end() if label else start + 1, f"][{' '.join(link_text.split())}]")
        if attributes := _ATTRIBUTES.match(text, start + 1):
            return _Tail(attributes.end(), text[start : attributes.end()])
        return None

    # ---- emphasis ----

    def _delimiters(self, mark: str, start: int, end: int) -> int:
        """Add a run of delimiters, which is paired later."""
        if (mark[0] == "=" and len(mark) != 2) or (mark[0] == "~" and len(mark) > 2):
            return end
        before, after = self.text[start - 1 : start] or " ", self.text[end : end + 1] or " "
        left = not after.isspace() and (not is_mark(after) or before.isspace() or is_mark(before))
        right = not before.isspace() and (not is_mark(before) or after.isspace() or is_mark(after))
        if mark[0] == "_":
            opens, closes = left and (not right or is_mark(before)), right and (not left or is_mark(after))
        else:
            opens, closes = left, right
        if opens or closes:
            self.runs.append(_Run(mark[0], start, end, opens, closes))
        return end

    def _emphasis(self, first: int) -> None:
        """Pair the runs of delimiters from one on, and forget them.

        As in CommonMark, `bottoms` has for each kind of run the number of opened runs that it cannot be paired with.
        """
        opened: list[_Run] = []
        bottoms: dict[tuple[str, bool, int], int] = defaultdict(int)
        for run in self.runs[first:]:
            key = (run.mark, run.opens, run.length % 3)
            while run.closes and run.start < run.end:
                index = len(opened) - 1
                while index >= bottoms[key] and not _may_pair(opened[index], run):
                    index -= 1
                if index < bottoms[key]:
                    bottoms[key] = len(opened)
                    break
                opening = opened[index]
                del opened[index + 1 :]
                self._pair(opening, run)
                if opening.start == opening.end:
                    opened.pop()
                for other_key, bottom in bottoms.items():
                    bottoms[other_key] = min(bottom, len(opened))
            if run.opens and run.start < run.end:
                opened.append(run)
        del self.runs[first:]

    def _pair(self, opening: _Run, closing: _Run) -> None:
        """Add the emphasis between two runs, and take its delimiters from them."""
        width = 2 if min(opening.end - opening.start, closing.end - closing.start) > 1 else 1
        opening.end -= width
        mark = opening.mark * width
        self._add(opening.end, opening.end + width, Code(mark, "open", mark))
        self._add(closing.start, closing.start + width, Code(mark, "close", mark))
        closing.start += width


def _may_pair(opening: _Run, closing: _Run) -> bool:
    """Whether one run may open emphasis that the other closes."""
    if opening.mark != closing.mark:
        return False
    if opening.mark in "~=":
        return opening.length == closing.length
    either = (opening.closes or closing.opens) and (opening.length + closing.length) % 3 == 0
    return not (either and (opening.length % 3 or closing.length % 3))


def is_mark(character: str) -> bool:
    """Whether a character is punctuation or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def _shortcode(markup: str) -> Code:
    """The code of `{{< name >}}`, `{{% name %}}` or `{% name %}`, each of which may have an end."""
    shortcode = _SHORTCODE.match(markup)
    name = f"{shortcode['mark'][:3].rstrip('-')} {shortcode['word'] or ''}"
    if shortcode["end"] or (shortcode["name"] and shortcode["mark"].startswith("{%")):
        return Code(markup, "close", name)
    if shortcode["name"]:
        name = f"{shortcode['mark'][:3]} end{shortcode['word'] or ''}"
    return Code(markup, "alone" if re.search(r"/\s*[>%]\}\}\Z", markup) else "open", name)


def _with_attributes(parts: Iterable[Piece]) -> list[Piece]:
    """The pieces with lists of attributes, `{.name}`, as parts of the codes that they directly follow."""
    merged: list[Piece] = []
    for piece in parts:
        if isinstance(piece.content, Code) and piece.content.name == "attributes" and merged:
            last = merged[-1]
            if isinstance(last.content, Code) and last.content.kind in ("close", "word"):
                code = replace(last.content, markup=last.content.markup + piece.content.markup)
                merged[-1] = replace(last, end=piece.end, content=code)
                continue
        merged.append(piece)
    return merged
