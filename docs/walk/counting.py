"""The small task of chapters 5, 6, 7, 9 and 10: numbers in words, from English to French, learned in seconds.

A language of some thirty words, and yet no translation word by word: 71 is "sixty and eleven" in French, 97 is "four
twenty seventeen". Hyphens are left out, for a word is a token here.
"""

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman import Transformer, TransformerConfig, Translator
from dragoman.config.training import TrainingConfig
from dragoman.data.batching import Position, TokenBatches, TokenStore
from dragoman.model.loss import LossOptions
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import PAD_ID, Tokenizer
from dragoman.training.averaging import MovingAverage, average_weights
from dragoman.training.loss import batch_loss
from dragoman.training.optimizer import build_optimizer
from dragoman.training.schedule import learning_rate

ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
).split()
FRENCH = "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize".split()
DIZAINES = "vingt trente quarante cinquante soixante".split()
LARGEST = 9999
SIZES = {"d_model": 32, "d_ff": 64, "num_heads": 4, "num_encoder_layers": 1, "num_decoder_layers": 1}
# With so few steps nothing is memorised, and a table that is also the projection would learn more slowly.
CHOICES = {"dropout": 0.0, "tie_projection": False}


def english(n: int) -> str:
    """A number in English words."""
    if n < 100:
        tens, unit = divmod(n, 10)
        return ENGLISH[n] if n < 20 else " ".join([ENGLISH[18 + tens], *([ENGLISH[unit]] if unit else [])])
    size, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    rest = n % size
    link = [] if not rest else ["and", english(rest)] if rest < 100 else [english(rest)]
    return " ".join([english(n // size), name, *link])


def french(n: int) -> str:
    """A number in French words."""
    if n < 17:
        return FRENCH[n]
    if n < 20:
        return f"dix {FRENCH[n - 10]}"
    if n < 100:
        base = 60 if 70 <= n < 80 else 80 if n >= 80 else n // 10 * 10
        tens = "quatre vingt" if base == 80 else DIZAINES[base // 10 - 2]
        link = " et " if n - base in (1, 11) and base < 80 else " "
        return f"{tens}{link}{french(n - base)}" if n > base else tens + "s" * (n == 80)
    size, name = (1000, "mille") if n >= 1000 else (100, "cent")
    count, rest = divmod(n, size)
    many = "s" if size == 100 and count > 1 and not rest else ""
    return " ".join([*([french(count)] if count > 1 else []), name + many, *([french(rest)] if rest else [])])


@dataclass(frozen=True)
class Task:
    """Numbers to learn from, 250 others to validate on, and 500 others to test on."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    train: TokenBatches
    valid: TokenBatches
    test: TokenBatches
    test_pairs: list[tuple[str, str]]


def counting(*, size: int = 2000, shared: bool = False) -> Task:
    """The task with `size` numbers to learn from, 2,000 or fewer; a vocabulary for each language, or one for both."""
    numbers = random.Random(1).sample(range(LARGEST + 1), 2750)
    pairs = [(english(n), french(n)) for n in numbers]
    train, test, valid = pairs[:2000], pairs[2000:2500], pairs[2500:]
    known = [*train, *test]  # every word is in each part
    sides = [[text for pair in known for text in pair]] * 2 if shared else list(zip(*known, strict=True))
    tokenizers = tuple(Tokenizer.train(texts, vocab_size=100, kind="word") for texts in sides)
    folder = Path(tempfile.mkdtemp())

    def batches(name: str, part: list[tuple[str, str]]) -> TokenBatches:
        paths = folder / f"{name}-source", folder / f"{name}-target"
        texts = zip(*part, strict=True)
        encoded = [tokenizer.encode_batch(side) for tokenizer, side in zip(tokenizers, texts, strict=True)]
        TokenStore.write(paths, zip(*encoded, strict=True))
        return TokenBatches(*map(TokenStore, paths), max_tokens=256, seed=1)

    parts = (batches(name, part) for name, part in (("train", train[:size]), ("valid", valid), ("test", test)))
    return Task(tokenizers, *parts, test)


def build(task: Task, *, seed: int = 1, **choices: Any) -> Transformer:
    """An untrained model, small unless `choices` say otherwise."""
    torch.manual_seed(seed)
    source, target = task.tokenizers
    vocabularies = {"source_vocab_size": source.vocab_size, "target_vocab_size": target.vocab_size}
    return Transformer(TransformerConfig(**(SIZES | CHOICES | vocabularies | choices)))


def train(model: Transformer, batches: TokenBatches, *, steps: int, **settings: Any) -> Iterator[dict[str, Any]]:
    """The events of a training, step by step; `settings` are those of the section `training`."""
    defaults = {"optimizer": "adam", "schedule": "inverse_sqrt", "learning_rate": 1e-2, "warmup": 30}
    config = TrainingConfig(**(defaults | {"max_steps": steps} | settings))
    optimizer, position = build_optimizer(model, config), Position()
    options = LossOptions(PAD_ID, config.label_smoothing, config.r_drop)
    for step in range(1, steps + 1):
        rate = learning_rate(step, config, last_step=steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss, tokens = batch_loss(model.train(), batches.next(position), options)
        (loss / tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield {"event": "step", "step": step, "loss": float(loss.detach() / tokens), "learning_rate": rate}


def averages(task: Task, *, seed: int = 1, **settings: Any) -> Iterator[tuple[str, Transformer]]:
    """A trained model as it is, with the moving average of its weights, and with the mean of its last snapshots."""
    model = build(task, seed=seed)
    snapshots, moving = [], MovingAverage(model, 0.99)
    for event in train(model, task.train, **settings):
        moving.update(model, event["step"])
        if event["step"] % 20 == 0:
            snapshots.append({name: weight.detach().clone() for name, weight in model.named_parameters()})
    yield "as it is", model
    with moving.applied(model):
        yield "moving average", model
    model.load_state_dict(average_weights(snapshots[-8:]), strict=False)
    yield "mean of the last 8", model


def solved(model: Transformer, task: Task, **options: Any) -> float:
    """The share of test numbers that are translated without a mistake."""
    sources, references = zip(*task.test_pairs, strict=True)
    found = Translator(ModelDirectory(model, *task.tokenizers)).translate(sources, **({"beam_size": 1} | options))
    return sum(each.text == reference for each, reference in zip(found, references, strict=True)) / len(references)
