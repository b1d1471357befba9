"""Pages of docs/ that hold code: cells with what they print, excerpts of our files, links to our functions.

A page is Markdown and its own source. What follows from the code is written back into it:

- after a block of ```python stands what it prints, a block of ```text, and what it shows, a link to `pictures/`;
- a block of ```python FILE NAME holds the definition of NAME in FILE;
- a link [`NAME`](FILE.py) leads to the line on which FILE defines NAME.

What a page folds in <details>, such as the answers of exercises, is folded in the notebook as well, under the same
summary.

The page as a notebook has the same cells, with the same output.
"""

import ast
import base64
import json
import os
import re
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from textwrap import dedent

import nbformat
from nbformat import NotebookNode, v4

from dragoman.report.inspection_page import page_of
from tools.draw_figures import SOURCE, figures
from tools.outputs import Output

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
CHAPTERS = DOCS / "walk"
INSPECTION = CHAPTERS / "inspection.html"

CELL = re.compile(
    r"^```python\n(?P<code>.*?)^```\n"
    r"(\n```text\n(?P<printed>.*?)^```\n)?"
    r"(\n!\[(?P<alt>[^]]*)\]\((?P<picture>pictures/[^)]+)\)\n)?",
    re.MULTILINE | re.DOTALL,
)
EXCERPT = re.compile(r"^```python (?P<file>\S+) (?P<name>[\w.]+)\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[`(?P<name>[\w.]+)`\]\((?P<file>[\w./-]+\.py)(#L\d+)?\)")
FOLD = re.compile(r"(<details[^>]*>\n<summary>[^<]+</summary>|</details>)")
ON_COLAB = """\
# On Google Colab, first upload the two files of dist/ that `make colab` builds. Elsewhere this does nothing.
import sys
from zipfile import ZipFile

if "google.colab" in sys.modules:
    %pip install --quiet dragoman-*.whl
    ZipFile("walk.zip").extractall()"""
CHAPTER_LINK = re.compile(r"\]\((\d+-[\w-]+)\.md")


def runnable_pages() -> list[Path]:
    """The pages whose cells are run."""
    return [*chapters(), DOCS / "errata.md"]


def chapters() -> list[Path]:
    """The pages of the walk, in their order; each is a notebook too."""
    return sorted(CHAPTERS.glob("[0-9]*-*.md"), key=lambda page: int(page.name.partition("-")[0]))


def pages_with_links() -> list[Path]:
    """The pages with excerpts, or links to the lines of functions."""
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    return [page for page, text in texts.items() if LINK.search(text) or EXCERPT.search(text)]


def up_to_date() -> dict[Path, str]:
    """The text that each file should have, as far as it follows from the code and the pages without running them."""
    with_code = {*pages_with_links(), *chapters()}
    pages = {path: refreshed(path.read_text(encoding="utf-8"), path.parent) for path in sorted(with_code)}
    notebooks = {path.with_suffix(".ipynb"): to_json(notebook(pages[path], path.parent)) for path in chapters()}
    source = CHAPTERS / SOURCE
    drawn = figures(lambda name: definition(source, name)[0])
    return pages | notebooks | {CHAPTERS / path: text for path, text in drawn.items()} | {INSPECTION: _inspection()}


def _inspection() -> str:
    """The page of an inspection that evidence.py wrote, with its data, as the package would write it now."""
    return page_of(json.loads(re.search(r'id="data">(.*?)</script>', INSPECTION.read_text(encoding="utf-8"))[1]))


# --- excerpts and links ----------------------------------------------------------------------------


def refreshed(page: str, folder: Path) -> str:
    """The page, which lies in `folder`, with its excerpts and links as our files are now."""

    def excerpt(match: re.Match) -> str:
        file = ROOT / match["file"]
        first, last = definition(file, match["name"])
        lines = dedent("\n".join(file.read_text(encoding="utf-8").split("\n")[first - 1 : last]))
        return f"```python {match['file']} {match['name']}\n{lines}\n```"

    def link(match: re.Match) -> str:
        line = definition(folder / match["file"], match["name"])[0]
        return f"[`{match['name']}`]({match['file']}#L{line})"

    return LINK.sub(link, EXCERPT.sub(excerpt, page))


def definition(file: Path, name: str) -> tuple[int, int]:
    """First and last line of what a file defines as `name`, such as `f`, `Class.method` or `CONSTANT`.

    Raises `LookupError` if it does not.
    """
    node: ast.AST = ast.parse(file.read_text(encoding="utf-8"))
    for part in name.split("."):
        children = [child for child in node.body if part in defined_names(child)]
        if not children:
            raise LookupError(f"{os.path.relpath(file, ROOT)} defines no `{name}`; a page of docs/ shows it.")
        node = children[0]
    return node.lineno, node.end_lineno


def defined_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


# --- cells -----------------------------------------------------------------------------------------


def shown_outputs(page: str, folder: Path) -> list[Output]:
    """The outputs of cells as the page shows them. A picture whose file is missing is not shown."""
    outputs = []
    for cell in CELL.finditer(page):
        picture = folder / (cell["picture"] or "none")
        outputs.append(Output(cell["printed"] or "", picture.read_bytes() if picture.is_file() else None))
    return outputs


def with_outputs(
    page: str, outputs: Sequence[Output], name_picture: Callable[[int], str]
) -> tuple[str, dict[str, bytes]]:
    """The page with these outputs of its cells, and its pictures by file; `name_picture` names the new ones.

    A picture keeps its name and the text that describes it.
    """
    remaining, pictures = iter(outputs), {}
    known = {match["picture"] for match in CELL.finditer(page)}
    free = (name for name in map(name_picture, count(1)) if name not in known)

    def cell(match: re.Match) -> str:
        output = next(remaining)
        text = f"```python\n{match['code']}```\n"
        if output.printed:
            text += f"\n```text\n{output.printed}```\n"
        if output.picture:
            name = match["picture"] or next(free)
            pictures[name] = output.picture
            text += f"\n![{match['alt'] or ''}]({name})\n"
        return text

    return CELL.sub(cell, page), pictures


def notebook(page: str, folder: Path, *, with_output: bool = True) -> NotebookNode:
    """The page as a Jupyter notebook; one `with_output` is for readers, and sets itself up on Colab."""
    cells, end = [], 0
    for match, output in zip(CELL.finditer(page), shown_outputs(page, folder), strict=True):
        cells += _markdown(page[end : match.start()], summary=_fold(page, end))
        cells.append(v4.new_code_cell(match["code"].rstrip("\n")))
        if _fold(page, match.start()):
            cells[-1].metadata |= {"jupyter": {"source_hidden": True, "outputs_hidden": True}, "cellView": "form"}
        if with_output:
            cells[-1].outputs = _outputs(output)
        end = match.end()
    cells += _markdown(page[end:], summary=_fold(page, end))
    if with_output:
        cells.insert(1, v4.new_code_cell(ON_COLAB))  # after the title
    for number, cell in enumerate(cells, start=1):
        cell.id = f"cell-{number}"  # not random, so that the same page gives the same file
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    built = v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    nbformat.validate(built)
    return built


def to_json(notebook: NotebookNode) -> str:
    """A notebook as the text of its file."""
    return nbformat.writes(notebook) + "\n"


def _fold(page: str, position: int) -> str:
    """The summary of the <details> around a position of a page; empty outside of any."""
    folds = FOLD.findall(page, 0, position)
    return _summary(folds[-1]) if folds else ""


def _summary(tags: str) -> str:
    """The summary in the tags that begin a fold; empty for the tag that ends one."""
    return tags.partition("<summary>")[2].removesuffix("</summary>")


def _markdown(text: str, *, summary: str) -> list[NotebookNode]:
    """Cells of the text, which begins inside a fold with this summary, or in none.

    What the page folds has a fold in each cell, since tags cannot reach into another one.
    """
    text = EXCERPT.sub(r"```python\n\g<lines>```", text)
    text = CHAPTER_LINK.sub(r"](\1.ipynb", text)
    cells = []
    for part in FOLD.split(text):
        if FOLD.fullmatch(part):
            summary = _summary(part)
        elif part := part.strip():
            part = f"<details><summary>{summary}</summary>\n\n{part}\n\n</details>" if summary else part
            cells.append(v4.new_markdown_cell(part))
    return cells


def _outputs(output: Output) -> list[NotebookNode]:
    outputs = [v4.new_output("stream", name="stdout", text=output.printed)] if output.printed else []
    if output.picture:
        data = {"image/png": base64.b64encode(output.picture).decode()}
        outputs.append(v4.new_output("display_data", data=data))
    return outputs
