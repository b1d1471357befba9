"""What the project says about itself: who to cite, how to contribute, what the first page shows."""

import re
from pathlib import Path

import yaml

import dragoman

ROOT = Path(__file__).parents[2]


def test_the_citation_file_is_valid_and_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    # From the schema, version 1.2.0, at citation-file-format.github.io.
    assert citation.keys() >= {"authors", "cff-version", "message", "title"}
    assert citation.keys() <= {
        "abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi", "identifiers", "keywords",
        "license", "license-url", "message", "preferred-citation", "references", "repository", "repository-artifact",
        "repository-code", "title", "type", "url", "version",
    }  # fmt: skip
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] in ("software", "dataset")
    assert (citation["version"], citation["license"]) == (dragoman.__version__, "MIT")
    assert citation["authors"] == [{"name": "The Dragoman authors"}]
    for reference in citation["references"]:
        assert reference.keys() >= {"authors", "title", "type"}
        assert all(author.keys() <= {"family-names", "given-names", "name"} for author in reference["authors"])


def test_contributing_names_files_that_exist_and_at_most_four_for_each_addition():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:dragoman|tests|docs|tools|benchmarks)/[\w./]*|[A-Z]+\.md|CITATION\.cff)`", page):
        assert (ROOT / path).exists(), path
    additions = {title: text for title, text in re.findall(r"^## Add (.+?)\n(.+?)(?=^## )", page, re.M | re.S)}
    assert set(additions) == {
        "a reader", "a document format", "a metric", "a decoding rule", "a schedule", "a tokenizer", "a command",
    }  # fmt: skip
    for title, text in additions.items():
        steps = re.findall(r"^\d\. `([^`]+)`", text, re.MULTILINE)
        assert 3 <= len(steps) <= 4, title
        assert any(step.startswith("tests/") for step in steps), title


def test_the_entry_for_bibtex_says_what_the_citation_file_says():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    entry = re.search(r"@software\{dragoman,\n(.*?)\n\}", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    fields = dict(re.findall(r"^  (\w+) = \{+(.*?)\}+,?$", entry[1], re.MULTILINE))
    assert fields["title"] == citation["title"]
    assert fields["author"] == citation["authors"][0]["name"]
    assert fields["version"] == citation["version"]
    assert fields["note"] == citation["abstract"].strip().rstrip(".")


def test_the_pictures_of_the_first_page_are_small_and_load_nothing():
    pictures = sorted((ROOT / "docs/screenshots").iterdir())
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/start.md")]
    assert all(any(picture.name in page for page in pages) for picture in pictures)
    assert sum(picture.stat().st_size for picture in pictures) < 300_000
    assert (ROOT / "docs/screenshots/demo.svg").stat().st_size < 100_000
    drawing = (ROOT / "docs/screenshots/demo.svg").read_text(encoding="utf-8")
    assert not re.search(r"<script|href=\"(?!data:image/png;)|url\(|@font-face", drawing)
    assert len(re.findall("href", drawing)) == 1, "the page of dragoman inspect"
