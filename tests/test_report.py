"""Attention by words, pictures, the page of a run and its model card."""

import ast
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch

from dragoman.config import resolve
from dragoman.data.tokenizer import EOS_ID, Tokenizer
from dragoman.model import Transformer, TransformerConfig
from dragoman.report import (
    RunSummary,
    WordAttention,
    model_card,
    most_reordered,
    plot_attention,
    plot_curves,
    to_png,
    to_svg,
    word_attention,
    write_report,
)
from dragoman.report.page import SHOWN_VALIDATIONS
from dragoman.report.pictures import MAX_POINTS
from dragoman.report.summary import duration

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


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    # Longer words than these are in several pieces.
    return Tokenizer.train(["the black cat sleeps here", "le chat noir dort ici"], vocab_size=331)


@pytest.fixture(scope="module")
def model(tokenizer) -> Transformer:
    torch.manual_seed(3)
    size = tokenizer.vocab_size
    sizes = {"source_vocab_size": size, "target_vocab_size": size, "d_model": 26, "d_ff": 17}
    layers = {"num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 3}
    return Transformer(TransformerConfig(**sizes, **layers, dropout=0.5))


def steps(count: int, **values) -> list[dict]:
    return [
        {"event": "step", "step": i, "epoch": 0, "loss": 7 / i, "learning_rate": 1e-3 * i}
        | {"gradient_norm": 1.0, "tokens": 700 * i, "seconds": 7.0 * i}
        | values
        for i in range(1, count + 1)
    ]


def validation(step: int, **values) -> dict:
    sample = {"source": "the cat", "reference": "le chat", "translation": f"attempt {step}"}
    scores = {"valid_loss": 3.0, "bleu": 11.0 + step / 100, "chrf": 23.0}
    return {"event": "validation", "step": step, "better": True, "samples": [sample]} | (
        scores | values
    )


def summary(**values) -> RunSummary:
    config = resolve({}, ["data.source=/home/secret/pairs.tsv", "decoding.beam_size=7"])
    fixed = {
        "source_language": "en",
        "target_language": "fr",
        "config": config,
        "model": TransformerConfig.preset("tiny", source_vocab_size=701, target_vocab_size=809),
        "num_weights": 1_234_567,
        "machine": "3 CPU threads",
        "pairs": {"train": 5003, "valid": 101, "test": 103},
    }
    return RunSummary(**(fixed | values))


EVALUATION = {
    "bleu": 31.25,
    "chrf": 52.5,
    "ter": 47.75,
    "signatures": {"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nw:2", "ter": "nrefs:1|case:lc"},
    "perplexity": 5.125,
    "token_accuracy": 0.625,
    "num_tokens": 1009,
    "sentences": 103,
    "seconds": 5.0,
    "sentences_per_second": 20.6,
}


def attention_of(places: list[int], *, sure: float = 0.9) -> np.ndarray:
    """Row i looks at source word `places[i]`, and a little at all others."""
    rest = (1 - sure) / (len(places) - 1)
    weights = np.full((len(places), len(places)), rest, np.float32)
    weights[range(len(places)), places] = sure
    return weights


def words(count: int, prefix: str = "w") -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


# Attention ----------------------------------------------------------------------------------


def test_word_attention_sums_source_pieces_and_averages_target_pieces(model, tokenizer):
    source, target = "the unbelievably black cat", "le chat incroyablement noir"
    source_ids = [*tokenizer.encode(source), EOS_ID]
    target_ids = [*tokenizer.encode(target), EOS_ID]
    assert len(source_ids) > 5  # at least one word is in several pieces
    assert len(target_ids) > 5
    kept = {}
    layer = model.decoder.layers[1].cross_attention
    hooks = [
        module.register_forward_hook(lambda _, given, out, name=name: kept.update({name: out}))
        for name, module in (("query", layer.query), ("key", layer.key))
    ]
    result = word_attention(model, tokenizer, tokenizer, source, target)
    for hook in hooks:
        hook.remove()
    queries, keys = (kept[name][0].unflatten(-1, (2, 13)).transpose(0, 1) for name in kept)
    pieces = (queries @ keys.mT / 13**0.5).softmax(-1).mean(0)
    source_words, target_words = tokenizer.words(source_ids), tokenizer.words(target_ids)
    expected = [
        [sum(pieces[i, j].item() for j in a for i in b) / len(b) for a in source_words]
        for b in target_words
    ]
    np.testing.assert_allclose(result.layers[1], expected, atol=1e-6)
    assert result.source_words == ["the", "unbelievably", "black", "cat", "</s>"]
    assert result.target_words == ["le", "chat", "incroyablement", "noir", "</s>"]
    assert len(result.layers) == 3


def test_a_row_is_of_the_position_that_predicts_its_word(model, tokenizer):
    first = word_attention(model, tokenizer, tokenizer, "the cat", "le chat noir")
    second = word_attention(model, tokenizer, tokenizer, "the cat", "le chat ici")
    # What comes last is seen only by the position that predicts the end of sentence.
    for one, other in zip(first.layers, second.layers, strict=True):
        np.testing.assert_allclose(one[:-1], other[:-1], atol=1e-6)
        assert np.abs(one[-1] - other[-1]).max() > 1e-4


def test_recording_leaves_the_model_as_it_was(model, tokenizer):
    model.train()
    first = word_attention(model, tokenizer, tokenizer, "the cat", "le chat")
    second = word_attention(model, tokenizer, tokenizer, "the cat", "le chat")
    assert model.training
    np.testing.assert_array_equal(first.layers[0], second.layers[0])


def test_a_script_without_spaces_is_shown_piece_by_piece(model, tokenizer):
    result = word_attention(model, tokenizer, tokenizer, "我们喜欢猫", "the black cat sleeps")
    assert len(result.source_words) == len(tokenizer.encode("我们喜欢猫")) + 1 > 5
    assert result.target_words == ["the", "black", "cat", "sleeps", "</s>"]


def test_a_control_character_has_a_legible_label(model, tokenizer):
    result = word_attention(model, tokenizer, tokenizer, "the black \x07 cat", "le chat")
    assert result.source_words == ["the", "black", "▁<U+0007>", "cat", "</s>"]


def test_a_layer_that_always_looks_at_the_end_is_not_the_clearest():
    sink, vague = attention_of([4] * 5), attention_of([0, 2, 1, 3, 4], sure=0.4)
    clear = attention_of([0, 2, 1, 3, 4], sure=0.8)
    attention = WordAttention(words(5), words(5), [sink, vague, clear])
    assert attention.clearest_layer() == 2


def test_the_example_is_the_sentence_whose_words_change_places():
    straight = WordAttention(words(5), words(5), [attention_of([0, 1, 2, 3, 4])])
    swapped = WordAttention(words(5), words(5), [attention_of([0, 2, 1, 3, 4], sure=0.8)])
    unsure = WordAttention(words(5), words(5), [attention_of([0, 2, 1, 3, 4], sure=0.3)])
    too_wide = WordAttention(words(29), words(29), [attention_of([*range(28, -1, -1)])])
    assert straight.reordering() == 0
    assert swapped.reordering() == pytest.approx(0.8 / 5)
    assert most_reordered([straight, unsure, swapped, too_wide]) is swapped
    assert most_reordered([]) is None


# Pictures -----------------------------------------------------------------------------------


def lines(metrics: list[dict], panel: str) -> dict[str, np.ndarray]:
    axes = plot_curves(metrics, [panel]).axes[0]
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_curves_show_what_was_reported():
    metrics = [*steps(13), validation(5), validation(13)]
    metrics += [{"event": "average", "steps": [5, 13], "better": True, "bleu": 17.0}]
    loss = lines(metrics, "loss")
    np.testing.assert_allclose(loss["training"], [(i, 7 / i) for i in range(1, 14)])
    np.testing.assert_allclose(loss["validation"], [(5, 3), (13, 3)])
    scores = lines(metrics, "validation scores")
    np.testing.assert_allclose(scores["BLEU"], [(5, 11.05), (13, 11.13)])
    np.testing.assert_allclose(scores["BLEU, averaged"], [(13, 17)])


def test_a_long_curve_is_the_mean_of_neighbours():
    count = 7 * MAX_POINTS
    shown = lines([*steps(count)], "learning rate")
    points = next(iter(shown.values()))
    assert len(points) == MAX_POINTS
    np.testing.assert_allclose(points[1], (np.mean(range(8, 15)), 1e-3 * np.mean(range(8, 15))))


def test_the_speed_is_that_of_training_without_the_pauses_of_validation():
    metrics = steps(31)
    for event in metrics[15:]:
        event["seconds"] += 60  # a validation after the fifteenth step
    speed = next(iter(lines(metrics, "training speed").values()))[:, 1]
    np.testing.assert_allclose(speed, 700 / 7)


@pytest.mark.parametrize("count", [0, 1, 2, 29])
def test_curves_can_be_drawn_for_any_number_of_events(count):
    metrics = [*steps(count, loss=float("nan")), *map(validation, range(1, count, 7))]
    figure = plot_curves(metrics)
    assert len(figure.axes) == 4
    assert to_png(figure).startswith(b"\x89PNG")
    assert ("none yet" in to_svg(figure, "curves")) == (count < 2)


def test_words_are_drawn_as_they_are_and_not_as_formulas():
    source, target = ["$x^$", "5$", EVIL_WORD, "</s>"], ["猫", "है", "\\frac", "</s>"]
    figure = plot_attention(attention_of([1, 0, 2, 3]), source, target, title="t")
    page = Page(to_svg(figure, "picture"))
    for word in source + target:
        assert word in page.text
    assert to_png(figure).startswith(b"\x89PNG")


def test_an_endless_word_is_cut_instead_of_squeezing_the_picture():
    picture = to_svg(plot_attention(attention_of([1, 0]), ["x" * 101, "</s>"], ["y", "z"]), "a")
    assert "xxx…" in picture
    assert "x" * 21 not in picture


def test_drawing_changes_no_setting_of_matplotlib():
    before = dict(mpl.rcParams)
    to_svg(plot_curves(steps(5)), "curves")
    assert dict(mpl.rcParams) == before


def test_the_same_figure_has_the_same_bytes():
    assert to_svg(plot_curves(steps(5)), "a") == to_svg(plot_curves(steps(5)), "a")


# The page -----------------------------------------------------------------------------------


def page(directory: Path, run: RunSummary) -> tuple[Page, str]:
    html = write_report(directory, run).read_text(encoding="utf-8")
    parsed = Page(html)
    assert parsed.open == []
    return parsed, html


def full_run() -> RunSummary:
    return summary(
        metrics=[*steps(31), *map(validation, range(1, 32, 2))],
        evaluation=EVALUATION,
        samples=[{"source": "the dog", "reference": "le chien", "translation": "le chat"}],
        attention=WordAttention(words(3), words(3, "z"), [attention_of([0, 2, 1])]),
    )


def test_the_page_loads_nothing_and_runs_nothing(tmp_path):
    parsed, html = page(tmp_path, full_run())
    assert not parsed.tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    links = [v for k, v in parsed.attributes if k in ("href", "src", "xlink:href", "srcset")]
    assert links  # of the pictures to themselves
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert not re.search(r"https?:|@import|url\((?!#)", html)
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]


def test_ids_are_unique_so_that_pictures_do_not_take_parts_of_each_other(tmp_path):
    parsed, html = page(tmp_path, full_run())
    ids = [value for name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:url\(|href=\")#(\w+)", html)) <= set(ids)


def test_texts_are_escaped_wherever_they_come_from(tmp_path):
    evil = {"source": EVIL, "reference": EVIL, "translation": EVIL}
    honest, _ = page(tmp_path, full_run())
    parsed, _ = page(
        tmp_path,
        replace(
            full_run(),
            source_language=EVIL,
            target_language=EVIL,
            machine=EVIL,
            config=resolve({}, [f"data.source={EVIL}"]),
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


@pytest.mark.parametrize("validations", [0, 1, 2, 23])
def test_the_page_can_be_written_at_any_time(tmp_path, validations):
    metrics = [*steps(validations * 3), *map(validation, range(1, validations + 1))]
    parsed, _ = page(tmp_path, summary(metrics=metrics))
    assert "not been translated yet" in parsed.text
    assert ("No step has been recorded" in parsed.text) == (validations == 0)
    assert ("attempt 1" in parsed.text) == (validations > 0)
    assert (f"attempt {validations}" in parsed.text) == (validations > 0)
    assert parsed.text.count("attempt") <= SHOWN_VALIDATIONS


def test_the_page_shows_scores_texts_and_configuration(tmp_path):
    parsed, _ = page(tmp_path, full_run())
    shown = ("31.2", "52.5", "47.8", "5.12", "62.5 %", "nrefs:1|tok:13a", "1,234,567", "103 pairs")
    for text in (*shown, "le chien", "beam_size: 7", "layer 1 of 1", "3 min 37 s", "701 and 809"):
        assert text in parsed.text


def test_folders_of_the_data_stay_private(tmp_path):
    _, html = page(tmp_path, full_run())
    card = model_card(full_run())
    assert "pairs.tsv" in html
    assert "pairs.tsv" in card
    assert "secret" not in html + card


# The model card -----------------------------------------------------------------------------


def blocks(card: str) -> dict[str, str]:
    return dict(re.findall(r"```(\w+)\n(.*?)```", card, re.DOTALL))


def test_the_card_tells_scores_with_signatures_split_size_and_cost():
    card = model_card(full_run())
    for text in ("31.2", "`nrefs:1|tok:13a`", "beam 7", "held out by source sentence", "5,003"):
        assert text in card
    for text in ("1,234,567", "31 steps in 3 min 37 s", "3 CPU threads", "licence"):
        assert text in card
    own = resolve({}, ["data.test=[news.tsv]"])
    assert "held out" not in model_card(replace(full_run(), config=own))


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text
