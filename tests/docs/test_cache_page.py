"""The page of greedy decoding with its cache shows what our model computes, and loads nothing."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.model import Transformer
from dragoman.model.attention import AttentionMaps
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.interop.exports.test_web import browser
from tools import make_cache_page, make_live

TEXT = make_cache_page.PAGE.read_text(encoding="utf-8")
DATA = make_cache_page.data_in(TEXT)
STEPS = len(DATA["candidates"])
PHASES = 5


def test_the_page_is_made_of_its_parts():
    assert make_cache_page.page(DATA) == TEXT, "run `python -m tools.make_cache_page`"


def test_the_page_is_one_small_file_that_loads_nothing():
    assert not re.search(r"src=\"|href=\"(?!data:|\.\./)|url\(|@import|fetch\(", TEXT)
    assert set(re.findall(r"https?://[^\"']+", TEXT)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "default-src 'none'" in TEXT
    assert "prefers-reduced-motion: no-preference" in TEXT
    assert len(TEXT.encode()) < 100_000


@pytest.fixture(scope="module")
def live() -> dict:
    return make_live.model_in(make_live.PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def torch_model(live: dict) -> Transformer:
    """The model of dragoman.model, in torch, with the weights of the live page."""
    model = Transformer(make_live.architecture_of(live))
    weights = {name: torch.from_numpy(weight) for name, weight in make_live.weights_of(live).items()}
    names = dict(model.named_parameters())
    assert names.keys() == weights.keys()
    model.load_state_dict(weights, strict=False)
    return model.eval()


def test_the_numbers_are_those_of_one_pass_without_a_cache_in_torch(live: dict, torch_model: Transformer):
    config = torch_model.config
    reader, writer = (Tokenizer.from_json(json.dumps(live["tokenizers"][at]), make_live.PAGE) for at in (0, -1))
    source = torch.tensor([[*reader.encode(DATA["sentence"]), config.eos_id]])
    target = torch.tensor([[config.bos_id, *writer.encode(DATA["translation"])]])
    keys, values = {}, {}
    for layer, block in enumerate(torch_model.decoder.layers):
        for kind in ("self", "cross"):
            attention = getattr(block, f"{kind}_attention")
            for name, found in (("key", keys), ("value", values)):
                getattr(attention, name).register_forward_hook(
                    lambda _, __, output, at=(layer, kind), found=found: found.__setitem__(at, output[0])
                )
    maps = AttentionMaps()
    with torch.no_grad():
        states = torch_model.states(source, target, maps=maps)
        probabilities = torch_model.projection(states)[0].softmax(-1)
    for layer, of_layer in enumerate(DATA["heads"]):
        for head, of_head in enumerate(of_layer):
            for kind, record in (("self", maps.decoder[layer]), ("cross", maps.cross[layer])):
                shown = of_head[kind]
                for step, weights in enumerate(shown["weights"]):
                    expected = record.weights[0, head, step, : len(weights)].numpy()
                    np.testing.assert_allclose(np.array(weights) / 1000, expected, rtol=0, atol=6e-4)
                part = slice(head * DATA["width"], (head + 1) * DATA["width"])
                value = values[layer, kind][:, part].numpy()
                np.testing.assert_allclose(np.array(shown["value"]) / 100, value, rtol=0, atol=6e-3)
            key = keys[layer, "cross"][:, part].numpy()
            np.testing.assert_allclose(np.array(of_head["cross"]["key"]) / 100, key, rtol=0, atol=6e-3)
    for step, candidates in enumerate(DATA["candidates"]):
        best = probabilities[step].topk(len(candidates))
        assert [name for name, _ in candidates] == [
            "end" if index == config.eos_id else writer.pieces([index])[0] for index in best.indices.tolist()
        ]
        np.testing.assert_allclose([share / 1000 for _, share in candidates], best.values.numpy(), rtol=0, atol=6e-4)


def test_queries_and_keys_give_the_weights_that_are_shown():
    for head in (head for layer in DATA["heads"] for head in layer):
        for kind in ("self", "cross"):
            for query, weights in zip(head[kind]["query"], head[kind]["weights"], strict=True):
                keys = np.array(head[kind]["key"][: len(weights)]) / 100
                scores = keys @ np.array(query) / 100 / DATA["width"] ** 0.5
                powers = np.exp(scores - scores.max())
                np.testing.assert_allclose(powers / powers.sum(), np.array(weights) / 1000, rtol=0, atol=0.02)


def test_the_cache_computes_each_position_once():
    length = len(DATA["source"])
    assert [count["with"]["target"] for count in DATA["counts"]] == [1] * STEPS
    assert [count["without"]["target"] for count in DATA["counts"]] == list(range(1, STEPS + 1))
    assert [count["with"]["source"] for count in DATA["counts"]] == [length, *[0] * (STEPS - 1)]
    assert [count["without"]["source"] for count in DATA["counts"]] == [length] * STEPS


def test_what_is_recorded_now_is_what_the_page_shows():
    def same(first: object, second: object) -> bool:
        """Equal, but for whole numbers that may be rounded otherwise on another machine."""
        if isinstance(first, dict):
            return first.keys() == second.keys() and all(same(first[name], second[name]) for name in first)
        if isinstance(first, list):
            return len(first) == len(second) and all(map(same, first, second))
        return abs(first - second) <= 1 if isinstance(first, int) else first == second

    assert same(make_cache_page.recorded(), DATA)


@pytest.mark.slow
def test_in_a_browser_it_starts_before_the_first_step_and_ends_with_the_whole_translation(tmp_path: Path):
    def page(frame: int) -> str:
        command = browser(tmp_path, "--dump-dom", f"{make_cache_page.PAGE.as_uri()}?frame={frame}")
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120).stdout

    first, last = page(0), page(STEPS * PHASES)
    assert "Before the first step." in first
    assert "0 positions were computed in 0 steps" in first
    assert f"Step {STEPS} of {STEPS}." in last
    assert f'<svg id="with" role="img" width="106" height="106" aria-label="{STEPS} positions' in last
    assert f'aria-label="{STEPS * (STEPS + 1) // 2} positions were computed in {STEPS} steps"' in last
    assert last.count('class="piece now">end<') == 1
