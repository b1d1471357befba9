"""The live page computes what our engine computes, from what is in the page, and loads nothing."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.decoding.translator import Translator
from dragoman.storage.directory import ArrayDirectory, ModelArrays
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.interop.exports.test_web import browser
from tools import make_live

TEXT = make_live.PAGE.read_text(encoding="utf-8")
MODEL = make_live.model_in(TEXT)
SENTENCES = [*make_live.EXAMPLES, "Cats.", "The old red house is in the village, is it not?"]
LONGEST = max(SENTENCES, key=len)


def translator() -> Translator:
    """Our translator with the weights, rounded to eight bits, that the page has."""
    tokenizers = [Tokenizer.from_json(json.dumps(tokenizer), make_live.PAGE) for tokenizer in MODEL["tokenizers"]]
    model = ModelArrays(make_live.architecture_of(MODEL), make_live.weights_of(MODEL))
    return Translator(ArrayDirectory(model, tokenizers[0], tokenizers[-1]))


def test_the_page_is_made_of_its_parts():
    assert make_live.page(MODEL) == TEXT, "run `python -m tools.make_live`"


def test_the_page_is_one_file_that_loads_nothing():
    shell = TEXT.replace(next(line for line in TEXT.split("\n") if line.startswith("const MODEL")), "")
    assert not re.search(r"(src|href)=\"(?!data:)|url\(|@import|fetch\(|https?://", shell)
    assert "default-src 'none'" in TEXT
    assert len(TEXT.encode()) < 1_000_000, "no file of a release is larger"


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> dict[str, list]:
    """What the scripts of the page compute in node: the translations of each sentence."""
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    scripts = TEXT.split("<script>")[1].split("\n// The page: translates")[0]
    program = f"""{scripts}
const tokenizers = MODEL.tokenizers.map((json) => new Tokenizer(json));
const model = new Transformer(MODEL.config, unpack(MODEL.shapes, MODEL.weights));
const results = {json.dumps(SENTENCES)}.map((sentence) => {{
  const ids = tokenizers[0].encode(sentence);
  return {{ ids, ...beamSearch(model, ids, 5) }};
}});
const [first] = results;
const maps = {{ self: [], cross: [] }};
const memory = model.encode([...first.ids, MODEL.config.eos_id]);
const whole = model.decode([MODEL.config.bos_id, ...first.translations[0].tokens], model.newCache(memory), maps);
console.log(JSON.stringify({{ results, whole: whole.map((row) => Array.from(row)), maps }}));
"""
    file = tmp_path_factory.mktemp("live") / "page.js"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run([node, file], capture_output=True, encoding="utf-8", check=True)
    return json.loads(done.stdout)


def test_it_translates_as_our_engine_does(computed):
    with translator() as ours:
        expected = ours.search(SENTENCES, beam_size=5, max_copies=0)
        sources = ours.source_tokenizer.encode_batch(SENTENCES)
    for result, source, hypotheses in zip(computed["results"], sources, expected, strict=True):
        assert result["ids"] == source
        for found, hypothesis in zip(result["translations"], hypotheses, strict=True):
            assert found["tokens"] == hypothesis.tokens
            assert found["score"] == pytest.approx(hypothesis.score, abs=1e-4)
            assert found["finished"] == hypothesis.finished


def test_one_pass_over_the_translation_has_the_same_probabilities_as_the_search(computed):
    best = computed["results"][0]["translations"][0]
    end = MODEL["config"]["eos_id"]
    total = sum(row[token] for row, token in zip(computed["whole"], [*best["tokens"], end], strict=True))
    assert total == pytest.approx(best["total"], abs=1e-3)


def test_what_each_piece_looks_at_adds_up_to_1(computed):
    best = computed["results"][0]
    for kind, keys in (("self", None), ("cross", len(best["ids"]) + 1)):
        layers = computed["maps"][kind]
        assert len(layers) == MODEL["config"]["num_decoder_layers"]
        for layer in layers:
            assert len(layer) == MODEL["config"]["num_heads"]
            for head in layer:
                assert len(head) == len(best["translations"][0]["tokens"]) + 1
                for row, weights in enumerate(head):
                    assert len(weights) == (keys or row + 1)
                    assert sum(weights.values()) == pytest.approx(1, abs=1e-5)


def test_each_step_of_the_beam_says_what_became_of_its_candidates(computed):
    for result in computed["results"]:
        for step in result["steps"]:
            assert 1 <= len(step) <= 10
            assert [candidate["total"] for candidate in step] == sorted((c["total"] for c in step), reverse=True)
            assert sum(candidate["fate"] == "kept" for candidate in step) <= 5
            assert {candidate["fate"] for candidate in step} <= {"kept", "ended", "pruned"}


@pytest.mark.slow
def test_in_a_browser_without_a_network_it_shows_the_translation_and_every_head(tmp_path: Path):
    address = f"{make_live.PAGE.as_uri()}?text={make_live.EXAMPLES[1].replace(' ', '%20')}"
    command = browser(tmp_path, "--dump-dom", address)
    page = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120).stdout
    with translator() as ours:
        (hypotheses,) = ours.search([make_live.EXAMPLES[1]], beam_size=5, max_copies=0)
        expected = ours.target_tokenizer.decode(hypotheses[0].tokens)
    assert f'<p id="translation" aria-live="polite" lang="fr">{expected}</p>' in page
    config = MODEL["config"]
    heads = config["num_heads"] * (config["num_encoder_layers"] + 2 * config["num_decoder_layers"])
    assert page.count("<canvas") == heads
    assert page.count('<li class="chosen">') == 1
    assert "Step 1 of" not in page
    assert re.search(r"Step (\d+) of \1<", page)


@pytest.mark.slow
def test_keys_go_through_the_beam(tmp_path: Path):
    def after(*keys: str) -> str:
        events = (f"new KeyboardEvent('keydown', {{ key: '{key}' }})" for key in keys)
        pressed = "".join(f"document.getElementById('search').dispatchEvent({event});" for event in events)
        page = tmp_path / "page.html"
        page.write_text(TEXT.replace("</body>", f"<script>{pressed}</script></body>"), encoding="utf-8")
        command = browser(tmp_path, "--dump-dom", page.as_uri())
        dom = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120).stdout
        return re.search(r"Step (\d+) of", dom)[1]

    assert after("Home") == "1"
    assert after("Home", "ArrowRight", "ArrowRight", "ArrowLeft") == "2"
    assert after("Home", "End", "x") == after()
