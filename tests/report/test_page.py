"""The page of a run: complete, self-contained, and safe with any text."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.report import RunSummary, WordAttention, model_card
from dragoman.report.page import SHOWN_VALIDATIONS, write_report
from tests.report.runs import EVALUATION, attention_of, full_run, steps, summary, validation

EVIL = "\"></td></svg><script>alert(1)</script><img src=x onerror=alert(2)>'&"
EVIL_WORD = "</g><script>\"'&"


class Page(HTMLParser):
    """The tags, the attributes and the text of a page."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = set(), [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def page(directory: Path, run: RunSummary) -> tuple[Page, str]:
    html = write_report(directory, run).read_text(encoding="utf-8")
    parsed = Page(html)
    assert parsed.open == []
    return parsed, html


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> tuple[Page, str]:
    """The page of a run that has everything."""
    return page(tmp_path_factory.mktemp("page"), full_run())


@pytest.mark.slow
def test_the_page_loads_nothing_and_runs_nothing(full):
    parsed, html = full
    assert not parsed.tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    links = [v for k, v in parsed.attributes if k in ("href", "src", "xlink:href", "srcset")]
    assert links  # of the pictures to themselves
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert not re.search(r"https?:|@import|url\((?!#)", html)
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]


@pytest.mark.slow
def test_ids_are_unique_so_that_pictures_do_not_take_parts_of_each_other(full):
    parsed, html = full
    ids = [value for name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:url\(|href=\")#(\w+)", html)) <= set(ids)


@pytest.mark.slow
def test_texts_are_escaped_wherever_they_come_from(full, tmp_path):
    evil = {"source": EVIL, "reference": EVIL, "translation": EVIL}
    honest, _ = full
    parsed, _ = page(
        tmp_path,
        replace(
            full_run(),
            source_language=EVIL,
            target_language=EVIL,
            machine=EVIL,
            config=load_config({}, parse_settings([f"data.source={EVIL}"])),
            metrics=[*steps(3), validation(3, samples=[evil])],
            samples=[evil],
            evaluation=EVALUATION | {"signatures": {"bleu": EVIL}},
            attention=WordAttention([EVIL_WORD] * 3, [EVIL_WORD] * 3, [attention_of([0, 2, 1])]),
        ),
    )
    assert parsed.tags <= honest.tags
    # Title and heading with two languages each, machine, signature, the samples twice.
    assert parsed.text.count(EVIL) == 2 * 2 + 1 + 1 + 3 + 3
    assert parsed.text.count(EVIL_WORD) == 3 + 3


@pytest.mark.first_is_quick
@pytest.mark.parametrize("validations", [0, 1, 2, 23])
def test_the_page_can_be_written_at_any_time(tmp_path, validations):
    metrics = [*steps(validations * 3), *map(validation, range(1, validations + 1))]
    parsed, _ = page(tmp_path, summary(metrics=metrics))
    assert "not been translated yet" in parsed.text
    assert ("No step has been recorded" in parsed.text) == (validations == 0)
    assert ("attempt 1" in parsed.text) == (validations > 0)
    assert (f"attempt {validations}" in parsed.text) == (validations > 0)
    assert parsed.text.count("attempt") <= SHOWN_VALIDATIONS


@pytest.mark.slow
def test_the_page_shows_scores_texts_and_configuration(full):
    parsed, _ = full
    shown = ("31.2", "52.5", "47.8", "5.12", "62.5 %", "nrefs:1|tok:13a", "1,234,567", "103 pairs")
    for text in (*shown, "le chien", "beam_size: 7", "layer 1 of 1", "3 min 37 s", "701 and 809"):
        assert text in parsed.text


@pytest.mark.slow
def test_what_the_run_warned_of_is_on_its_page(tmp_path):
    warning = {"event": "warning", "step": 3, "text": f"Step 3 was skipped {EVIL}"}
    parsed, _ = page(tmp_path, summary(metrics=[*steps(3), warning]))
    assert warning["text"] in parsed.text
    assert "Warnings" in parsed.text
    assert "Warnings" not in page(tmp_path, summary(metrics=steps(3)))[0].text


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "data", [["source=/home/secret/pairs.tsv", "valid=[/secret/a]"], ["corpora=[{source: /home/secret/pairs.tsv}]"]]
)
def test_folders_of_the_data_stay_private(tmp_path, data):
    settings = [*(f"data.{setting}" for setting in data), "tokenizer.pairs=[/home/secret/words.tsv]"]
    run = replace(full_run(), config=load_config({}, parse_settings(settings)))
    _, html = page(tmp_path, run)
    card = model_card(run)
    assert "pairs.tsv" in html
    assert "words.tsv" in html
    assert "pairs.tsv" in card
    assert "secret" not in html + card


def test_the_page_says_what_the_scores_tell_and_what_would_help(tmp_path):
    said = {
        "remarks": [f"3 translations are empty {EVIL}"],
        "outlook": ["8 minutes of training instead of 4 would help"],
    }
    parsed, _ = page(tmp_path, replace(full_run(), evaluation=EVALUATION | said))
    told = parsed.text.partition("What this tells")[2].partition("The run")[0]
    assert said["remarks"][0] in told
    assert said["outlook"][0] in told
    silent, _ = page(tmp_path, full_run())
    assert "What this tells" not in silent.text
