"""The website of docs/: what becomes of pages, links and formulas, and what its check finds. `make site` builds it."""

import re
import tomllib
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

from tools import make_site
from tools.pages import DOCS, ROOT


@pytest.fixture(scope="module")
def site_pages() -> dict[str, str]:
    """The Markdown pages of the site by path, with formulas as `F`: what makes them belongs to another extra."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_site, "_formula", lambda match: "F")
        return {path.as_posix(): text.decode() for path, text in make_site.pages().items() if path.suffix == ".md"}


def test_links_of_the_site_lead_to_its_own_pages(site_pages: dict[str, str]):
    seen = 0
    for path, text in site_pages.items():
        if path.endswith(".py.md"):
            continue
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+\.md)", "".join(make_site.CODE.split(text)[::2])):
            parts: list[str] = []
            for part in (PurePosixPath(path).parent / target).parts:
                parts = parts[:-1] if part == ".." else [*parts, part]
            assert "/".join(parts) in site_pages, f"{path} links to {target}"
            seen += 1
    assert seen > 100


def test_links_out_of_docs_become_pages(site_pages: dict[str, str]):
    line = re.search(r"attention\.py#L(\d+)", (DOCS / "paper-to-code.md").read_text(encoding="utf-8"))[1]
    link = f"](project/dragoman/model/attention.py.md#__codelineno-0-{line})"
    assert link in site_pages["paper-to-code.md"]
    source = site_pages["project/dragoman/model/attention.py.md"]
    assert '`````python linenums="1"\n"""Attention' in source
    assert "](project/CHANGELOG.md)" in site_pages["README.md"]
    assert "](../architecture.md)" in site_pages["project/CONTRIBUTING.md"]


def test_formulas_are_made_and_code_is_left_alone(site_pages: dict[str, str]):
    assert "$$" not in site_pages["walk/3-attention.md"]
    assert "`${x}`" in site_pages["tokenizers.md"]
    assert "```python title=" in site_pages["walk/3-attention.md"]


def test_every_page_is_in_the_navigation():
    shown = set(re.findall(r"[\w/.-]+\.md", str(make_site.navigation())))
    assert {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} <= shown
    assert list(make_site.navigation()[1]) == ["Start"]


def test_a_link_to_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(make_site, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text("[x](missing.py#L3)")
    with pytest.raises(LookupError, match=r"page\.md links to missing\.py"):
        make_site._page(tmp_path / "page.md")


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="other.html#there">x</a><a href="https://example.org">x</a><img src="a.png">', None),
        ('<a href="other.html#gone">x</a>', "index.html links to other.html#gone, which has no such anchor"),
        ('<a href="gone.html">x</a>', "index.html links to gone.html, which is not there"),
        ('<img src="gone.png">', "index.html links to gone.png, which is not there"),
        ('<script src="https://example.org/a.js"></script>', "index.html loads https://example.org/a.js"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "index.html loads //example.org/a.css"),
    ],
)
def test_the_check_finds_links_that_lead_nowhere_and_what_is_loaded_from_elsewhere(
    tmp_path: Path, page: str, problem: str | None
):
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "other.html").write_text('<h2 id="there">x</h2>')
    (tmp_path / "a.png").touch()
    assert make_site.problems(tmp_path) == [problem] * (problem is not None)


def test_the_check_finds_fonts_of_others(tmp_path: Path):
    (tmp_path / "a.css").write_text("@font-face { src: url(https://example.org/a.woff2) }")
    assert make_site.problems(tmp_path) == ["a.css loads https://example.org/a.woff2"]


def test_what_builds_the_site_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("\n")
    for requirement in map(Requirement, project["optional-dependencies"]["docs"]):
        assert any(pin.startswith(f"{requirement.name}==") for pin in pinned), requirement.name
