"""The elements of HTML: which ones end a sentence, and where an element ends whose end tag is left out.

https://html.spec.whatwg.org/multipage/syntax.html#optional-tags and the rules of the parser there.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Literal, Optional

VOID = {
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "image", "img", "input", "keygen",
    "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
"""Elements without content and end tag."""
BLOCKS = {
    "address", "applet", "area", "article", "aside", "audio", "blockquote", "body", "button", "canvas", "caption",
    "center", "col", "colgroup", "datalist", "dd", "details", "dialog", "dir", "div", "dl", "dt", "embed", "fieldset",
    "figcaption", "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head",
    "header", "hgroup", "hr", "html", "iframe", "legend", "li", "listing", "main", "map", "marquee", "menu", "nav",
    "noembed", "noframes", "noscript", "object", "ol", "optgroup", "option", "p", "plaintext", "pre", "search",
    "section", "select", "summary", "table", "tbody", "td", "template", "textarea", "tfoot", "th", "thead", "title",
    "tr", "ul", "video", "xmp",
}  # fmt: skip
"""Elements that end a sentence. All others, even unknown ones, may stand inside of one, as browsers show them."""
SPECIAL = BLOCKS - {"audio", "canvas", "datalist", "dialog", "legend", "map", "optgroup", "option", "video"} | {
    "base", "basefont", "bgsound", "br", "img", "input", "keygen", "link", "meta", "param", "script", "source",
    "style", "track", "wbr",
}  # fmt: skip
"""Elements that an end tag of another kind does not close."""
FORMATTING = {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
"""Elements that end at their end tag, even if elements inside of them are still open."""
RAW = {"iframe", "noembed", "noframes", "plaintext", "script", "style", "xmp"}
"""Elements whose content has neither tags nor text that people read."""
TEXT_ONLY = {"textarea", "title"}
"""Elements that have text but no tags."""
IN_HEAD = {
    "base", "basefont", "bgsound", "head", "html", "link", "meta", "noframes", "noscript", "script", "style",
    "template", "title",
}  # fmt: skip
"""Elements of the head. All others begin the body."""
LEAVING_SVG = {
    "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "h1", "h2", "h3",
    "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p", "pre", "ruby", "s",
    "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var",
}  # fmt: skip
"""Elements of HTML that end an SVG or a formula."""
FOREIGN = {"svg", "math"}
"""Elements whose content is not HTML."""
_HTML_IN_FOREIGN = {"annotation-xml", "desc", "foreignobject", "mi", "mn", "mo", "ms", "mtext", "title"}

_SCOPE = {"applet", "caption", "foreignobject", "html", "marquee", "object", "table", "td", "template", "th"}
_CLOSE_P = {
    "address", "article", "aside", "blockquote", "center", "dd", "details", "dialog", "dir", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr",
    "li", "listing", "main", "menu", "nav", "ol", "p", "plaintext", "pre", "search", "section", "summary", "table",
    "ul", "xmp",
}  # fmt: skip
_CELLS = {"td", "th", "caption", "colgroup"}
_ROWS = _CELLS | {"tr"}
_ITEMS_END = SPECIAL - {"address", "div", "p", "li", "dd", "dt"}
_CLOSE: dict[str, tuple[Collection[str], Collection[str]]] = {
    "li": ({"li"}, _ITEMS_END),
    **dict.fromkeys(("dd", "dt"), ({"dd", "dt"}, _ITEMS_END)),
    "option": ({"option"}, {"select", "datalist"}),
    **dict.fromkeys(("optgroup", "hr"), ({"option", "optgroup"}, {"select", "datalist"})),
    **dict.fromkeys(("td", "th"), (_CELLS, {"table", "template"})),
    "tr": (_ROWS, {"table", "template"}),
    **dict.fromkeys(
        ("tbody", "thead", "tfoot", "caption", "colgroup", "col"),
        (_ROWS | {"tbody", "thead", "tfoot"}, {"table", "template"}),
    ),
    **dict.fromkeys(("rb", "rt", "rtc", "rp"), ({"rb", "rt", "rp"}, {"ruby"})),
    **{name: ({name}, _SCOPE) for name in ("a", "button", "nobr")},
    "body": ({"head"}, ()),
    "frameset": ({"head"}, ()),
}
"""By the name of an opening tag: the elements that it ends, and those beyond which it ends nothing."""
_IN_TABLES = {"caption", "colgroup", "table", "tbody", "td", "tfoot", "th", "thead", "tr"}
_MORE_BARRIERS = {"p": {"button"}, "li": {"ol", "ul"}}
"""Besides those of `_SCOPE`, elements in which an end tag ends none that is around them."""
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}


@dataclass(slots=True)
class Element:
    """An open element, and whether its content is translated."""

    name: str
    untranslated: Optional["Element"] = None
    """The element that forbids to translate the content: this one or one around it; None if it is translated."""
    reason: Literal["attribute", "name", "language"] = "name"
    """Why this element forbids to translate its content, if it does."""
    outer: Optional["Element"] = None
    """The element that forbids to translate the content of the element around this one."""
    specials: int = 0
    """Number of open elements of `SPECIAL` from the outermost up to this one."""
    has_ended: bool = False
    """Whether its end tag was seen while others inside of it go on."""

    def why_untranslated(self) -> Optional["Element"]:
        """The element that forbids to translate the text that follows; None if that is translated."""
        while self.untranslated and self.untranslated.has_ended:
            self.untranslated = self.untranslated.outer
        return self.untranslated


class OpenElements:
    """The elements that are open at a position of the page, from the outermost to the innermost."""

    def __init__(self) -> None:
        self._stack = [Element("")]
        self._indices: dict[str, list[int]] = {}
        """Indices in the stack of the elements of each name that is open."""

    @property
    def current(self) -> Element:
        """The innermost element."""
        return self._stack[-1]

    @property
    def depth(self) -> int:
        """Number of open elements."""
        return len(self._stack)

    def push(self, element: Element) -> None:
        """Open an element inside of the current one."""
        element.specials = self.current.specials + (element.name in SPECIAL)
        self._indices.setdefault(element.name, []).append(len(self._stack))
        self._stack.append(element)

    def has(self, *names: str) -> bool:
        """Whether an element of one of these names is open."""
        return not self._indices.keys().isdisjoint(names)

    def is_foreign(self) -> bool:
        """Whether the next tags are those of an SVG or a formula."""
        index = self._last(FOREIGN)
        return index >= 0 and index > self._last(_HTML_IN_FOREIGN)

    def open(self, name: str) -> None:
        """End the elements that an opening tag of this name ends."""
        if self.is_foreign():
            if name not in LEAVING_SVG:
                return
            self._end_from(self._last(FOREIGN))
        if self.current.name == "head" and name not in IN_HEAD:
            self._end_current()
        if name in _CLOSE:
            self._end(*_CLOSE[name])
        if name in _CLOSE_P and "p" in self._indices:
            self._end({"p"}, _barriers("p"))
        if name in HEADINGS and self.current.name in HEADINGS:
            self._end_current()

    def read_text(self) -> None:
        """End the head, in which no text can be."""
        if self.current.name == "head":
            self._end_current()

    def close(self, name: str) -> Element | None:
        """End an element, with all elements inside, at an end tag, and return it. None if the tag ends nothing."""
        index = self._last(HEADINGS if name in HEADINGS else (name,))
        if index < 0:
            return None
        element = self._stack[index]
        if index == len(self._stack) - 1:
            self._end_current()
            return element
        has_special_inside = self.current.specials > element.specials
        if name in FORMATTING and has_special_inside and not self.is_foreign():
            element.has_ended = True
            self._forget(name)
            return element
        if name in BLOCKS:
            is_outside = self._last(_barriers(name)) > index
        else:
            is_outside = has_special_inside and name not in FOREIGN
        if is_outside:
            return None
        self._end_from(index)
        return element

    def _last(self, names: Collection[str]) -> int:
        """The index of the innermost element of these names; -1 if none is open."""
        if self._indices.keys().isdisjoint(names):
            return -1
        return max(self._indices[name][-1] for name in names if name in self._indices)

    def _end(self, names: Collection[str], barriers: Collection[str]) -> None:
        """End all elements of these names inside of the innermost barrier."""
        while (index := self._last(names)) > self._last(barriers):
            self._end_from(index)

    def _end_current(self) -> None:
        element = self._stack.pop()
        if not element.has_ended:
            self._forget(element.name)

    def _end_from(self, index: int) -> None:
        while len(self._stack) > index:
            self._end_current()

    def _forget(self, name: str) -> None:
        """Remove the innermost element of this name from `_indices`."""
        indices = self._indices[name]
        indices.pop()
        if not indices:
            del self._indices[name]


@cache
def _barriers(name: str) -> frozenset[str]:
    """Elements in which an end tag of a block ends none that is around them."""
    if name in ("body", "html"):
        return frozenset()
    barriers = {"table", "template"} if name in _IN_TABLES else _SCOPE | _MORE_BARRIERS.get(name, set())
    return frozenset(barriers - (HEADINGS if name in HEADINGS else {name}))
