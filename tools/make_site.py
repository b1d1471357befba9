"""Build docs/ as a website in build/site/, and check every link of it.

    python -m tools.make_site

The pages are copied to build/pages/ first. On the way links to files outside docs/ become links to pages of the site,
with a line number for each line of source, and formulas become MathML, which browsers show without a script. Nothing in
the site is loaded from elsewhere. Needs the extra `docs`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from tools.pages import DOCS, EXCERPT, ROOT

PAGES, SITE = ROOT / "build/pages", ROOT / "build/site"
SETTINGS, STYLE = DOCS / "site.yml", DOCS / "site.css"
INDEX = DOCS / "README.md"

COPIED = {".gif", ".html", ".ipynb", ".png", ".svg"}
LANGUAGES = {".c": "c", ".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
SOURCE_LINK = re.compile(rb"(?<=href=\")(?P<file>[\w./-]+\.py)#L(?P<line>\d+)")  # in a figure
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+)\$", re.DOTALL)
REMOTE = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)")  # in a style sheet
LISTED = re.compile(r"^(?:- |\| )\[(?P<title>[^]]+)\]\((?P<target>[^)#]+\.md)\)", re.MULTILINE)


# --- from the repository to pages ------------------------------------------------------------------


def page_of(file: Path) -> Path:
    """The path, below the pages of the site, of what shows a file of the repository."""
    inside = file.relative_to(ROOT)
    path = Path(*inside.parts[1:]) if inside.parts[0] == "docs" else Path("project", inside)
    return path if file.suffix in COPIED | {".md"} else path.with_name(f"{path.name}.md")


def pages() -> dict[Path, bytes]:
    """Every file of the pages by its path: those of docs/, and whatever they link to, directly or not."""
    contents, waiting = {}, sorted(DOCS.rglob("*.md"))
    for file in waiting:
        if file.suffix in COPIED:
            contents[page_of(file)] = SOURCE_LINK.sub(rb"\g<file>.html#__codelineno-0-\g<line>", file.read_bytes())
            continue
        text, linked = _page(file) if file.suffix == ".md" else (_source(file), set())
        contents[page_of(file)] = text.encode()
        waiting += sorted(linked - {*waiting})
    return contents


def _page(file: Path) -> tuple[str, set[Path]]:
    """A Markdown page as the site has it, and the files of the repository that it links to."""
    linked: set[Path] = set()

    def link(match: re.Match) -> str:
        path, _, fragment = match["target"].partition("#")
        if urlsplit(path).scheme or not path:
            return match[0]
        target = (file.parent / path).resolve()
        if not target.is_file():
            raise LookupError(f"{file.relative_to(ROOT)} links to {path}, which is no file.")
        if target == ROOT / "README.md":  # its place on the site has the index
            target = INDEX
        linked.add(target)
        fragment = re.sub(r"^L(\d+)$", r"__codelineno-0-\1", fragment)
        relative = os.path.relpath(page_of(target), page_of(file).parent)
        return f"]({relative}{'#' * bool(fragment)}{fragment})"

    text = EXCERPT.sub(r'```python title="\g<file>"\n\g<lines>```', file.read_text(encoding="utf-8"))
    parts = CODE.split(text)  # every second one is code
    parts[::2] = (FORMULA.sub(_formula, LINK.sub(link, part)) for part in parts[::2])
    return "".join(parts), linked


def _formula(match: re.Match) -> str:
    from latex2mathml.converter import convert

    text = (match["block"] or match["inline"]).replace(r"\tag", r"\qquad \tag")
    if match["block"]:
        return convert(text, display="block")
    # A line that begins with <math> would be a block to Markdown.
    return f"<span>{convert(text)}</span>"


def _source(file: Path) -> str:
    """A file as a page with numbered lines; search leaves it out."""
    fence = f'`````{LANGUAGES.get(file.suffix, "text")} linenums="1"'
    head = "---\nhide: [toc]\nsearch:\n  exclude: true\n---\n"
    title = file.relative_to(ROOT).as_posix()
    return f"{head}\n# {title}\n\n{fence}\n{file.read_text(encoding='utf-8').rstrip()}\n`````\n"


def navigation() -> list[Any]:
    """The sections of the index with the pages that they list; the README of a folder lists those of the folder."""
    sections = re.split(r"^## (.+)$", INDEX.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    titles, texts = sections[::2], sections[1::2]
    listed = ({title: list(_listed(text, INDEX))} for title, text in zip(titles, texts, strict=True))
    return [{"Home": page_of(INDEX).as_posix()}, *listed]


def _listed(text: str, index: Path) -> Iterator[dict[str, Any]]:
    for match in LISTED.finditer(text):
        file = (index.parent / match["target"]).resolve()
        path = page_of(file).as_posix()
        if file.name == "README.md":
            yield {match["title"]: [path, *_listed(file.read_text(encoding="utf-8"), file)]}
        else:
            yield {match["title"]: path}


# --- the site --------------------------------------------------------------------------------------


def build() -> None:
    """Write the pages and let zensical make the site. Raises `CalledProcessError` if it warns of anything."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    for path, content in pages().items():
        (PAGES / path).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / path).write_bytes(content)
    shutil.copy(STYLE, PAGES)
    settings = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
    settings |= {"docs_dir": PAGES.name, "site_dir": SITE.name, "nav": navigation()}
    file = PAGES.with_name("site.yml")
    file.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(file)], check=True)


class Page(HTMLParser):
    """The anchors of an HTML page, the addresses that it links to, and those that a browser loads with it."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors, self.links, self.loaded = {""}, set(), set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.anchors |= {attributes.get("id"), attributes.get("name")} - {None}
        # `link` loads a style sheet, an icon, a font; but not the previous and the next page.
        loads = tag != "a" and attributes.get("rel") not in ("prev", "next", "canonical")
        for address in (attributes.get("href"), attributes.get("src")):
            if address:
                (self.loaded if loads else self.links).add(address)


def problems(site: Path) -> list[str]:
    """Links of a built site that lead nowhere, and whatever it would load from elsewhere."""

    @cache
    def page(file: Path) -> Page:
        return Page(file.read_text(encoding="utf-8"))

    faults = []
    for file in sorted(site.rglob("*.html")):
        shown = file.relative_to(site)
        for address in sorted(page(file).links | page(file).loaded):
            url = urlsplit(address)
            if url.scheme or url.netloc:
                if address in page(file).loaded and url.scheme != "data":
                    faults.append(f"{shown} loads {address}")
                continue
            base = site if url.path.startswith("/") else file.parent
            target = (base / unquote(url.path).lstrip("/")).resolve() if url.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                faults.append(f"{shown} links to {address}, which is not there")
            elif target.suffix == ".html" and unquote(url.fragment) not in page(target).anchors:
                faults.append(f"{shown} links to {address}, which has no such anchor")
    for file in sorted(site.rglob("*.css")):
        loaded = REMOTE.findall(file.read_text(encoding="utf-8"))
        faults += [f"{file.relative_to(site)} loads {address}" for address in loaded]
    return faults


def main() -> None:
    """Build and check; exits with 1 if anything is wrong."""
    try:
        build()
    except (LookupError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
    if faults := problems(SITE):
        sys.exit("\n".join(faults))
    print(f"The site is complete. To look at it: python3 -m http.server --directory {SITE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
