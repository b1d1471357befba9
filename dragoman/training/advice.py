"""Advice during training, if the loss does not fall, if it rises, or if only that of the training pairs falls."""

from dataclasses import dataclass, field

import numpy as np

from dragoman.config.training import TrainingConfig
from dragoman.data.batching import Sentences

FEWEST_STEPS = 100
"""Steps between two looks at the losses: a mean over fewer says little."""
NOVICE = 300
"""Steps before a model has to predict better than the frequencies of tokens do; the warm-up, if that is longer."""
RISE = 1.1
"""A mean training loss that is larger than the lowest by this factor is not just a fluctuation."""
WORSE = 1.02
"""A validation loss that is larger than the lowest by this factor is not; its pairs are always the same."""
PATIENCE = 3
"""Looks in a row at a worse validation loss after which the model is said to overfit."""


@dataclass
class LossMonitor:
    """Statistics of the losses so far, from which advice follows. Stored in checkpoints."""

    loss_sum: float = 0.0
    """Sum of the training losses since the last look."""
    steps: int = 0
    """Steps since the last look."""
    best_train: float | None = None
    """The lowest mean training loss between two looks."""
    best_valid: float | None = None
    best_valid_step: int = 0
    train_then: float = 0.0
    """The mean training loss at the lowest validation loss."""
    worse: int = 0
    """Looks in a row at a validation loss that is clearly higher than the lowest."""
    settled: list[str] = field(default_factory=list)
    """Kinds of advice that were given, or are no longer needed."""

    def step(self, loss: float) -> None:
        """Add the loss of a step, in nats per token."""
        self.loss_sum += loss
        self.steps += 1

    def update(self, step: int, valid_loss: float, config: TrainingConfig, target: Sentences) -> list[str]:
        """Add the loss of a validation; returns advice, each kind once in a run."""
        if self.steps < FEWEST_STEPS:
            return []
        train_loss = self.loss_sum / self.steps
        self.loss_sum, self.steps = 0.0, 0
        lowest = self.best_train or train_loss
        # The keys are stored in checkpoints.
        advice = {
            "frequencies": self._no_better_than_frequencies(step, valid_loss, config, target),
            "rising": _rising(train_loss, lowest, config),
            "by heart": self._overfitting(train_loss, valid_loss),
        }
        self.best_train = min(lowest, train_loss)
        if self.best_valid is None or valid_loss < self.best_valid:
            self.best_valid, self.best_valid_step, self.train_then = valid_loss, step, train_loss
        new = {kind: text for kind, text in advice.items() if text and kind not in self.settled}
        self.settled.extend(new)
        return list(new.values())

    def _no_better_than_frequencies(
        self, step: int, valid_loss: float, config: TrainingConfig, target: Sentences
    ) -> str | None:
        if "frequencies" in self.settled or step < max(NOVICE, config.warmup):
            return None
        entropy = frequency_entropy(target)
        if valid_loss < entropy:
            self.settled.append("frequencies")
            return None
        return (
            f"After {step:,} steps the model knows no more than how frequent each token is: its validation loss is "
            f"{valid_loss:.2f} nats per token, and frequencies alone reach {entropy:.2f}. Are the two sides aligned "
            f"line by line? `dragoman data check` tells. If they are, start again with training.learning_rate="
            f"{config.learning_rate / 3:.1g} or a longer training.warmup than {config.warmup:,}."
        )

    def _overfitting(self, train_loss: float, valid_loss: float) -> str | None:
        if self.best_valid is None or valid_loss <= WORSE * self.best_valid:
            self.worse = 0
            return None
        self.worse += 1
        if self.worse < PATIENCE or train_loss >= self.train_then:
            return None
        return (
            f"Since step {self.best_valid_step:,} the validation loss has risen from {self.best_valid:.2f} to "
            f"{valid_loss:.2f}, while the training loss fell from {self.train_then:.2f} to {train_loss:.2f}: the model "
            "memorises its pairs. More pairs help most; without them a higher model.dropout, training.r_drop=5, "
            "or a smaller model. The best model so far stays kept."
        )


def _rising(train_loss: float, lowest: float, config: TrainingConfig) -> str | None:
    if train_loss <= RISE * lowest:
        return None
    remedy = "a longer training.warmup" if config.clip_norm else "training.clip_norm=1"
    return (
        f"The training loss has risen from {lowest:.2f} to {train_loss:.2f} nats per token: the learning rate is too "
        f"high. Start again with training.learning_rate={config.learning_rate / 2:.1g}, or with {remedy}."
    )


def frequency_entropy(target: Sentences, most: int = 5_000_000) -> float:
    """Cross-entropy in nats per token of a prediction by frequency alone, ends of sentence included.

    Counts the first `most` tokens, in whole sentences and at least one, so that memory stays small.
    """
    sentences = max(1, int(np.searchsorted(np.cumsum(target.lengths), most, side="right")))
    ids = np.concatenate([target[index] for index in range(sentences)])
    counts = np.append(np.bincount(ids), sentences)  # as many ends of sentence as sentences
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
