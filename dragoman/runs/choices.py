"""What a run takes where recipe and settings leave it open: it follows from the pairs, the minutes and the machine.

docs/trials.md has the measurements behind the numbers here.
"""

import math
from dataclasses import dataclass

from dragoman.config.run import RunConfig
from dragoman.model.config import Size

FEW, MANY = 200_000, 2_000_000
TOKENS_PER_SECOND: dict[Size, int] = {"tiny": 8_000, "small": 3_500, "base": 900, "big": 300}
"""Source and target tokens that a core trains on; orders of magnitude, as nothing is measured yet."""
GPU_CORES = 100
"""Cores that a GPU is worth, likewise."""
TOKENS_PER_PAIR = 30
DROPOUT = ((5, 0.0), (40, 0.1), (150, 0.2), (math.inf, 0.3))
"""Highest number of epochs, and the dropout for it."""


@dataclass(frozen=True)
class Budget:
    """What there is to train with."""

    pairs: int
    minutes: float | None
    """None: as many as bring anything."""
    cores: int
    """Of the CPU."""
    gpu: bool

    def epochs(self, size: Size) -> float:
        """About how often each pair will be seen."""
        if self.minutes is None:
            return math.inf
        speed = TOKENS_PER_SECOND[size] * (GPU_CORES if self.gpu else self.cores)
        return 60 * self.minutes * speed / (TOKENS_PER_PAIR * self.pairs)

    def __str__(self) -> str:
        cores = "a GPU" if self.gpu else f"{self.cores} CPU core{'s' * (self.cores > 1)}"
        time = f"{self.minutes:g} minutes" if self.minutes else "no limit of time"
        return f"{self.pairs:,} pairs, {time}, {cores}"


def choose(config: RunConfig, budget: Budget) -> None:
    """Fill in what nobody has set, and say in `config.chosen` why."""
    if "size" not in config.model_fields_set:
        config.size = choose_size(budget)
    model = config.transformer(1000, 1000)
    if model.d_model // model.num_heads % 2 == 0:
        config.model.setdefault("positions", "rotary")  # they teach word order in far fewer steps
    config.tokenizer.vocab_size = config.tokenizer.vocab_size or choose_vocab_size(budget.pairs, config.tokenizer.kind)
    dropout = config.model.setdefault("dropout", choose_dropout(budget, config.size))
    training = config.training
    chosen = choose_training(training.optimizer, model.d_model)
    for name, value in chosen.items():
        if name not in training.model_fields_set:
            setattr(training, name, value)
    epochs = budget.epochs(config.size)
    how_often = "as many epochs as bring anything" if math.isinf(epochs) else f"about {epochs:,.2g} epochs"
    config.chosen = [
        f"For {budget}: size {config.size} ({model.num_encoder_layers} + {model.num_decoder_layers} layers of width "
        f"{model.d_model}), a vocabulary of at most {config.tokenizer.vocab_size:,}.",
        f"For {how_often}: dropout {dropout:g}, batches of {training.max_tokens:,} target tokens.",
        f"{training.optimizer.capitalize()} with a learning rate of {training.learning_rate:.2g}, "
        f"{SCHEDULES[training.schedule].format(decay=training.decay)}.",
    ]


SCHEDULES = {
    "wsd": "constant, and falling to 0 in the last {decay:.0%} of the steps",
    "constant": "constant",
    "plateau": "lowered when validations get no better",
    "inverse_sqrt": "falling with the root of the steps",
    "linear": "falling to 0",
    "cosine": "falling to 0",
}


def choose_size(budget: Budget) -> Size:
    """The largest size that this many pairs can fill, and this machine can train in the time."""
    if budget.pairs < FEW:
        return "tiny"
    if budget.pairs < MANY or not budget.gpu:
        return "small"
    return "base"


def choose_vocab_size(num_pairs: int, kind: str) -> int:
    """Fewer pairs show fewer words often enough to learn them; words that a vocabulary of words lacks are lost."""
    sizes = (20_000, 50_000, 50_000) if kind == "word" else (8_000, 16_000, 32_000)
    return sizes[(num_pairs >= FEW) + (num_pairs >= MANY)]


def choose_dropout(budget: Budget, size: Size) -> float:
    """More for pairs that are seen more often."""
    epochs = budget.epochs(size)
    return next(dropout for most, dropout in DROPOUT if epochs <= most)


def choose_training(optimizer: str, width: int) -> dict[str, float]:
    """Larger rates for small models: Adam's for the width 512 is the paper's, and four times as much suits Muon."""
    rate = 2e-3 * (128 / width) ** 0.75
    muon = {"learning_rate": 4 * rate, "warmup": 100}
    adam = {"learning_rate": rate, "warmup": 300 * max(1, width // 128)}
    return (muon if optimizer == "muon" else adam) | {"max_tokens": min(8192, 2048 * max(1, width // 128))}
