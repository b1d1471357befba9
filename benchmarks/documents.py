"""What documents of strangers lose when they are translated by trivial engines instead of models.

    .venv/bin/python benchmarks/documents.py FOLDER [FOLDER ...] [--json] [--list]

Every document in the folders is translated three times. An engine that changes nothing should give back the same
bytes; for DOCX and ODT, the same bytes of each file in it. An engine that writes capitals should change no character
but the letters. An engine that reverses the words of each text should leave each character with its format: inside of
the same tags of HTML or marks of Markdown, in a run of the same properties, under the same style of ODT. For each
format there is one line: documents, refused ones, failures, documents that the first two engines damage, and documents
and characters whose format moved; only characters of paragraphs with more than one format count. `--list` names the
documents.
"""

import argparse
import io
import json
import re
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from lxml import etree
from markdown_it import MarkdownIt

from dragoman.decoding.alignment import word_spans
from dragoman.decoding.translation import Translation
from dragoman.documents.document import UNKNOWN
from dragoman.documents.registry import ENDINGS, OFFICE, translate_document
from dragoman.documents.translate import Engine
from dragoman.errors import DataError
from dragoman.text.tokenizers.placeholders import literal_spans

Format = tuple[str, ...]
"""The elements, marks or properties that give a character its format."""
Text = list[tuple[str, Format]]
"""The characters of a paragraph, each with its format."""


def same(text: str) -> Translation:
    """The text itself."""
    return _linked(text, text, backwards=False)


def capitals(text: str) -> Translation:
    """The text in capitals, but for placeholders, such as addresses and words that stand for codes."""
    parts, last = [], 0
    for start, end in [*literal_spans(text), (len(text), len(text))]:
        parts += [_upper(text[last:start]), text[start:end]]
        last = end
    return _linked(text, "".join(parts), backwards=False)


def _upper(text: str) -> str:
    return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)


def reversed_words(text: str) -> Translation:
    """The words of the text from the last to the first."""
    parts, last = [], 0
    for start, end in word_spans(text):
        parts += [text[last:start], text[start:end]]
        last = end
    return _linked(text, "".join([*parts, text[last:]][::-1]), backwards=True)


def _linked(source: str, target: str, *, backwards: bool) -> Translation:
    number = len(word_spans(source))
    return Translation(target, 0.0, 0.0, [], [(number - 1 - i if backwards else i, i) for i in range(number)])


def translated(content: bytes, name: str, change: Callable[[str], Translation]) -> bytes:
    """A document in which an engine changed each text."""
    return translate_document(content, name, UNKNOWN, Engine(lambda texts: map(change, texts), copies=True)).content


def files_of(content: bytes, ending: str) -> dict[str, bytes]:
    """The files in a document; the document itself if it is none of an office."""
    if ending not in OFFICE:
        return {"": content}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def frame(content: bytes, ending: str) -> object:
    """All that an engine which writes capitals has to leave alone, with the texts in small letters.

    Of documents of an office these are the texts, and the elements other than runs and spans, in their order.
    """
    if ending not in OFFICE:
        return content.decode("utf-8", "replace").casefold()
    return {
        name: _elements(data) if name.endswith(".xml") and data else data
        for name, data in files_of(content, ending).items()
    }


RUNS = {"r", "rPr", "t", "span", "proofErr", "noBreakHyphen", "softHyphen"}
"""Elements that hold texts, and marks of the spelling checker."""


def _elements(data: bytes) -> tuple[str, list[tuple[str, list[tuple[str, str]]]]]:
    """The texts of an XML file in small letters, and its elements with their attributes."""
    root, elements = parsed(data), []
    for element in root.iter():
        if _name(element) not in RUNS and next(element.iterancestors("{*}rPr"), None) is None:
            elements.append((str(element.tag), [(key, value.casefold()) for key, value in element.attrib.items()]))
    return re.sub(r"\s+", "", "".join(root.itertext()).casefold()), elements


def parsed(data: bytes) -> etree._Element:
    return etree.fromstring(data, etree.XMLParser(huge_tree=True))


def html_paragraphs(content: bytes) -> Iterator[Text]:
    """The texts of a web page between tags that are no format of words."""
    parser = _Page()
    parser.feed(content.decode("utf-8", "replace"))
    parser.close()
    yield from [*parser.paragraphs, parser.text]


class _Page(HTMLParser):
    INLINE = frozenset((
        "a", "abbr", "b", "bdi", "bdo", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q", "s",
        "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var",
    ))  # fmt: skip
    NO_FORMAT = frozenset(("br", "img", "wbr"))
    NO_TEXT = frozenset(("script", "style"))

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[Text] = []
        self.text: Text = []
        self.opened: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.INLINE:
            self.opened.append(self.get_starttag_text() or tag)
        elif tag == "br":
            self.text.append((" ", ()))
        elif tag not in self.NO_FORMAT:
            self._end_paragraph()
            self.silent += tag in self.NO_TEXT

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.INLINE and tag not in self.NO_FORMAT:
            self._end_paragraph()
            self.silent = 0
        for index in reversed(range(len(self.opened))):
            if re.match(rf"<{tag}\b", self.opened[index], re.IGNORECASE):
                del self.opened[index]
                break

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.text += [(character, tuple(self.opened)) for character in data]

    def _end_paragraph(self) -> None:
        self.paragraphs.append(self.text)
        self.text, self.opened = [], []


def markdown_paragraphs(content: bytes) -> Iterator[Text]:
    """The texts of Markdown by paragraph; links have their addresses as formats."""
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(content.decode("utf-8", "replace")):
        text: Text = []
        opened: list[str] = []
        for child in token.children or ():
            if child.nesting == 1:
                opened.append(f"{child.type} {child.attrs.get('href', '')}")
            elif child.nesting == -1:
                opened.pop()
            elif child.type == "code_inline":
                text += [(character, (*opened, "code")) for character in child.content]
            elif child.type in ("softbreak", "hardbreak"):
                text.append((" ", ()))
            elif child.type == "text":
                text += [(character, tuple(opened)) for character in child.content]
        yield text


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def docx_paragraphs(content: bytes) -> Iterator[Text]:
    """The texts of all paragraphs of a DOCX; the properties of a run, and what the run stands in, are its format."""
    for name, data in sorted(files_of(content, ".docx").items()):
        if not name.endswith(".xml") or not name.startswith("word/"):
            continue
        for paragraph in parsed(data).iter("{*}p"):
            text: Text = []
            for element in paragraph.iter("{*}t", "{*}tab", "{*}br", "{*}cr", "{*}noBreakHyphen", "{*}softHyphen"):
                within = []
                for ancestor in element.iterancestors():
                    if _name(ancestor) == "p":
                        break
                    within.append(ancestor)
                run = next((ancestor for ancestor in within if _name(ancestor) == "r"), None)
                if run is None or ancestor is not paragraph:
                    continue
                boxes = (ancestor for ancestor in within if _name(ancestor) in BOXES)
                format_ = _run_format(run) + tuple(str(sorted(box.attrib.items())) for box in boxes)
                characters = {"t": element.text or "", "noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
                text += [(character, format_) for character in characters.get(_name(element), " ")]
            yield text


BOXES = {"hyperlink", "ins", "moveTo", "fldSimple"}
"""Elements that hold runs."""
NO_FORMAT = {"lang", "noProof"}
"""Properties of a run that nobody sees."""


def _run_format(run: etree._Element) -> Format:
    properties = next((child for child in run if _name(child) == "rPr"), None)
    if properties is None:
        return ()
    seen = [child for child in properties if _name(child) not in NO_FORMAT]
    seen = [child for child in seen if _name(child) != "rFonts" or any("hint" not in key for key in child.attrib)]
    return tuple(etree.tostring(child, method="c14n").decode() for child in seen)


def odt_paragraphs(content: bytes) -> Iterator[Text]:
    """The texts of all paragraphs of an ODT; the styles and links that they stand in are their format."""
    for name, data in sorted(files_of(content, ".odt").items()):
        if name not in ("content.xml", "styles.xml"):
            continue
        root = parsed(data)
        styles = {_attribute(style, "name"): _style(style) for style in root.iter("{*}style")}
        for paragraph in root.iter("{*}p", "{*}h"):
            text: Text = []
            _add_odt_text(paragraph, (), styles, text)
            yield text


def _attribute(element: etree._Element, name: str) -> str:
    return next((value for key, value in element.attrib.items() if etree.QName(key).localname == name), "")


def _style(style: etree._Element) -> str:
    """The attributes of a style that change how text looks, without revisions and languages."""
    unseen = re.compile("rsid|language|country|script|rfc-language")
    shown = [f"{etree.QName(key).localname}={value}" for part in style for key, value in part.attrib.items()]
    shown = sorted(attribute for attribute in shown if not unseen.search(attribute))
    return " ".join([_attribute(style, "parent-style-name"), *shown])


def _add_odt_text(element: etree._Element, format_: Format, styles: dict[str, str], text: Text) -> None:
    text += [(character, format_) for character in element.text or ""]
    for child in element:
        name = _name(child)
        if name == "span":
            style = _attribute(child, "style-name")
            shown = styles.get(style, style).strip()
            _add_odt_text(child, (*format_, shown) if shown else format_, styles, text)
        elif name == "a":
            _add_odt_text(child, (*format_, _attribute(child, "href")), styles, text)
        elif name in ("s", "tab", "line-break"):
            text.append((" ", ()))
        text += [(character, format_) for character in child.tail or ""]


PARAGRAPHS: dict[str, Callable[[bytes], Iterable[Text]]] = {
    ".html": html_paragraphs, ".htm": html_paragraphs, ".xhtml": html_paragraphs,
    ".md": markdown_paragraphs, ".markdown": markdown_paragraphs,
    ".docx": docx_paragraphs, ".docm": docx_paragraphs, ".dotx": docx_paragraphs,
    ".odt": odt_paragraphs, ".ott": odt_paragraphs,
}  # fmt: skip
"""The paragraphs of a document, by the end of its name."""


def letters_by_format(paragraphs: Iterable[Text]) -> Counter[tuple[str, int, Format]]:
    """Letters and digits of paragraphs with more than one format: word, place in it, format."""
    letters: Counter[tuple[str, int, Format]] = Counter()
    for text in paragraphs:
        if len({format_ for character, format_ in text if character.isalnum()}) < 2:
            continue
        for word in re.finditer(r"[^\W_]+", "".join(character for character, _ in text)):
            for place, (_, format_) in enumerate(text[word.start() : word.end()]):
                letters[word[0], place, format_] += 1
    return letters


@dataclass
class Figures:
    """Results for the documents of one format."""

    documents: int = 0
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    not_the_same: list[str] = field(default_factory=list)
    """Documents that the engine that changes nothing has changed."""
    damaged: list[str] = field(default_factory=list)
    """Documents in which capitals changed more than letters."""
    moved: list[str] = field(default_factory=list)
    """Documents in which characters have another format once the words are reversed."""
    moved_characters: int = 0
    characters: int = 0
    slowest: float = 0.0
    """Seconds for one document and engine."""

    def add(self, path: Path) -> None:
        """Translates one document."""
        self.documents += 1
        content, ending, name = path.read_bytes(), path.suffix.lower(), str(path)
        try:
            start = time.perf_counter()
            unchanged = translated(content, path.name, same)
            self.slowest = max(self.slowest, time.perf_counter() - start)
            if files_of(unchanged, ending) != files_of(content, ending):
                self.not_the_same.append(name)
            if frame(translated(content, path.name, capitals), ending) != frame(content, ending):
                self.damaged.append(name)
            if ending in PARAGRAPHS:
                before = letters_by_format(PARAGRAPHS[ending](content))
                after = letters_by_format(PARAGRAPHS[ending](translated(content, path.name, reversed_words)))
                moved = (before - after).total()
                self.characters += before.total()
                self.moved_characters += moved
                self.moved += [f"{name} ({moved:,} of {before.total():,})"] if moved else []
        except DataError as error:
            self.refused.append(f"{name}: {error}")
        except Exception:
            self.failed.append(f"{name}: {traceback.format_exc(limit=-2)}")

    def line(self, ending: str) -> str:
        """The figures in one line."""
        counts = (self.refused, self.failed, self.not_the_same, self.damaged, self.moved)
        share = self.moved_characters / max(1, self.characters)
        numbers = "".join(f"{len(names):>9,}" for names in counts)
        return f"{ending:<10}{self.documents:>9,}{numbers}{share:>9.1%}{self.slowest:>9.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--list", action="store_true", help="name the documents")
    arguments = parser.parse_args()
    figures: dict[str, Figures] = {}
    for folder in arguments.folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix.lower() in ENDINGS:
                figures.setdefault(path.suffix.lower(), Figures()).add(path)
    if arguments.json:
        print(json.dumps({ending: vars(of_format) for ending, of_format in figures.items()}, indent=1))
        return 0
    print("format    documents  refused   failed not same  damaged    moved   letters  seconds")
    for ending, of_format in sorted(figures.items()):
        print(of_format.line(ending))
        for kind in ("refused", "failed", "not_the_same", "damaged", "moved") if arguments.list else ():
            for name in getattr(of_format, kind):
                print(f"  {kind}: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
