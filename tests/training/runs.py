"""Small training runs for the tests of this folder, and a watcher of what they say."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.config.training import TrainingConfig
from dragoman.data.batching import TokenBatches, TokenStore
from dragoman.metrics.resampling import Statistics
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.checkpoints import Checkpoints
from dragoman.system.ranks import ALONE, Ranks
from dragoman.training.trainer import Trainer, TrainerCallbacks

VOCAB = 23
SPREAD = 0.5
"""How far the scores of sentences are from their mean."""
Weights = dict[str, Tensor]
Pair = tuple[list[int], list[int]]


def weights_of(model: torch.nn.Module) -> Weights:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def equal(first: Weights, second: Weights) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


class Watcher:
    """Callbacks of a trainer, with its checkpoints in `folder`; remembers all events and models."""

    def __init__(self, folder: Path, bleu: Callable[[Transformer], float], *, sentences: int = 0):
        """A score is the mean of so many `sentences`, which differ by `SPREAD`; 0: nobody knows of which it is."""
        self.bleu, self.sentences = bleu, sentences
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.evaluated: list[Weights] = []
        self.kept: list[Weights] = []
        self.warnings: list[str] = []
        self.stop_after = math.inf
        self.callbacks = TrainerCallbacks(
            evaluate=self._evaluate,
            keep_best=lambda model: self.kept.append(weights_of(model)),
            on_event=lambda event, values: self.events.append((event, values)),
            checkpoints=Checkpoints(folder / "checkpoints", warn=self.warnings.append),
            snapshots=Checkpoints(folder / "snapshots", warn=self.warnings.append),
            stop_requested=lambda: max((s["step"] for s in self.of("step")), default=0) >= self.stop_after,
        )

    def _evaluate(self, model: Transformer) -> dict[str, Any]:
        assert not model.training
        assert not torch.is_grad_enabled()
        torch.rand(5)  # random numbers drawn outside must not change the run
        self.evaluated.append(weights_of(model))
        bleu = self.bleu(model)
        if not self.sentences:
            return {"bleu": bleu}
        values = np.resize([bleu - SPREAD, bleu + SPREAD], self.sentences)
        values = np.random.default_rng(len(self.evaluated)).permutation(values)  # each is right in other places
        return {"bleu": bleu, "statistics": Statistics.of_mean(values, "mean")}

    def of(self, event: str) -> list[dict[str, Any]]:
        return [values for name, values in self.events if name == event]


def scripted(*scores: float) -> Callable[[Transformer], float]:
    """One score after the other."""
    remaining = iter(scores)
    return lambda model: next(remaining)


def from_weights(model: Transformer) -> float:
    """A score that any bit of the weights may change."""
    return math.fmod(sum(p.detach().double().abs().sum().item() for p in model.parameters()), 1)


def random_pairs(count: int, *, seed: int) -> list[Pair]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, (count, 2)).tolist()
    return [tuple(rng.integers(4, VOCAB, n).tolist() for n in sides) for sides in lengths]


def batches_of(folder: Path, pairs: list[Pair], *, max_tokens: int = 31) -> TokenBatches:
    folder.mkdir(exist_ok=True)
    paths = folder / "source", folder / "target"
    TokenStore.write(paths, pairs)
    stores = map(TokenStore, paths)
    return TokenBatches(*stores, max_tokens=max_tokens, seed=3)


def small_model(*, seed: int = 79, **choices: Any) -> Transformer:
    torch.manual_seed(seed)
    sizes = {"d_model": 14, "d_ff": 17, "num_heads": 2, "num_encoder_layers": 1}
    vocabularies = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB}
    layers = {"num_decoder_layers": 1, "share_embeddings": True}
    return Transformer(TransformerConfig(**(sizes | vocabularies | layers | choices)))


def settings(**choices: Any) -> TrainingConfig:
    defaults = {"precision": "float32", "warmup": 5, "validate_every": 4, "average": 1}
    paper = {"optimizer": "adam", "learning_rate": 1e-3, "schedule": "inverse_sqrt", "max_tokens": 4096}
    return TrainingConfig(**(defaults | paper | choices))


def computing_model(trainer: Trainer) -> Transformer:
    """The one that computes in this process: the first copy, or the model itself."""
    copies = getattr(trainer.executor, "copies", [])
    return copies[0].model if copies else trainer.model


class Runs:
    """Trainers on 29 pairs, an epoch of which is some 6 batches, and 7 to validate on."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.train = self.batches("train", random_pairs(29, seed=73))
        self.valid = self.batches("valid", random_pairs(7, seed=83))

    def batches(self, name: str, pairs: list[Pair], **options: Any) -> TokenBatches:
        return batches_of(self.folder / name, pairs, **options)

    def trainer(
        self,
        name: str = "run",
        *,
        model: Transformer | None = None,
        batches: TokenBatches | None = None,
        bleu: Callable[[Transformer], float] = from_weights,
        sentences: int = 0,
        ranks: Ranks = ALONE,
        **choices: Any,
    ) -> tuple[Trainer, Watcher]:
        """A new trainer, as a new process would make it; `name` says where its checkpoints are."""
        watcher = Watcher(self.folder / name, bleu, sentences=sentences)
        watcher.callbacks.ranks = ranks
        trainer = Trainer(
            model or small_model(),
            batches or self.train,
            self.valid,
            config=settings(**choices),
            seed=89,
            callbacks=watcher.callbacks,
        )
        return trainer, watcher

    def resumed(self, name: str = "run", **options: Any) -> tuple[Trainer, Watcher]:
        """A new trainer that goes on from the last checkpoint of another."""
        trainer, watcher = self.trainer(name, **options)
        checkpoint = watcher.callbacks.checkpoints.load_latest()
        assert checkpoint is not None
        trainer.load_state_dict(*checkpoint)
        return trainer, watcher
