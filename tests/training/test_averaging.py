"""The moving average of the weights: against a sum over all steps, and what a run does with it."""

from pathlib import Path

import pytest
import torch

from dragoman.training.averaging import MovingAverage, average_weights
from tests.training.runs import Runs, Weights, equal, small_model, weights_of


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_average_weights_by_hand():
    models = [{"a": torch.tensor(values)} for values in ([1.0, 4.0], [2.0, 8.0], [6.0, 0.0])]
    assert average_weights(iter(models))["a"].tolist() == [3.0, 4.0]


def weighted_sum(history: list[Weights], decay: float) -> Weights:
    """The average as a sum of all weights so far, each with its share, in double precision."""
    decays = [min(decay, (1 + step) / (10 + step)) for step in range(len(history))]
    shares = [torch.tensor(decays[step + 1 :]).double().prod() * (1 - decays[step]) for step in range(len(history))]
    shares[0] = torch.tensor(decays[1:]).double().prod()  # what is left of the first weights
    assert float(sum(shares)) == pytest.approx(1)
    names = history[0]
    return {n: sum(s * w[n].double() for s, w in zip(shares, history, strict=True)).float() for n in names}


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.3, pytest.param(0.9, marks=pytest.mark.slow)])
def test_what_is_validated_and_kept_is_the_average_over_all_steps(runs: Runs, decay: float):
    trainer, watcher = runs.trainer(max_steps=13, ema=decay, learning_rate=0.03, average=2)
    history = [weights_of(trainer.model)]
    events = watcher.callbacks.on_event

    def report(event: str, values: dict) -> None:
        if event == "step":
            history.append(weights_of(trainer.model))
        events(event, values)

    watcher.callbacks.on_event = report
    trainer.train()
    validated = [4, 8, 12, 13]
    assert [v["step"] for v in watcher.of("validation")] == validated
    for step, found in zip(validated, watcher.evaluated, strict=False):
        for name, weight in weighted_sum(history[: step + 1], decay).items():
            torch.testing.assert_close(found[name], weight, rtol=1e-5, atol=1e-6, msg=f"{name} at {step}")
            assert not torch.allclose(found[name], history[step][name], rtol=1e-4)
    assert any(equal(watcher.kept[-1], weights) for weights in watcher.evaluated)
    assert equal(weights_of(trainer.model), history[-1])  # the run itself goes on from its own weights
    snapshot = watcher.callbacks.snapshots.load(13)[0]["model"]
    assert equal(snapshot, watcher.evaluated[3])


@pytest.mark.slow
def test_an_average_does_not_change_what_is_learned(runs: Runs):
    learned = []
    for decay in (0.0, 0.9):
        trainer, _ = runs.trainer(f"decay-{decay}", max_steps=5, ema=decay)
        trainer.train()
        learned.append(weights_of(trainer.model))
    assert equal(*learned)


def test_the_model_has_its_own_weights_again_after_an_error():
    model = small_model()
    average = MovingAverage(model, 0.5)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1
    own = weights_of(model)
    changed = []

    def failing() -> None:
        with average.applied(model):
            changed.append(weights_of(model))
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert not equal(changed[0], own)
    assert equal(weights_of(model), own)
