"""The model step by step, after any reordering, against the whole forward pass of each prefix."""

import random

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.decoding.torch_engine import TorchStepper
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.attention import MultiHeadAttention, project

VARIANTS = {
    "default": {},
    "rotary": {"positions": "rotary", "norm": "rms", "activation": "swiglu"},
    "learned": {"positions": "learned", "norm_order": "post", "tie_projection": False},
    "shared": {"source_vocab_size": 67, "share_embeddings": True, "projection_bias": True},
    "compiled": {"d_model": 48},
    "marian": {"pad_id": 66, "bos_id": 66, "eos_id": 0, "positions": "sinusoidal-concatenated"},
}
QUICK = ("default", "rotary", "marian")
SOURCE_LENGTHS = [7, 2, 13, 3, 5]


def random_model(**choices) -> Transformer:
    sizes = {"source_vocab_size": 71, "target_vocab_size": 67, "d_model": 42, "d_ff": 53}
    layers = {"num_heads": 3, "num_encoder_layers": 2, "num_decoder_layers": 3}
    torch.manual_seed(5)
    model = Transformer(TransformerConfig(**{**sizes, **layers, "max_positions": 41, **choices}))
    with torch.no_grad():  # biases and gains that matter
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def random_sources(model: Transformer) -> Tensor:
    config = model.config
    ids = torch.full((len(SOURCE_LENGTHS), max(SOURCE_LENGTHS)), config.pad_id)
    for row, length in zip(ids, SOURCE_LENGTHS, strict=True):
        row[:length] = torch.randint(4, 61, (length,))
    return ids


class Walk:
    """A stepper, and beside it the prefixes that its rows must stand for."""

    def __init__(self, model: Transformer, source_ids: Tensor):
        self.model, self.source_ids = model, source_ids
        self.stepper = TorchStepper(model, source_ids)
        self.sentences = np.arange(len(source_ids))
        self.prefixes = np.empty((len(source_ids), 0), np.int64)

    @torch.no_grad()
    def step(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log-probabilities found, and those of a forward pass over the prefixes."""
        found = self.stepper.step(tokens)
        self.prefixes = np.concatenate([self.prefixes, tokens[:, None]], axis=1)
        logits = self.model(self.source_ids[self.sentences], torch.from_numpy(self.prefixes))
        return found.array, logits[:, -1].log_softmax(-1).numpy()

    def reorder(self, rows: list[int]) -> None:
        kept = np.array(rows)
        self.stepper.reorder(kept)
        self.sentences, self.prefixes = self.sentences[kept], self.prefixes[kept]

    def rows_of(self, sentence: int) -> list[int]:
        return np.flatnonzero(self.sentences == sentence).tolist()


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in VARIANTS]
)
def test_steps_are_the_forward_pass_after_any_reorder(variant: str) -> None:
    model = random_model(**VARIANTS[variant])
    walk = Walk(model, random_sources(model))
    dice = random.Random(3)
    # Grow to a beam, shrink, drop sentences one by one; beyond 16 and 34 positions the cache grows.
    drops, beams = {11: 0, 19: 4, 23: 2, 31: 1}, {1: 3, 5: 2, 7: 5, 29: 1}
    live, beam = list(range(len(SOURCE_LENGTHS))), 1
    for position in range(37):
        tokens = np.array([dice.randrange(67) for _ in walk.sentences])
        found, expected = walk.step(tokens)
        np.testing.assert_allclose(found, expected, atol=2e-5, rtol=0)
        beam = beams.get(position, beam)
        if position in drops:
            live.remove(drops[position])
        if position != 13:  # a step may also follow on a step
            walk.reorder([dice.choice(walk.rows_of(s)) for s in live for _ in range(beam)])
    assert walk.sentences.tolist() == [3]


def test_sentences_may_change_places() -> None:
    model = random_model()
    walk = Walk(model, random_sources(model))
    walk.step(np.full(5, 2))
    walk.reorder([4, 2, 0, 1, 3])
    np.testing.assert_allclose(*walk.step(np.array([5, 7, 11, 13, 17])), atol=2e-5, rtol=0)
    walk.reorder([3, 3, 0, 0])  # now sentences 1 and 4, two rows each
    np.testing.assert_allclose(*walk.step(np.array([19, 23, 29, 31])), atol=2e-5, rtol=0)


@torch.no_grad()
def test_padding_and_neighbours_change_nothing() -> None:
    model = random_model()
    sources = random_sources(model)
    together = TorchStepper(model, sources)
    tokens = np.random.default_rng(3).integers(0, 67, (11, 5))
    alone = [TorchStepper(model, sources[i : i + 1, :n]) for i, n in enumerate(SOURCE_LENGTHS)]
    for column in tokens:
        expected = np.concatenate([one.step(column[i : i + 1]).array for i, one in enumerate(alone)])
        np.testing.assert_allclose(together.step(column).array, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_each_row_is_a_distribution_in_single_precision(precision: torch.dtype) -> None:
    model = random_model()
    with torch.autocast("cpu", dtype=precision, enabled=precision != torch.float32):
        stepper = TorchStepper(model, random_sources(model))
        for tokens in np.random.default_rng(3).integers(0, 67, (3, 5)):
            log_probs = stepper.step(tokens).array
            assert log_probs.dtype == np.float32
            assert log_probs.shape == (5, 67)
            np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), np.ones(5), rtol=1e-5)


@torch.no_grad()
def test_the_source_is_encoded_and_projected_once() -> None:
    model = random_model()
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append("encoder"))

    def count(x: torch.Tensor, *projections: torch.nn.Linear) -> object:
        calls.append("memory" if len(projections) == 2 else "self")
        return project(x, *projections)

    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.project = count
    stepper = TorchStepper(model, random_sources(model))
    calls.clear()
    for _ in range(5):
        stepper.step(np.full(len(stepper.sentences), 2))
        stepper.reorder(np.arange(len(stepper.sentences) - 1))
    assert (calls.count("encoder"), calls.count("memory"), calls.count("self")) == (0, 3, 15)
