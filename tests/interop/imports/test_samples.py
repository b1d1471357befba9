"""The miniature models that were made with transformers: the numbers that it computed for them are ours."""

import json
from pathlib import Path

import pytest
import torch

from dragoman import Translator
from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.batch import Sentence
from dragoman.decoding.search import Beams, SearchOptions, beam_search, greedy_search
from dragoman.decoding.torch_engine import predictions
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.storage.model_directory import ModelDirectory

SAMPLES = Path(__file__).parents[4] / "shared"


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("marian-sample", 3),
        pytest.param("marian-sample", 20, marks=pytest.mark.slow),
        pytest.param("m2m-sample", 24, marks=pytest.mark.slow),
    ],
)
def test_ids_log_probabilities_and_searches_are_those_of_transformers(name, number, tmp_path):
    if not (SAMPLES / name).is_dir():
        pytest.skip("the sample is not there")
    import_pretrained(SAMPLES / name, tmp_path / "model")
    directory = ModelDirectory.load(tmp_path / "model")
    config = directory.model.config
    cases = json.loads((SAMPLES / name / "expected.json").read_text(encoding="utf-8"))
    assert len(cases) >= number
    for case in cases[:number]:
        speaking = directory.speaking(case.get("source_language"), case.get("target_language"))
        translator = Translator(speaking)
        source, target = (
            speaking.source_tokenizer.encode(case["source"]),
            speaking.target_tokenizer.encode(case["target"]),
        )
        assert [*source, config.eos_id] == case["source_ids"]
        assert [*target, config.eos_id] == case["target_ids"]
        ids, labels = torch.tensor([case["source_ids"]]), torch.tensor([case["target_ids"]])
        inputs = torch.tensor([[config.bos_id, *target]])
        log_probs = predictions([directory.model], ids, inputs, labels).log_probs
        assert float(log_probs.sum()) == pytest.approx(case["target_log_probability"], abs=1e-3)
        (scored,) = translator.score([(case["source"], case["target"])])
        given = len(speaking.target_tokenizer.encode(""))  # the language, which is no prediction
        assert scored.token_log_probs == pytest.approx([0.0] * given + log_probs[given:].tolist(), abs=1e-4)
        # Theirs have 24 tokens with the first; in Marian's the last is forced to be the end.
        limit = 22 if config.starts_with_padding else 23
        options = SearchOptions([limit], config.bos_id, config.eos_id)
        for size, expected in ((1, "greedy_ids"), (4, "beam4_ids")):
            sentence = Sentence(source, speaking.target_tokenizer.encode(""))
            stepper = translator._work._stepper([sentence], DecodingConfig(max_copies=0))
            groups = greedy_search(stepper, options) if size == 1 else beam_search(stepper, Beams(size, options))
            assert groups[0][0].tokens == case[expected][1 : 1 + limit]
