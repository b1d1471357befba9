"""The model card: what it tells, and that its examples work."""

import ast
import re
import subprocess
from dataclasses import replace

import pytest

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.report import model_card
from tests.report.runs import EVALUATION, full_run, summary


def blocks(card: str) -> dict[str, str]:
    return dict(re.findall(r"```(\w+)\n(.*?)```", card, re.DOTALL))


def test_the_card_tells_scores_with_signatures_split_size_and_cost():
    card = model_card(full_run())
    for text in ("31.2", "`nrefs:1|tok:13a`", "beam 7", "held out by source sentence", "5,003"):
        assert text in card
    for text in ("1,234,567", "31 steps in 3 min 37 s", "3 CPU threads", "licence"):
        assert text in card
    by_source = {"trained_on": {"sentences": 41, "bleu": 47.25}, "new": {"sentences": 62, "bleu": 23.5}}
    leaky = replace(
        full_run(),
        config=load_config({}, parse_settings(["data.split=line"])),
        evaluation=EVALUATION | {"by_source": by_source},
    )
    for text in ("103 pairs held out line by line", "BLEU 47.2 on 41 whose source", "BLEU 23.5 on 62 with"):
        assert text in model_card(leaky)
    config = load_config({}, parse_settings(["data.test=[news.tsv]"]))
    assert "held out" not in model_card(replace(full_run(), config=config))


def test_the_card_of_an_unscored_model_says_so():
    card = model_card(summary(source_language=None, target_language=None))
    assert "not been scored" in card
    assert "from the source language to the target language" in card


@pytest.mark.parametrize("sentence", ['Don\'t "go" $HOME \\ there!', "Il a dit « oui »."])
def test_the_examples_of_the_card_can_be_typed(sentence):
    sample = {"source": sentence, "reference": "", "translation": ""}
    code = blocks(model_card(summary(samples=[sample])))
    called = [n for n in ast.walk(ast.parse(code["python"])) if isinstance(n, ast.Call)]
    given = [ast.literal_eval(call.args[0]) for call in called if call.keywords]
    assert given == [[sentence]]
    printed = code["sh"].replace("dragoman translate path/to/this/folder", "printf %s")
    assert subprocess.check_output(["sh", "-c", printed], text=True) == sentence


@pytest.mark.parametrize("sentence", ["```", "a\nb", ""])
def test_a_sentence_that_would_break_the_card_is_not_its_example(sentence):
    sample = {"source": sentence, "reference": "", "translation": ""}
    assert "Hello." in blocks(model_card(summary(samples=[sample])))["python"]
