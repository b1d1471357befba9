"""Runs that were never run, for the tests of what is shown of them."""

import numpy as np

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.model import TransformerConfig
from dragoman.report import RunSummary, WordAttention

EVALUATION = {
    "bleu": 31.25,
    "chrf": 52.5,
    "ter": 47.75,
    "intervals": {"bleu": [28.0, 34.0]},
    "signatures": {"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nw:2", "ter": "nrefs:1|case:lc"},
    "perplexity": 5.125,
    "token_accuracy": 0.625,
    "num_tokens": 1009,
    "sentences": 103,
    "seconds": 5.0,
    "sentences_per_second": 20.6,
}


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
    return {"event": "validation", "step": step, "better": True, "samples": [sample]} | (scores | values)


def summary(**values) -> RunSummary:
    config = load_config({}, parse_settings(["data.source=/home/secret/pairs.tsv", "decoding.beam_size=7"]))
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


def full_run() -> RunSummary:
    return summary(
        metrics=[*steps(31), *map(validation, range(1, 32, 2))],
        evaluation=EVALUATION,
        samples=[{"source": "the dog", "reference": "le chien", "translation": "le chat"}],
        attention=WordAttention(words(3), words(3, "z"), [attention_of([0, 2, 1])]),
    )


def attention_of(indices: list[int], *, sure: float = 0.9) -> np.ndarray:
    """Row i looks at source word `indices[i]`, and a little at all others."""
    rest = (1 - sure) / (len(indices) - 1)
    weights = np.full((len(indices), len(indices)), rest, np.float32)
    weights[range(len(indices)), indices] = sure
    return weights


def words(count: int, prefix: str = "w") -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]
