"""Advice: given when there is reason to, once, and not otherwise."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.config.training import TrainingConfig
from dragoman.data.batching import Sentences, TokenStore
from dragoman.data.bitext import Bitext
from dragoman.data.preparation import PreparedData, prepare
from dragoman.training import advice as module
from dragoman.training.advice import LossMonitor, frequency_entropy
from tests.training.runs import Runs

CONFIG = TrainingConfig(warmup=10, learning_rate=0.004)


@pytest.fixture
def target(tmp_path: Path) -> TokenStore:
    """Tokens 4 and 5 and the end of sentence, four times each: log 3 nats each."""
    TokenStore.write([tmp_path / "s", tmp_path / "t"], [([7], [4, 5])] * 4)
    return TokenStore(tmp_path / "t")


@pytest.mark.slow
def test_the_entropy_of_frequencies_by_hand(target: TokenStore):
    assert frequency_entropy(target) == pytest.approx(math.log(3))


@pytest.mark.parametrize(("most", "sentences"), [(1, 1), (5, 1), (6, 2), (8, 2), (9, 3), (999, 3)])
def test_the_entropy_is_that_of_the_sentences_that_so_many_tokens_suffice_for(
    tmp_path: Path, most: int, sentences: int
):
    TokenStore.write([tmp_path / "t"], [([4, 5, 6],), ([4, 4, 4],), ([5, 7, 7],)])
    counts = {1: [1, 1, 1, 1], 2: [4, 1, 1, 2], 3: [4, 2, 1, 2, 3]}[sentences]  # of 4, 5, 6, (7,) and the end
    expected = -sum(n / sum(counts) * math.log(n / sum(counts)) for n in counts)
    assert frequency_entropy(TokenStore(tmp_path / "t"), most=most) == pytest.approx(expected)


@pytest.mark.parametrize("setting", ["tokenizer.dropout=0.2", "tokenizer.sampling_alpha=0.2"])
def test_sentences_that_each_epoch_cuts_anew_have_frequencies_too(tmp_path: Path, setting: str):
    kind = "bpe" if "dropout" in setting else "unigram"
    config = load_config(
        {}, parse_settings(["tokenizer.vocab_size=300", "data.held_out=23", f"tokenizer.kind={kind}", setting])
    )
    prepare(Bitext.open("builtin:grammar:101").cleaned(), config, tmp_path)
    batches = PreparedData.open(tmp_path, config).train
    batches.plan(0)
    assert 1.0 < frequency_entropy(batches.target) < math.log(config.tokenizer.vocab_size)
    assert "no more than how frequent" in advice([(9.0, 9.0)], batches.target)[0]


def advice(losses: list[tuple[float, float]], target: Sentences, *, every: int = 400, **choices: float) -> list[str]:
    """What is said of these training and validation losses, `every` so many steps."""
    monitor, said = LossMonitor(), []
    for number, (train, valid) in enumerate(losses, start=1):
        for _ in range(every):
            monitor.step(train)
        said += monitor.update(number * every, valid, config=CONFIG.model_copy(update=choices), target=target)
        monitor = LossMonitor(**json.loads(json.dumps(asdict(monitor))))  # as through a checkpoint
    return said


def test_a_model_no_better_than_frequencies_is_reported_once(target: TokenStore):
    (text,) = advice([(2.0, 1.2), (2.0, 1.2), (2.0, 1.2)], target)
    assert text.startswith("After 400 steps ")
    assert "1.20 nats" in text
    assert "1.10" in text
    assert "training.learning_rate=0.001 " in text
    assert "dragoman data check" in text


@pytest.mark.parametrize("losses", [[(2.0, 1.0)], [(2.0, 1.0), (2.0, 1.05), (2.0, 1.0)]])
def test_a_model_that_has_learned_more_is_left_in_peace(target: TokenStore, losses: list[tuple[float, float]]):
    assert advice(losses, target) == []


def test_nothing_is_expected_in_the_warm_up_or_of_a_few_steps(target: TokenStore):
    assert advice([(2.0, 1.2)], target, warmup=401) == []
    assert advice([(2.0, 1.2)], target, every=299) == []


def test_frequent_validations_are_taken_together(target: TokenStore):
    """Every 7 steps: the losses are looked at after 105, 210 and 315, the first time that is late enough."""
    (text,) = advice([(2.0, 1.2)] * 60, target, every=7)
    assert text.startswith("After 315 steps ")


@pytest.mark.parametrize(("clip_norm", "remedy"), [(1.0, "training.warmup"), (0.0, "training.clip_norm=1")])
def test_a_rising_training_loss_is_reported(target: TokenStore, clip_norm: float, remedy: str):
    (text,) = advice([(0.9, 0.8), (0.6, 0.8), (0.65, 0.8), (0.7, 0.8), (0.9, 0.8)], target, clip_norm=clip_norm)
    assert "from 0.60 to 0.70" in text
    assert "training.learning_rate=0.002" in text
    assert remedy in text


def test_overfitting_is_reported_after_three_worse_validations(target: TokenStore):
    better = [(0.9, 0.8), (0.8, 0.7), (0.7, 0.6)]
    worse = [(0.6, 0.65), (0.5, 0.7), (0.4, 0.75)]
    assert advice(better + worse[:2], target) == []
    (text,) = advice(better + worse + worse[2:] * 3, target)
    assert "Since step 1,200 " in text
    assert "from 0.60 to 0.75" in text
    assert "from 0.70 to 0.40" in text
    assert "dropout" in text


def test_a_validation_loss_that_only_fluctuates_is_no_overfitting(target: TokenStore):
    assert advice([(0.9, 0.6), (0.8, 0.61), (0.7, 0.605), (0.6, 0.61), (0.5, 0.611)], target) == []
    assert advice([(0.9, 0.6), (0.8, 0.7), (0.7, 0.7), (0.6, 0.6), (0.5, 0.7), (0.4, 0.7)], target) == []


def test_a_validation_loss_that_rises_with_the_training_loss_is_no_overfitting(target: TokenStore):
    assert advice([(0.9, 0.6), (0.9, 0.7), (0.91, 0.7), (0.92, 0.7), (0.93, 0.7)], target) == []


@pytest.mark.slow
def test_a_run_that_learns_nothing_is_warned_of_and_a_resumed_one_not_again(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module, "FEWEST_STEPS", 3)
    monkeypatch.setattr(module, "NOVICE", 6)
    runs, choices = Runs(tmp_path), {"validate_every": 4, "learning_rate": 1e-9}
    trainer, watcher = runs.trainer(max_steps=9, **choices)
    trainer.train()
    (warning,) = watcher.of("warning")
    assert warning["step"] == 8
    assert "no more than how frequent" in warning["text"]
    resumed, watcher = runs.resumed(max_steps=16, **choices)
    resumed.train()
    assert watcher.of("warning") == []
