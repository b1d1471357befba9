"""Guided alignment: the loss of one head, its gradient, and engines that read this head."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman import Translator
from dragoman.data.batching import Batch
from dragoman.data.bitext import Bitext
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.engine.engine import ArrayEngine
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.attention import AttentionMaps
from dragoman.model.loss import LossOptions, alignment_loss
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.training.executors import CopiesExecutor, Executor
from dragoman.training.loss import batch_loss
from tests.small import small_directory, train_run

CONFIG = TransformerConfig(
    source_vocab_size=40,
    target_vocab_size=40,
    d_model=32,
    d_ff=48,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=3,
    dropout=0.0,
    guided_head=True,
)


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(11)
    return Transformer(CONFIG)


@pytest.fixture
def batch() -> Batch:
    rng = np.random.default_rng(2)
    lengths = [(3, 5), (6, 2), (4, 4), (1, 1)]
    sources = [rng.integers(4, 40, source).tolist() for source, _ in lengths]
    targets = [rng.integers(4, 40, target).tolist() for _, target in lengths]
    batch = Batch.of(sources, targets)
    positions = torch.full_like(batch.labels, -1)
    for row, (source, target) in enumerate(lengths):
        positions[row, :target] = torch.from_numpy(rng.integers(-1, source + 1, target))
        positions[row, target] = source
    return Batch(batch.source_ids, batch.target_ids, batch.labels, positions=positions)


def test_the_loss_is_minus_log_of_the_attention_to_each_position() -> None:
    torch.manual_seed(1)
    weights = torch.randn(2, 3, 4).softmax(-1).requires_grad_()
    positions = torch.tensor([[0, 3, -1], [2, -1, -1]])
    expected = -(weights[0, 0, 0].log() + weights[0, 1, 3].log() + weights[1, 0, 2].log())
    loss = alignment_loss(weights, positions)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert not weights.grad[0, 2].any()
    assert not weights.grad[1, 1:].any()
    assert torch.isfinite(alignment_loss(torch.tensor([[[0.0, 1.0]]]), torch.tensor([[0]])))


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_the_loss_of_a_batch_has_the_share_of_one_head(model: Transformer, batch: Batch, r_drop: float) -> None:
    maps = AttentionMaps()
    model.states(batch.source_ids, batch.target_ids, maps=maps)
    weights = maps.cross[1].weights[:, 0]  # of the last layer but one
    known = [(row, place) for row, place in np.argwhere(batch.positions.numpy() >= 0).tolist()]
    of_head = -sum(weights[row, place, batch.positions[row, place]].log() for row, place in known)
    plain, count = batch_loss(model, batch, LossOptions(0, r_drop=r_drop))
    guided, count_too = batch_loss(model, batch, LossOptions(0, r_drop=r_drop, guided_alignment=0.25))
    assert count == count_too
    torch.testing.assert_close(guided - plain, 0.25 * of_head, rtol=1e-4, atol=1e-4)


def test_a_head_may_be_taught_the_token_that_a_step_has_read(batch: Batch) -> None:
    torch.manual_seed(11)
    model = Transformer(replace(CONFIG, aligned_token="read"))
    maps = AttentionMaps()
    model.states(batch.source_ids, batch.target_ids, maps=maps)
    weights = maps.cross[1].weights[:, 0]
    of_head = torch.tensor(0.0)
    for row, labels in enumerate(batch.labels.tolist()):
        for place in range(labels.index(CONFIG.eos_id)):  # the next step reads what this one predicts
            if batch.positions[row, place] >= 0:
                of_head = of_head - weights[row, place + 1, batch.positions[row, place]].log()
    plain, _ = batch_loss(model, batch, LossOptions(0))
    guided, _ = batch_loss(model, batch, LossOptions(0, guided_alignment=0.25))
    torch.testing.assert_close(guided - plain, 0.25 * of_head, rtol=1e-4, atol=1e-4)


def test_the_attention_of_a_token_is_that_of_the_step_which_aligns_it() -> None:
    tokenizer = Tokenizer.train(["a b c"], vocab_size=270)
    pairs = [([5, 6, 7], [8, 9]), ([5, 6], [8, 9, 10, 11])]
    rows = []
    for aligned in ("predicted", "read"):
        directory = small_directory(tokenizer, num_decoder_layers=3, guided_head=True, aligned_token=aligned)
        with Translator(directory) as translator:
            rows.append(translator._work._attention(pairs))
    for (source, target), predicted, read in zip(pairs, *rows, strict=True):
        assert predicted.shape == read.shape == (len(target) + 1, len(source) + 1)
        np.testing.assert_allclose(read[:-1], predicted[1:])
        assert read[-1].tolist() == [0.0] * len(source) + [1.0]


def test_only_what_the_head_is_computed_from_gets_another_gradient(model: Transformer, batch: Batch) -> None:
    def gradients(weight: float) -> dict[str, torch.Tensor]:
        model.zero_grad()
        loss, _ = batch_loss(model, batch, LossOptions(0, guided_alignment=weight))
        loss.backward()
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    plain, guided = gradients(0.0), gradients(1.0)
    differing = {name for name in plain if not torch.allclose(plain[name], guided[name], atol=1e-6)}
    assert "decoder.layers.1.cross_attention.query.weight" in differing
    assert "encoder.layers.0.feed_forward.inner.weight" in differing
    assert not {name for name in differing if name.startswith(("decoder.layers.2", "decoder.norm", "projection"))}
    query = "decoder.layers.1.cross_attention.query.weight"
    difference = (plain[query] - guided[query]).abs()
    assert difference[:16].max() > 1e-4
    assert difference[16:].max() < 1e-6  # the other head


@pytest.mark.usefixtures("two_threads")
def test_copies_compute_the_loss_of_the_model(model: Transformer, batch: Batch) -> None:
    options = LossOptions(0, guided_alignment=0.5)
    expected = Executor(model, torch.float32, options).backward([batch], seed=lambda _: 1)
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    copies = CopiesExecutor(model, torch.float32, options, copies=2, warn=pytest.fail)
    try:
        found = copies.backward([batch], seed=lambda _: 1)
    finally:
        copies.close()
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)


def test_validation_does_not_count_it(model: Transformer, batch: Batch) -> None:
    executor = Executor(model, torch.float32, LossOptions(0, guided_alignment=5.0))
    plain, _ = batch_loss(model, batch, LossOptions(0))
    assert executor.loss(batch)[0] == pytest.approx(plain.item(), rel=1e-5)


def test_engines_read_the_guided_head_alone(model: Transformer, batch: Batch) -> None:
    maps = AttentionMaps()
    with torch.no_grad():
        model.states(batch.source_ids, batch.target_ids, maps=maps)
    expected = maps.cross[1].weights[:, 0].numpy()
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    ids = batch.source_ids.numpy(), batch.target_ids.numpy()
    for engine in (ArrayEngine(CONFIG, weights), TorchEngine(model.eval())):
        np.testing.assert_allclose(engine.attention(*ids), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "guided", "expected"),
    [
        (1, False, [0]),
        (2, False, [0, 1]),
        (3, False, [1]),
        (6, False, [1, 2, 3, 4]),
        (1, True, [0]),
        (2, True, [0]),
        (6, True, [4]),
    ],
)
def test_layers_that_tell_alignments(layers: int, guided: bool, expected: list[int]) -> None:
    config = TransformerConfig.preset(
        "base", source_vocab_size=10, target_vocab_size=10, num_decoder_layers=layers, guided_head=guided
    )
    assert [*config.aligning_layers] == expected
    assert config.aligning_heads == (1 if guided else 8)


DICTIONARY = {"girl": "fille", "boy": "garçon", "dog": "chien", "cat": "chat", "umbrella": "parapluie"}


def bare_words(text: str) -> list[str]:
    return [word.strip(".!?'").lower() for word in text.split()]


@pytest.mark.slow
def test_a_trained_model_links_the_words_of_a_dictionary(tmp_path: Path) -> None:
    settings = ["training.max_steps=220", "training.max_tokens=1024", "model.num_encoder_layers=2"]
    train_run(tmp_path / "run", "builtin:grammar:4000", settings=[*settings, "model.num_decoder_layers=2"])
    assert ModelDirectory.load(tmp_path / "run").model.config.guided_head
    sentences = [source for source, _ in Bitext.open("builtin:grammar:800:test")]
    translations = Translator.load(tmp_path / "run").translate(sentences, alignments=True)
    found = []
    for sentence, translation in zip(sentences, translations, strict=True):
        source, target = bare_words(sentence), bare_words(translation.text)
        for word, meaning in DICTIONARY.items():
            if source.count(word) == target.count(meaning) == 1:
                found.append((source.index(word), target.index(meaning)) in translation.alignment)
    assert len(found) > 40
    assert np.mean(found) > 0.85
