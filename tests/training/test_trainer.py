"""The training loop: what a step computes, when a run stops, what it keeps, that it learns."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dragoman.data.batching import Batch, Position, TokenBatches
from dragoman.model import Transformer
from dragoman.model.loss import LossOptions
from dragoman.training.executors import build_executor
from dragoman.training.optimizer import eager
from dragoman.training.trainer import Trainer, random_seed
from tests.training.runs import Runs, Weights, equal, scripted, small_model, weights_of

pytestmark = pytest.mark.usefixtures("annotations_unchecked")

UNEVEN = [
    ([5, 6, 7], [8]),
    ([9], [5, 4, 11, 12, 13, 14, 15]),
    ([6] * 5, [7] * 6),
    ([8, 4], [9, 22]),
]


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


class Fixed(TokenBatches):
    """Given rows of other batches, one batch after the other."""

    def __init__(self, batches: TokenBatches, rows: list[list[int]]):
        self.__dict__.update(batches.__dict__)
        self.upcoming = map(np.array, rows)

    def next_rows(self, position: Position) -> np.ndarray:
        position.batch += 1
        return next(self.upcoming)


def step_with_gradients(trainer: Trainer) -> tuple[dict[str, Any], Weights]:
    """What a step reports, and the gradients as the optimizer is given them."""
    seen: Weights = {}

    def look(*_: Any) -> None:
        seen.update((n, p.grad.clone()) for n, p in trainer.model.named_parameters())

    trainer.optimizer.register_step_pre_hook(look)
    return trainer.train_step(), seen


def length(gradients: Weights) -> float:
    return math.sqrt(sum(g.double().square().sum().item() for g in gradients.values()))


def test_two_uneven_half_batches_give_the_gradient_of_the_whole(runs: Runs):
    """5 and 15 target tokens: a mean of two means would weigh them alike."""
    pairs = runs.batches("uneven", UNEVEN)
    found = []
    for rows in ([[0, 3], [1, 2]], [[0, 1, 2, 3]]):
        trainer, _ = runs.trainer(
            model=small_model(dropout=0.0),
            batches=Fixed(pairs, rows),
            accumulate=len(rows),
            clip_norm=0.0,
        )
        metrics, gradients = step_with_gradients(trainer)
        found.append((metrics["loss"], gradients))
        assert metrics["tokens"] == (16 + 4) + (11 + 4)  # words and ends of both sides
    (half_loss, halves), (whole_loss, whole) = found
    assert half_loss == pytest.approx(whole_loss, rel=1e-5)
    for name in whole:
        torch.testing.assert_close(halves[name], whole[name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_a_step_takes_the_mean_over_target_tokens(runs: Runs, smoothing: float):
    pairs = runs.batches("uneven", UNEVEN)
    model, batch = small_model(dropout=0.0), pairs.collate(np.arange(4))
    logits = model(batch.source_ids, batch.target_ids)
    expected = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=0, label_smoothing=smoothing)
    gradients = torch.autograd.grad(expected, list(model.parameters()))
    options = {"clip_norm": 0.0, "label_smoothing": smoothing}
    trainer, _ = runs.trainer(model=model, batches=Fixed(pairs, [[0, 1, 2, 3]]), **options)
    metrics, own = step_with_gradients(trainer)
    for gradient, theirs in zip(own.values(), gradients, strict=True):
        torch.testing.assert_close(gradient, theirs, rtol=1e-4, atol=1e-6)
    assert metrics["loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert metrics["gradient_norm"] == pytest.approx(length(own), rel=1e-5)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("clip_norm", [0.0, 0.01, 1000.0])
def test_a_long_gradient_is_clipped_and_its_true_length_reported(runs: Runs, clip_norm: float):
    trainer, _ = runs.trainer(clip_norm=clip_norm)
    metrics, gradients = step_with_gradients(trainer)
    assert 0.1 < metrics["gradient_norm"] < 1000
    used = clip_norm if clip_norm == 0.01 else metrics["gradient_norm"]
    assert length(gradients) == pytest.approx(used, rel=1e-3)


def test_the_learning_rate_is_that_of_the_step(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=13, warmup=4, learning_rate=0.004)
    trainer.train()
    rates = [metrics["learning_rate"] for metrics in watcher.of("step")]
    expected = [0.004 * min(step / 4, (4 / step) ** 0.5) for step in range(1, 14)]
    assert rates == pytest.approx(expected, rel=1e-12)
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {rates[-1]}


def test_validation_is_the_mean_over_tokens_without_smoothing_or_dropout(runs: Runs):
    model = small_model(dropout=0.5, projection_dropout=0.5).train()
    trainer, watcher = runs.trainer(model=model, label_smoothing=0.4, bleu=lambda model: 17.0)
    _, validation = trainer.validate()
    metrics = validation.metrics
    model.eval()
    losses = []
    for batch in trainer.valid.in_order():
        logits = model(batch.source_ids, batch.target_ids)[batch.labels != 0]
        labels = batch.labels[batch.labels != 0]
        losses.append(F.cross_entropy(logits, labels, reduction="none").detach())
    assert len(losses) > 1
    assert metrics["valid_loss"] == pytest.approx(torch.cat(losses).mean().item(), rel=1e-5)
    assert metrics["bleu"] == 17
    assert equal(watcher.evaluated[0], weights_of(model))


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout", "projection_dropout"])
def test_every_dropout_acts_in_a_step(runs: Runs, name: str):
    losses = []
    for rate in (0.0, 0.5):
        trainer, _ = runs.trainer(model=small_model(**{"dropout": 0.0, name: rate}))
        losses.append(trainer.train_step()["loss"])
    assert losses[0] != losses[1]


def test_dropout_does_not_depend_on_what_else_drew_random_numbers(runs: Runs):
    losses = []
    for disturbance in (0, 7):
        trainer, watcher = runs.trainer(model=small_model(dropout=0.5), max_steps=3)
        torch.rand(disturbance)
        trainer.train()
        losses.append([metrics["loss"] for metrics in watcher.of("step")])
    assert losses[0] == losses[1]


def test_validating_does_not_change_what_is_learned(runs: Runs):
    """Nor does it leave dropout off."""
    learned = []
    for validate_every in (2, 100):
        trainer, watcher = runs.trainer(model=small_model(dropout=0.5), max_steps=5, validate_every=validate_every)
        trainer.train()
        learned.append([metrics["loss"] for metrics in watcher.of("step")])
    assert learned[0] == learned[1]


@pytest.mark.usefixtures("two_threads")
def test_random_numbers_differ_between_seeds_steps_micro_batches_and_copies():
    drawn = set()
    executor = build_executor(small_model(), torch.bfloat16, LossOptions(0), max_tokens=4096)
    batch = Batch(*torch.ones(3, 5, 2, dtype=torch.int64))
    for seed in (0, 1, 2):
        for step in (1, 2, 3, 99_930, 99_931):
            for micro_batch in range(3):
                drawn |= set(executor.run(draw, batch, seed=random_seed(seed, step, micro_batch)))
    assert len(executor.copies) == 2
    assert len(drawn) == 3 * 5 * 3 * 2
    executor.run(draw, batch, seed=random_seed(2**63, 10**9, 7))  # not too large for torch
    executor.close()


def draw(model: Transformer, part: Batch) -> float:
    """The next random number of dropout."""
    return torch.rand(1, dtype=torch.float64, generator=model.encoder.embedding.dropout.generator).item()


def test_micro_batches_of_a_step_are_dropped_differently(runs: Runs):
    """Twice the same pair: with the same mask the mean would be that of one."""
    pairs = runs.batches("uneven", UNEVEN)
    gradients = []
    for rows in ([[1]], [[1], [1]]):
        trainer, _ = runs.trainer(
            model=small_model(dropout=0.5),
            batches=Fixed(pairs, rows),
            accumulate=len(rows),
            clip_norm=0,
        )
        gradients.append(step_with_gradients(trainer)[1])
    name = "decoder.layers.0.feed_forward.outer.weight"
    assert not torch.allclose(gradients[0][name], gradients[1][name], rtol=0.01)


@pytest.mark.slow
def test_the_best_models_are_kept_and_patience_ends_the_run(runs: Runs):
    scores = scripted(1, 3, 2, 2.9, 5, 4, 4.9, 0)
    trainer, watcher = runs.trainer(bleu=scores, patience=3, validate_every=2)
    assert trainer.train() == "3 validations without a better BLEU"
    assert trainer.progress.step == 16
    assert (trainer.progress.best_scores["bleu"], trainer.progress.best_step) == (5, 10)
    assert len(watcher.kept) == 3
    assert all(map(equal, watcher.kept, [watcher.evaluated[i] for i in (0, 1, 4)]))
    assert [v["better"] for v in watcher.of("validation")] == [i in (0, 1, 4) for i in range(8)]
    assert [v["step"] for v in watcher.of("validation")] == list(range(2, 17, 2))


def test_patience_does_not_count_gains_that_chance_explains(runs: Runs):
    """The highest score is kept all the same."""
    scores = scripted(0.1, 0.12, 0.3, 0.31, 0.33, 0.35)
    trainer, watcher = runs.trainer(bleu=scores, sentences=100, patience=3, validate_every=1)
    assert trainer.train() == "3 validations without a better BLEU"
    assert [v["gain"] for v in watcher.of("validation")] == [True, False, True, False, False, False]
    assert all(v["better"] for v in watcher.of("validation"))
    assert (trainer.progress.best_scores["bleu"], trainer.progress.best_step) == (0.35, 6)
    assert not any("statistics" in values for _, values in watcher.events)


def test_small_gains_count_as_soon_as_they_add_up_also_in_a_resumed_run(runs: Runs):
    rising = [0.1 + 0.04 * number for number in range(10)]
    options = {"sentences": 100, "patience": 6, "validate_every": 1}
    whole, watcher = runs.trainer("whole", bleu=scripted(*rising), max_steps=10, **options)
    assert whole.train() == "10 steps"
    gains = [v["gain"] for v in watcher.of("validation")]
    assert gains[:2] == [True, False]
    assert 2 <= sum(gains) <= 5

    first, watcher = runs.trainer(bleu=scripted(*rising), **options)
    watcher.stop_after = 4
    first.train()
    second, resumed = runs.resumed(bleu=scripted(*rising[4:]), max_steps=10, **options)
    resumed.evaluated = watcher.evaluated[:]  # other places are right in each validation of the run
    second.train()
    assert [v["gain"] for v in resumed.of("validation")] == gains[4:]


def test_the_loss_can_decide_instead_of_bleu(runs: Runs):
    """BLEU only rises here, while a high learning rate makes the loss rise and fall."""
    options = {"monitor": "loss", "learning_rate": 0.3, "warmup": 1, "patience": 3, "validate_every": 1}
    trainer, watcher = runs.trainer(bleu=scripted(*range(100)), max_steps=97, **options)
    assert trainer.train() == "3 validations without a lower loss"
    losses = [v["valid_loss"] for v in watcher.of("validation")]
    lowest = [min(losses[:i], default=math.inf) for i in range(len(losses))]
    assert [v["better"] for v in watcher.of("validation")] == [a < b for a, b in zip(losses, lowest, strict=True)]
    assert losses.index(min(losses)) == len(losses) - 4
    assert (trainer.progress.best_scores["loss"], trainer.progress.best_step) == (-min(losses), len(losses) - 3)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("monitor", ["bleu", "chrf"])
def test_the_loss_decides_between_equal_scores(runs: Runs, monitor: str):
    """As where BLEU is 0 throughout: the model with the lowest loss is kept, and only then patience begins."""
    options = {"monitor": monitor, "learning_rate": 0.3, "warmup": 1, "patience": 3, "validate_every": 1}
    trainer, watcher = runs.trainer(max_steps=97, **options)
    falling = scripted(*range(97, 0, -1))
    watcher.callbacks.evaluate = lambda model: {"bleu": falling(model), "chrf": falling(model)} | {monitor: 0.0}
    assert trainer.train().startswith("3 validations without a better ")
    losses = [v["valid_loss"] for v in watcher.of("validation")]
    assert losses.index(min(losses)) == len(losses) - 4 > 0
    assert trainer.progress.best_step == len(losses) - 3


@pytest.mark.first_is_quick
@pytest.mark.parametrize("accumulate", [1, 2])
def test_validations_may_come_with_epochs(runs: Runs, accumulate: int):
    steps = math.ceil(len(runs.train.plan(0)) / accumulate)
    assert steps > 2
    trainer, watcher = runs.trainer(validate_every="epoch", max_steps=2 * steps, accumulate=accumulate)
    trainer.train()
    assert [v["step"] for v in watcher.of("validation")] == [steps, 2 * steps]


def test_max_epochs_shows_every_pair_that_often(runs: Runs, monkeypatch):
    seen: list[int] = []
    collate = TokenBatches.collate

    def counting(self: TokenBatches, rows: np.ndarray) -> Batch:
        seen.extend(rows.tolist() if self is runs.train else [])
        return collate(self, rows)

    monkeypatch.setattr(TokenBatches, "collate", counting)
    trainer, watcher = runs.trainer(max_epochs=3)
    assert trainer.train() == "3 epochs"
    assert sorted(seen) == sorted(list(range(29)) * 3)
    words = int(runs.train.source.lengths.sum() + runs.train.target.lengths.sum())
    assert watcher.of("step")[-1]["tokens"] == 3 * (words + 2 * 29)


@pytest.mark.parametrize(("steps", "validated"), [(8, [4, 8]), (9, [4, 8, 9]), (3, [3])])
def test_max_steps_ends_with_one_validation(runs: Runs, steps: int, validated: list[int]):
    trainer, watcher = runs.trainer(max_steps=steps)
    assert trainer.train() == f"{steps} steps"
    assert [v["step"] for v in watcher.of("step")] == list(range(1, steps + 1))
    assert [v["step"] for v in watcher.of("validation")] == validated
    assert watcher.callbacks.checkpoints.steps() == validated[-2:]


@pytest.mark.first_is_quick
@pytest.mark.parametrize("better", [True, False])
def test_the_average_of_the_last_snapshots_is_kept_only_if_better(runs: Runs, better: bool):
    bleu = 6 if better else 4.9
    trainer, watcher = runs.trainer(bleu=scripted(1, 2, 3, 4, 5, bleu), max_steps=9, validate_every=2, average=3)
    trainer.train()
    (reported,) = watcher.of("average")
    assert (reported["steps"], reported["better"], reported["bleu"]) == ([6, 8, 9], better, bleu)
    *validated, average = watcher.evaluated
    assert len(validated) == 5
    for name, weight in average.items():
        mean = sum(snapshot[name].double() for snapshot in validated[-3:]) / 3
        torch.testing.assert_close(weight, mean.float(), rtol=0, atol=1e-7)
    assert len(watcher.kept) == 5 + better
    assert equal(watcher.kept[-1], average if better else validated[-1])


@pytest.mark.parametrize("choices", [{"average": 1, "max_steps": 9}, {"average": 3, "max_steps": 4}])
def test_there_is_no_average_of_one(runs: Runs, choices: dict[str, int]):
    trainer, watcher = runs.trainer(**choices)
    trainer.train()
    assert watcher.of("average") == []


def test_fifty_steps_have_the_losses_of_a_plain_loop_and_their_bits_again(runs: Runs):
    options = {"learning_rate": 0.003, "warmup": 7, "label_smoothing": 0.1, "clip_norm": 0.5, "weight_decay": 0.0}
    found = []
    for name in ("one", "other"):
        trainer, watcher = runs.trainer(name, model=small_model(dropout=0.0), max_steps=50, **options)
        trainer.train()
        found.append([step["loss"] for step in watcher.of("step")])
    model, position = small_model(dropout=0.0), Position()
    config = trainer.config
    adam = eager(torch.optim.Adam)(model.parameters(), betas=config.betas, eps=config.eps)
    losses = []
    for step in range(1, 51):
        batch = runs.train.next(position)
        logits, labels = model(batch.source_ids, batch.target_ids).flatten(0, 1), batch.labels.flatten()
        loss = F.cross_entropy(logits, labels, ignore_index=0, label_smoothing=0.1)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        adam.param_groups[0]["lr"] = 0.003 * min(step / 7, (7 / step) ** 0.5)
        adam.step()
        adam.zero_grad()
        losses.append(loss.item())
    assert found[0] == found[1]
    assert found[0] == pytest.approx(losses, rel=1e-5)


@pytest.mark.slow
def test_a_copy_task_is_learned(runs: Runs):
    """The target is the source: a sound Transformer is almost sure of every token in 300 steps."""
    rng = np.random.default_rng(97)
    sentences = [rng.integers(4, 14, rng.integers(1, 7)).tolist() for _ in range(1100)]
    copies = [(s, s) for s in sentences]
    runs.valid = runs.batches("copies-valid", copies[:100], max_tokens=512)
    trainer, watcher = runs.trainer(
        model=small_model(d_model=32, d_ff=64, num_heads=4, dropout=0.0),
        batches=runs.batches("copies", copies[100:], max_tokens=512),
        learning_rate=0.01,
        warmup=50,
        label_smoothing=0.0,
        max_steps=300,
        validate_every=300,
    )
    trainer.train()
    losses = np.array([metrics["loss"] for metrics in watcher.of("step")])
    assert losses[0] > 2
    means = losses.reshape(6, 50).mean(1)
    assert all(late < early for early, late in pairwise(means[:4]))
    assert means[-1] < 0.1  # near 0 it is noise that moves it
    assert watcher.of("validation")[-1]["valid_loss"] < 0.1  # without attention to the source, about 2


@pytest.mark.slow
def test_a_run_that_goes_on_after_its_average_knows_the_score_to_beat(runs: Runs) -> None:
    trainer, watcher = runs.trainer(bleu=scripted(1, 2, 9), max_steps=4, validate_every=2, average=3)
    trainer.train()
    own = weights_of(trainer.model)
    assert equal(own, watcher.evaluated[1])
    tensors, state = watcher.callbacks.checkpoints.load_latest()
    assert state["best_scores"]["bleu"] == 9
    assert equal(own, tensors["model"])
