"""Steps of training, ours and the peers', on the same batches and with the same loss."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from corpus import Corpus
from dragoman.config.run import RunConfig
from dragoman.data.batching import Position, TokenBatches
from dragoman.model import Transformer
from dragoman.storage.checkpoints import Checkpoints
from dragoman.system.device import PRECISIONS
from dragoman.text.tokenizers.tokenizer import PAD_ID
from dragoman.training.trainer import Trainer, TrainerCallbacks
from peers.models import Peer, peers
from table import OURS, Contestant, precisions, rate

RATE = 1e-4
"""Learning rate of the peers where only speed counts."""


class PeerTraining:
    """Training as in most people's loops: Adam, the whole logits, label smoothing, clipping."""

    def __init__(self, model: nn.Module, batches: TokenBatches, config: RunConfig):
        self.model, self.batches, self.config = model.train(), batches, config.training
        self.optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.position = Position()

    def tokens(self, steps: int, precision: torch.dtype) -> int:
        """Source and target tokens of the next `steps`, without padding."""
        return sum(self.step(precision) for _ in range(steps))

    def step(self, precision: torch.dtype, rate: float = RATE) -> int:
        """Source and target tokens of the next step, taken with this learning rate."""
        batch = self.batches.next(self.position)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
            logits = self.model(batch.source_ids, batch.target_ids)
            loss = F.cross_entropy(
                logits.flatten(0, 1),
                batch.labels.flatten(),
                ignore_index=PAD_ID,
                label_smoothing=self.config.label_smoothing,
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return int((batch.source_ids != 0).sum() + (batch.labels != 0).sum())


@contextmanager
def our_trainer(corpus: Corpus, precision: str, device: str = "cpu") -> Iterator[Trainer]:
    """The trainer of `dragoman train`, set up to do nothing but steps."""
    config = corpus.config.training.model_copy(update={"precision": precision})
    model = Transformer(corpus.config.transformer(corpus.vocab_size, corpus.vocab_size)).to(device)
    with tempfile.TemporaryDirectory() as folder:
        nowhere = Checkpoints(Path(folder), warn=print)
        callbacks = TrainerCallbacks(lambda _: {"bleu": 0.0}, lambda _: None, lambda *_: None, nowhere, nowhere)
        trainer = Trainer(model, corpus.data.train, corpus.data.valid, config=config, seed=1, callbacks=callbacks)
        try:
            yield trainer
        finally:
            trainer.executor.close()


def our_tokens(trainer: Trainer, steps: int) -> int:
    """Source and target tokens of the next `steps`, without padding."""
    before = trainer.progress.tokens
    for _ in range(steps):
        trainer.train_step()
    return trainer.progress.tokens - before


def weights(model: nn.Module) -> int:
    """Number of weights that are trained. Shared ones count once."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def our_contestant(trainer: Trainer, steps: int, name: str) -> Contestant:
    """Dragoman at one precision."""
    precision = str(trainer.executor.precision).removeprefix("torch.")
    run = {precision: lambda: rate(lambda: our_tokens(trainer, steps))}
    return Contestant(f"{OURS}{name}", run, {"weights": f"{weights(trainer.model):,}"})


def peer_contestant(peer: Peer, corpus: Corpus, steps: int, ours: int) -> Contestant:
    """A peer in each precision and each of its ways.

    Raises `AssertionError` if it is no equal: if its weights differ in number by more than is said, or its masks.
    """
    runs = {}
    for way, model in peer.models.items():
        number, expected = weights(model), ours + sum(peer.differences.values())
        if number != expected:
            raise AssertionError(f"{peer.name} has {number:,} weights, not {expected:,}: compare like with like.")
        check_masks(peer.name, model)
        training = PeerTraining(model, corpus.data.train, corpus.config)
        for precision in precisions():
            label = " ".join(filter(None, [precision, way]))
            runs[label] = lambda t=training, p=PRECISIONS[precision]: rate(lambda: t.tokens(steps, p))
    return Contestant(peer.name, runs, {"weights": f"{number:,}"})


@torch.no_grad()
def check_masks(name: str, model: nn.Module) -> None:
    """Raise if what a peer predicts depends on padding or on what comes later: then it would learn something else."""
    source, target = torch.tensor([[7, 11, 13, 3]]), torch.tensor([[2, 5, 17]])
    logits = model.eval()(source, target)
    padded, longer = F.pad(source, (0, 2)), F.pad(target, (0, 2), value=19)
    if not torch.allclose(model(padded, longer)[:, :3], logits, atol=1e-4):
        raise AssertionError(f"{name} sees padding or the future: its masks are not passed as it wants them.")


@contextmanager
def contestants(corpus: Corpus, steps: int) -> Iterator[tuple[list[Contestant], list[str]]]:
    """All contestants, and notes on the differences between their numbers of weights."""
    with our_trainer(corpus, corpus.config.training.precision) as default, our_trainer(corpus, "float32") as plain:
        ours = weights(default.model)
        all_contestants, notes = [our_contestant(default, steps, "")], []
        if default.executor.precision != plain.executor.precision:
            all_contestants.append(our_contestant(plain, steps, " float32"))
        for peer in peers(default.model.config):
            all_contestants.append(peer_contestant(peer, corpus, steps, ours))
            differences = ", ".join(f"{reason} {number:+,}" for reason, number in peer.differences.items())
            notes.append(
                f"weights of {peer.name}: {differences}" if differences else f"weights of {peer.name}: as many as ours"
            )
        yield all_contestants, notes
