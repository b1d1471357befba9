"""Chooses the settings that recipe and user leave open, from the number of pairs, the minutes and the machine.

`DECISIONS` is the table. Names in italics in its reasons are those of the measurements in docs/trials.md. `choose`
makes the decisions by which pairs are prepared, and `choose_training` the others, for which the throughput may have to
be measured.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.config.run import RunConfig
from dragoman.config.settings import setting
from dragoman.config.training import ENDING
from dragoman.model.config import PRESETS, Size, TransformerConfig

FEWEST, FEW, MANY = 3_000, 200_000, 2_000_000
"""Numbers of pairs from which models and vocabularies are larger."""
SHARE_OF_STEPS = 0.9
"""Share of the minutes that are steps; the others are validations and the work after training (rough)."""
NIGHT = 600.0
"""Minutes that a run without a limit is expected to take."""
WEIGHTS: dict[Size, float] = {"tiny": 2.4e6, "small": 9e6, "base": 48e6, "big": 180e6}
"""Weights of a model of each size with an average vocabulary."""
FEW_TO_ADAPT, EPOCHS_TO_ADAPT = 1_000, 20
"""A model that is adapted to at most so many pairs is trained on them for so many epochs. More epochs teach it little,
and it forgets what it knew."""
GENTLE = 0.25
"""Share of the usual learning rate with which an imported pretrained model is adapted."""
LARGEST_BATCH = 8192
"""Most target tokens of a batch."""
MUON_DECAY = 0.1
"""Weight decay with Muon. The length of its steps does not grow with the weights, so large weights learn less."""
SELDOM, FEWEST_STEPS = 10, 400
"""Up to this `exposure`, pairs are seen so seldom that larger batches are worth more than more steps, if so many steps
are left."""
DROPOUT = ((SELDOM, 0.0), (80, 0.1), (300, 0.2), (math.inf, 0.3))
"""(highest `exposure`, dropout) pairs, in ascending order."""
EPOCHS_WITHOUT_DROPOUT = 5
"""Up to this many epochs a model does not overfit, so it needs no dropout."""
EPOCHS_WITHOUT_SMOOTHING = 3
"""Up to this many epochs label smoothing costs more than it brings."""
GUIDED = 0.1
"""Weight of the loss of guided alignment."""
TYPOS = 0.2
"""Share of the sources with typos."""
R_DROP = 3.0
"""Weight of R-Drop. A step with it takes 1.7 times as long."""
R_DROP_EPOCHS, R_DROP_STEPS, MANY_EPOCHS = 25, 6_500, 90
"""R-Drop pays off from `R_DROP_EPOCHS` with at least `R_DROP_STEPS`, or from `MANY_EPOCHS`."""
R_DROP_EXPOSURE = SELDOM, 100_000
"""R-Drop is for an `exposure` between these two. Above, nothing helps against overfitting."""


@dataclass(frozen=True)
class Resources:
    """Pairs and processors of a run."""

    pairs: int
    tokens: float
    """Approximate number of tokens of all pairs, both sides together."""
    cores: int
    """Number of CPU cores of all machines."""
    gpus: int
    """Number of GPUs of all machines."""
    throughput: float | None = None
    """Source and target tokens that all of them train on in a second; None: not measured."""
    spent: float = 0.0
    """Seconds of the run that have passed before its first step."""

    def __str__(self) -> str:
        if self.gpus:
            processors = "a GPU" if self.gpus == 1 else f"{self.gpus} GPUs"
        else:
            processors = f"{self.cores} CPU core{'s' * (self.cores > 1)}"
        return f"{self.pairs:,} pairs and {processors}"


@dataclass
class Situation:
    """A run whose settings are being filled in, and estimates that follow from the settings so far."""

    config: RunConfig
    resources: Resources
    base: TransformerConfig | None = None
    """Architecture of the model whose weights the run begins with, if there is one."""
    given: dict[str, Any] = field(init=False)
    """Settings of the recipe and the user, as a tree."""

    def __post_init__(self) -> None:
        self.given = self.config.model_dump(exclude_unset=True)

    @property
    def adapts(self) -> bool:
        """Whether the run adapts a base model with its vocabulary."""
        return self.config.finetune.adapts

    @property
    def architecture(self) -> TransformerConfig:
        """Architecture of the model by the settings so far. The sizes of its vocabularies are not known yet: 1000."""
        return self.config.transformer(1000, 1000)

    @property
    def width(self) -> int:
        """`d_model`, the length of each vector in the model."""
        return self.architecture.d_model

    @property
    def epochs(self) -> float:
        """About how often each pair will be seen."""
        training, resources = self.config.training, self.resources
        by_time = math.inf
        if resources.throughput is not None:
            seconds = 60 * (training.max_minutes or NIGHT) - resources.spent
            by_time = SHARE_OF_STEPS * max(0.0, seconds) * resources.throughput / resources.tokens
        steps = training.max_steps or math.inf
        # Steps count target tokens, which are half of all.
        by_steps = steps * training.accumulate * training.max_tokens / (resources.tokens / 2)
        return min(by_time, by_steps, training.max_epochs or math.inf)

    @property
    def steps(self) -> float:
        """About how many steps there will be."""
        training = self.config.training
        return self.epochs * self.resources.tokens / 2 / (training.max_tokens * training.accumulate)

    @property
    def exposure(self) -> float:
        """Epochs times weights per token of the pairs: how easily a model of this size memorises them."""
        return self.epochs * WEIGHTS[self.config.size] / self.resources.tokens


@dataclass(frozen=True)
class Decision:
    """A rule that fills in one setting if recipe and user leave it open."""

    setting: str
    """`section.key`; `size` has no section."""
    when: Callable[[Situation], bool]
    """Condition under which the rule applies."""
    value: Callable[[Situation], Any]
    reason: str
    """Reason for the choice, for people. "What follows" in docs/trials.md has the measurements behind it."""
    overrides: bool = False
    """Whether the rule applies also if recipe or user have set the setting."""
    is_early: bool = False
    """Whether it is made before pairs are prepared: because that depends on it, or the measuring of speed does."""


def choose(config: RunConfig, resources: Resources) -> None:
    """Fill in the settings by which pairs are prepared, if recipe and user leave them open, and describe the choice.

    The description is in `config.chosen`.
    """
    situation = Situation(config, resources)
    _decide(situation, [decision for decision in DECISIONS if decision.is_early])
    config.chosen = [_summary_of_model(situation)]


def choose_training(config: RunConfig, resources: Resources, architecture: TransformerConfig | None = None) -> None:
    """Fill in all other settings that are left open, and add two lines on them to `config.chosen`.

    `resources` have a throughput if `needs_throughput`. `architecture` is that of the base model, if there is one.
    """
    situation = Situation(config, resources, architecture)
    _decide(situation, [decision for decision in DECISIONS if not decision.is_early])
    config.chosen += _summary_of_training(situation)


def needs_throughput(config: RunConfig) -> bool:
    """Whether time limits how often the pairs will be seen, and settings are open that follow from it."""
    training = config.training
    is_limited_by_time = bool(training.max_minutes) or not (training.max_steps or training.max_epochs)
    given = config.model_dump(exclude_unset=True)
    return is_limited_by_time and any(setting(given, name) is None for name in BY_EPOCHS)


def usual_batch(config: RunConfig) -> int:
    """Target tokens of a batch of this model, unless its pairs are seen seldom."""
    if "max_tokens" in config.training.model_fields_set:
        return config.training.max_tokens
    return _batch_of_width(config.transformer(1000, 1000).d_model)


def _batch_of_width(width: int) -> int:
    return min(LARGEST_BATCH, 2048 * max(1, width // 128))


def _decide(situation: Situation, decisions: Sequence[Decision]) -> None:
    for decision in decisions:
        is_open = decision.overrides or setting(situation.given, decision.setting) is None
        if is_open and decision.when(situation):
            _set(situation.config, decision.setting, decision.value(situation))


def _set(config: RunConfig, path: str, value: Any) -> None:
    section, _, key = path.rpartition(".")
    if section == "model":
        config.model[key] = value
    else:
        setattr(getattr(config, section) if section else config, key, value)


def _always(situation: Situation) -> bool:
    return True


def _is_new(situation: Situation) -> bool:
    return not situation.adapts


def choose_size(resources: Resources) -> Size:
    """The largest size that this many pairs can fill, and that this machine can train."""
    if resources.pairs < FEW:
        return "tiny"
    if resources.pairs < MANY or not resources.gpus:
        return "small"
    return "base"


def _closest_size(situation: Situation) -> Size:
    """The size whose width is closest to that of the model, as a ratio."""
    return min(PRESETS, key=lambda size: abs(math.log(PRESETS[size]["d_model"] / situation.width)))


def _can_be_rotary(situation: Situation) -> bool:
    """Whether the model is new, its heads have an even width, and its decoder adds no positions that are not rotary."""
    model = situation.architecture
    has_networks = model.decoder_feed_forward == "network"
    return not situation.adapts and has_networks and model.d_model // model.num_heads % 2 == 0


def _can_be_aligned(situation: Situation) -> bool:
    """Whether pairs have the same tokens in each epoch, and the model is new or adapted to many pairs and was guided.

    Statistics of a few pairs, and of characters, say less than a head that knows others, or that was never taught.
    """
    config = situation.config
    if situation.adapts and not (situation.architecture.guided_head and situation.resources.pairs >= FEWEST):
        return False
    return not config.tokenizer.samples and not config.training.joined and config.tokenizer.kind != "char"


def _reads_typos(situation: Situation) -> bool:
    """Whether the model is new, its tokens spell words that were never seen, always the same, and pairs are enough.

    With millions of pairs, misspelling them would take minutes of each epoch.
    """
    tokenizer = situation.config.tokenizer
    spells = tokenizer.kind != "word" and not tokenizer.samples
    return not situation.adapts and spells and FEWEST <= situation.resources.pairs < MANY


def _vocab_size(situation: Situation) -> int:
    kind, pairs = situation.config.tokenizer.kind, situation.resources.pairs
    sizes = (20_000, 20_000, 50_000, 50_000) if kind == "word" else (2_000, 8_000, 16_000, 32_000)
    return sizes[bisect_right((FEWEST, FEW, MANY), pairs)]


def _is_adapted_to_few(situation: Situation) -> bool:
    training, finetune = situation.config.training, situation.config.finetune
    is_limited = bool(training.max_steps or training.max_epochs)
    return situation.adapts and not finetune.mix and not is_limited and situation.resources.pairs <= FEW_TO_ADAPT


def _sees_pairs_seldom(situation: Situation) -> bool:
    if situation.config.training.max_steps:
        return False
    return situation.exposure <= SELDOM and situation.steps >= 2 * FEWEST_STEPS


def _warmup(situation: Situation) -> int:
    is_quick = _uses_muon(situation) or situation.config.finetune.lora
    usual = 100 if is_quick else 300 * max(1, situation.width // 128)
    if situation.config.training.schedule in ENDING:  # whose end must not come sooner
        return max(1, min(usual, int(situation.steps / 4)))
    return usual


def _uses_muon(situation: Situation) -> bool:
    return situation.config.training.optimizer == "muon" and not situation.config.finetune.lora


def _learning_rate(situation: Situation) -> float:
    is_faster = _uses_muon(situation) or situation.config.finetune.lora > 0
    rate = 2e-3 * (128 / situation.width) ** 0.75 * (4 if is_faster else 1)
    if situation.base and situation.base.is_pretrained:  # on far more pairs than ours
        rate *= GENTLE
    if setting(situation.given, "training.max_tokens") is None:
        rate *= math.sqrt(situation.config.training.max_tokens / _batch_of_width(situation.width))
    return rate


def _r_drop_pays_off(situation: Situation) -> bool:
    if "dropout" in situation.config.model:
        return False
    epochs = situation.epochs
    is_long = epochs >= MANY_EPOCHS or (epochs >= R_DROP_EPOCHS and situation.steps >= R_DROP_STEPS)
    lowest, highest = R_DROP_EXPOSURE
    return is_long and lowest < situation.exposure <= highest


def _chose_r_drop_by_minutes(situation: Situation) -> bool:
    """Whether a run that minutes limit has R-Drop, and nobody has asked for it."""
    training = situation.config.training
    return training.r_drop > 0 and bool(training.max_minutes) and setting(situation.given, "training.r_drop") is None


def _dropout(situation: Situation) -> float:
    exposure = situation.exposure
    rate = 0.0
    if situation.epochs > EPOCHS_WITHOUT_DROPOUT:
        rate = next(dropout for highest, dropout in DROPOUT if exposure <= highest)
    # Without dropout, both predictions of R-Drop would be the same.
    return max(rate, 0.1 if situation.config.training.r_drop else 0.0)


DECISIONS = (
    Decision(
        "size",
        when=lambda situation: situation.config.finetune.model is None,
        value=lambda situation: choose_size(situation.resources),
        reason="The largest that so many pairs can fill and this machine can train; wider models learn less in the "
        "same minutes (*A wider model*).",
        is_early=True,
    ),
    Decision(
        "size",
        when=lambda situation: situation.config.finetune.model is not None,
        value=_closest_size,
        reason="That of the model whose weights the run begins with.",
        overrides=True,
        is_early=True,
    ),
    Decision(
        "model.positions",
        when=_can_be_rotary,
        value=lambda _: "rotary",
        reason="They teach the order of words in far fewer steps, 2.5 BLEU or more (*Rotary positions*).",
        is_early=True,
    ),
    Decision(
        "tokenizer.vocab_size",
        when=_is_new,
        value=_vocab_size,
        reason="Fewer pairs show fewer words often enough; a vocabulary of words lacks what it does not have (*The "
        "vocabulary*).",
        is_early=True,
    ),
    Decision(
        "training.guided_alignment",
        when=_can_be_aligned,
        value=lambda _: GUIDED,
        reason="One head in the place that statistics say puts tags and terms to their words, and costs no score "
        "(*Guided alignment*).",
        is_early=True,
    ),
    Decision(
        "training.max_epochs",
        when=_is_adapted_to_few,
        value=lambda _: EPOCHS_TO_ADAPT,
        reason="More epochs on so few pairs teach little, and what the model knew is forgotten (*Adapting to very few "
        "pairs*).",
        is_early=True,
    ),
    Decision(
        "training.max_tokens",
        when=_always,
        value=lambda situation: usual_batch(situation.config),
        reason="Larger batches for larger models.",
    ),
    Decision(
        "training.max_tokens",
        when=_sees_pairs_seldom,
        value=lambda situation: min(LARGEST_BATCH, 2 * _batch_of_width(situation.width)),
        reason="New pairs are worth more than more steps where each is seen seldom (*Batches of 4,096 target tokens*).",
    ),
    Decision(
        "training.warmup",
        when=_always,
        value=_warmup,
        reason="Muon needs few steps; Adam needs more for wider models.",
    ),
    Decision(
        "training.weight_decay",
        when=lambda situation: _is_new(situation) and _uses_muon(situation),
        value=lambda _: MUON_DECAY,
        reason="Up to 1.3 BLEU for no time at all; a model that is adapted would forget what it knows (*Weight "
        "decay*).",
    ),
    Decision(
        "training.learning_rate",
        when=_always,
        value=_learning_rate,
        reason="Smaller for wider models: Adam's for the width 512 is the paper's, and four times as much suits Muon "
        "and LoRA. Larger with larger batches. A quarter for pretrained models of others (*Adapting a model*).",
    ),
    Decision(
        "training.typos",
        when=_reads_typos,
        value=lambda _: TYPOS,
        reason="Half of what typos cost, for less than half of an interval where there are none (*Typos*).",
    ),
    Decision(
        "training.r_drop",
        when=_r_drop_pays_off,
        value=lambda _: R_DROP,
        reason="Worth its time where pairs are seen often, in enough steps or very often (*R-Drop*).",
    ),
    Decision(
        "training.r_drop_epochs",
        when=_chose_r_drop_by_minutes,
        value=lambda _: R_DROP_EPOCHS,
        reason="In fewer epochs it costs more than it brings, as in a run that turns out slower than measured "
        "(*R-Drop*).",
    ),
    Decision(
        "model.dropout",
        when=_always,
        value=_dropout,
        reason="More for pairs that are seen more often, and for fewer of them, which a model can memorise sooner "
        "(*Dropout*).",
    ),
    Decision(
        "training.label_smoothing",
        when=lambda situation: situation.epochs <= EPOCHS_WITHOUT_SMOOTHING,
        value=lambda _: 0.0,
        reason="It costs a point of BLEU where pairs are seen twice, and brings one where they are seen seven times "
        "(*Label smoothing*).",
    ),
)
"""Decisions in the order in which they are made: a later one sees what earlier ones have filled in."""
BY_EPOCHS = "training.max_tokens", "training.r_drop", "model.dropout", "training.label_smoothing"
"""Settings that follow from how often the pairs will be seen."""
SCHEDULE_WORDS = {
    "wsd": "constant, and falling to 0 in the last {decay:.0%} of the steps",
    "constant": "constant",
    "plateau": "lowered when validations get no better",
    "inverse_sqrt": "falling with the root of the steps",
    "linear": "falling to 0",
    "cosine": "falling to 0",
}
"""Course of the learning rate by `training.schedule`, in words."""


def _summary_of_model(situation: Situation) -> str:
    """A line on the architecture, and what it follows from."""
    config, model = situation.config, situation.architecture
    layers = f"({model.num_encoder_layers} + {model.num_decoder_layers} layers of width {model.d_model})"
    vocabulary = f"a vocabulary of at most {config.tokenizer.vocab_size or 0:,}"
    if config.finetune.model:
        kept = "the layers and the vocabulary" if config.finetune.adapts else f"{vocabulary} and the layers"
        architecture = f"{kept} of {Path(config.finetune.model).name} {layers}"
    else:
        architecture = f"size {config.size} {layers}, {vocabulary}"
    return f"For {situation.resources}: {architecture}."


def _summary_of_training(situation: Situation) -> list[str]:
    """Two lines on how often the pairs will be seen, and on what follows from that."""
    training, throughput = situation.config.training, situation.resources.throughput
    limits = {"minutes": training.max_minutes, "steps": training.max_steps, "epochs": training.max_epochs}
    length = " and ".join(f"{limit:,g} {unit}" for unit, limit in limits.items() if limit) or "a night"
    pace = f" at {float(f'{throughput:.2g}'):,.0f} tokens a second" if throughput else ""
    # Two digits, as it is an estimate.
    epochs = f", about {float(f'{situation.epochs:.2g}'):,g} epochs" if math.isfinite(situation.epochs) else ""
    r_drop = f"R-Drop {training.r_drop:g}, " if training.r_drop else ""
    typos = f"typos in {training.typos:.0%} of the sources, " if training.typos else ""
    fuzzy = f"similar translations behind {training.fuzzy:.0%} of the sources, " if training.fuzzy else ""
    terms = f"terms behind {training.terms:.0%} of the sources, " if training.terms else ""
    lora = situation.config.finetune.lora
    optimizer = f"LoRA of rank {lora}" if lora else training.optimizer.capitalize()
    return [
        f"For {length}{pace}{epochs}: dropout {situation.architecture.dropout:g}, "
        f"{r_drop}label smoothing {training.label_smoothing:g}, {typos}{fuzzy}{terms}"
        f"batches of {training.max_tokens:,} target tokens.",
        f"{optimizer} with a learning rate of {training.learning_rate:.2g}, "
        f"{SCHEDULE_WORDS[training.schedule].format(decay=training.decay)}.",
    ]
