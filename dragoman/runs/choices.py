"""What a run takes where recipe and settings leave it open: it follows from the pairs, the minutes and the machine.

docs/trials.md has the measurements behind the settings; speeds here are rough.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from dragoman.config.run import RunConfig
from dragoman.model.config import PRESETS, Size, TransformerConfig

FEWEST, FEW, MANY = 3_000, 200_000, 2_000_000
TOKENS_PER_SECOND: dict[Size, int] = {"tiny": 8_000, "small": 3_500, "base": 900, "big": 300}
"""Source and target tokens that a core trains on; orders of magnitude, as nothing is measured yet."""
GENTLE = 0.25
"""Learning rate of a run that goes on from a pretrained model of others, as a multiple of that of a new one."""
FEW_TO_ADAPT, EPOCHS_TO_ADAPT = 1_000, 20
"""Pairs that a model is adapted to and soon knows by heart, and how often it sees them, lest it forgets the others."""
GPU_CORES = 100
"""Cores that a GPU is worth, likewise."""
NIGHT = 600.0
"""Minutes that a run without any limit is expected to take."""
WEIGHTS: dict[Size, float] = {"tiny": 2.4e6, "small": 9e6, "base": 48e6, "big": 180e6}
"""Weights of a model of each size with an average vocabulary."""
DROPOUT = ((10, 0.0), (80, 0.1), (300, 0.2), (math.inf, 0.3))
"""Highest number of epochs, times the weights for each token of the pairs, and the dropout for it."""
LARGEST_BATCH = 8192
FEW_EPOCHS = 5
"""Up to this many epochs a model does not overfit, so it needs no dropout."""
R_DROP, R_DROP_EPOCHS, R_DROP_STEPS, MANY_EPOCHS = 3.0, 25, 6_500, 90
"""Weight of R-Drop, which leaves time for six in ten steps, and what it pays for: epochs and steps, or many epochs."""
R_DROP_BY_HEART = 10, 100_000
"""Bounds of the epochs, times the weights for each token: above, nothing helps against learning by heart."""
MUON_DECAY = 0.1
"""Weight decay of new models with Muon, whose steps have a length of their own: weights that grew would learn less."""
FEWEST_EPOCHS = 3
"""Up to this many epochs label smoothing costs more than it brings."""


@dataclass(frozen=True)
class Resources:
    """What there is to train with."""

    pairs: int
    tokens: float
    """About how many they have, both sides together."""
    cores: int
    """Number of CPU cores, of all machines."""
    gpu: int
    """Number of GPUs, of all ranks."""

    def __str__(self) -> str:
        gpus = "a GPU" if self.gpu == 1 else f"{self.gpu} GPUs"
        cores = gpus if self.gpu else f"{self.cores} CPU core{'s' * (self.cores > 1)}"
        return f"{self.pairs:,} pairs and {cores}"


def choose(config: RunConfig, resources: Resources, architecture: TransformerConfig | None = None) -> None:
    """Fill in what nobody has set, and say in `config.chosen` why.

    `architecture` is that of the model that the run goes on from. Those of others have seen far more than ours.
    """
    base = config.finetune.model
    if "size" not in config.model_fields_set and not base:
        config.size = choose_size(resources)
    model = config.transformer(1000, 1000)
    if base:
        config.size = min(PRESETS, key=lambda size: abs(math.log(PRESETS[size]["d_model"] / model.d_model)))
    if model.d_model // model.num_heads % 2 == 0 and not base:
        config.model.setdefault("positions", "rotary")  # they teach word order in far fewer steps
    tokenizer, training = config.tokenizer, config.training
    if not base:
        tokenizer.vocab_size = tokenizer.vocab_size or choose_vocab_size(resources.pairs, tokenizer.kind)
    chosen = choose_training(training.optimizer, model.d_model)
    chosen["learning_rate"] *= GENTLE if architecture and architecture.is_pretrained else 1
    if base:
        chosen.pop("weight_decay", None)  # it would forget what the model knows
    chosen = {name: value for name, value in chosen.items() if name not in training.model_fields_set}
    for name, value in chosen.items():
        setattr(training, name, value)
    ends = bool(training.max_steps or training.max_epochs)
    if base and not config.finetune.mix and not ends and resources.pairs <= FEW_TO_ADAPT:
        training.max_epochs = EPOCHS_TO_ADAPT
    epochs = expected_epochs(config, resources)
    by_heart = epochs * WEIGHTS[config.size] / resources.tokens
    if by_heart <= DROPOUT[0][0] and not training.max_steps and "max_tokens" in chosen:
        # New pairs are worth more than more steps.
        training.max_tokens = min(LARGEST_BATCH, 2 * training.max_tokens)
        if "learning_rate" in chosen:
            training.learning_rate *= math.sqrt(training.max_tokens / chosen["max_tokens"])
    if "r_drop" not in training.model_fields_set and "dropout" not in config.model:
        steps = epochs * resources.tokens / 2 / (training.max_tokens * training.accumulate)
        training.r_drop = choose_r_drop(epochs, by_heart, steps)
    # Without dropout, both predictions of R-Drop would be the same.
    config.model.setdefault("dropout", max(choose_dropout(epochs, by_heart), 0.1 if training.r_drop else 0.0))
    if epochs <= FEWEST_EPOCHS and "label_smoothing" not in training.model_fields_set:
        training.label_smoothing = 0.0
    config.chosen = _told(config, resources, epochs)


def _told(config: RunConfig, resources: Resources, epochs: float) -> list[str]:
    """What was chosen, and from what, in three lines."""
    base, training, model = config.finetune.model, config.training, config.transformer(1000, 1000)
    limits = {"minutes": training.max_minutes, "steps": training.max_steps, "epochs": training.max_epochs}
    given = " and ".join(f"{limit:,g} {name}" for name, limit in limits.items() if limit)
    layers = f"({model.num_encoder_layers} + {model.num_decoder_layers} layers of width {model.d_model})"
    what = f"size {config.size} {layers}, a vocabulary of at most {config.tokenizer.vocab_size or 0:,}"
    r_drop = f"R-Drop {training.r_drop:g}, " if training.r_drop else ""
    return [
        f"For {resources}: {f'the layers and the vocabulary of {Path(base).name} {layers}' if base else what}.",
        f"For {given or 'a night'}, about {float(f'{epochs:.2g}'):,g} epochs: dropout {config.model['dropout']:g}, "
        f"{r_drop}label smoothing {training.label_smoothing:g}, batches of {training.max_tokens:,} target tokens.",
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


def choose_size(resources: Resources) -> Size:
    """The largest size that this many pairs can fill, and that this machine can train."""
    if resources.pairs < FEW:
        return "tiny"
    if resources.pairs < MANY or not resources.gpu:
        return "small"
    return "base"


def choose_vocab_size(num_pairs: int, kind: str) -> int:
    """The size for this many pairs: fewer show fewer words often enough; what a vocabulary of words lacks is lost."""
    sizes = (20_000, 20_000, 50_000, 50_000) if kind == "word" else (2_000, 8_000, 16_000, 32_000)
    return sizes[sum(num_pairs >= each for each in (FEWEST, FEW, MANY))]


def expected_epochs(config: RunConfig, resources: Resources) -> float:
    """About how often each pair will be seen."""
    training = config.training
    speed = TOKENS_PER_SECOND[config.size] * (GPU_CORES * resources.gpu or resources.cores)
    by_time = 60 * (training.max_minutes or NIGHT) * speed / resources.tokens
    steps = training.max_steps or math.inf
    by_steps = steps * training.accumulate * training.max_tokens / (resources.tokens / 2)  # they count target tokens
    return min(by_time, by_steps, training.max_epochs or math.inf)


def choose_dropout(epochs: float, by_heart: float) -> float:
    """More for pairs that are seen more often, and for fewer of them, which a model can learn by heart sooner."""
    if epochs <= FEW_EPOCHS:
        return 0.0
    return next(dropout for most, dropout in DROPOUT if by_heart <= most)


def choose_r_drop(epochs: float, by_heart: float, steps: float) -> float:
    """For pairs that are seen often, in enough steps or very often. It needs dropout, with which predictions differ."""
    often = epochs >= MANY_EPOCHS or (epochs >= R_DROP_EPOCHS and steps >= R_DROP_STEPS)
    return R_DROP if often and R_DROP_BY_HEART[0] < by_heart <= R_DROP_BY_HEART[1] else 0.0


def choose_training(optimizer: str, width: int) -> dict[str, float]:
    """Larger rates for small models: Adam's for the width 512 is the paper's, and four times as much suits Muon."""
    rate = 2e-3 * (128 / width) ** 0.75
    muon = {"learning_rate": 4 * rate, "warmup": 100, "weight_decay": MUON_DECAY}
    adam = {"learning_rate": rate, "warmup": 300 * max(1, width // 128)}
    return (muon if optimizer == "muon" else adam) | {"max_tokens": min(LARGEST_BATCH, 2048 * max(1, width // 128))}
