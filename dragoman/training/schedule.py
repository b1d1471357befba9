"""Learning-rate schedules by name.

A schedule that falls to 0 has to know the end of the run. `wsd` (warmup-stable-decay, Hu et al. 2024, 2404.06395) need
not know it before its decay begins: until then all runs are the same, however long they will be.

A new schedule needs a name in `TrainingConfig.schedule`, a case in `learning_rate`, and words in
`dragoman.runs.choices.SCHEDULE_WORDS`. One that has to know the end of the run is in `ENDING`, too.
"""

import math

from dragoman.config.training import ENDING, TrainingConfig


def learning_rate(
    step: int, config: TrainingConfig, last_step: int | None = None, *, decay_from: int | None = None
) -> float:
    """The learning rate of optimizer step `step`, counted from 1.

    It rises linearly to `config.learning_rate` at step `config.warmup`, and then follows `config.schedule`. `cosine`
    and `linear` reach 0 at the step after `last_step`. `wsd` is constant if there is no `last_step`; else it falls to 0
    from `decay_from` on, by default over the last share `config.decay` of the steps.
    """
    share = 1.0  # `constant`, and `plateau`, which the trainer lowers when validations get no better
    if config.schedule == "inverse_sqrt":
        share = math.sqrt(config.warmup / step)  # equation 3 of the paper up to its constant
    elif config.schedule in ENDING:
        assert last_step is not None, "schedules that end know their last step"
        covered = _covered(step, config.warmup, last_step)
        share = 1 - covered if config.schedule == "linear" else (1 + math.cos(math.pi * covered)) / 2
    elif config.schedule == "wsd" and last_step is not None:
        start = max(config.warmup, math.ceil(last_step * (1 - config.decay))) if decay_from is None else decay_from
        share = 1 - _covered(step, start, last_step)
    return config.learning_rate * min(step / config.warmup, share)


def _covered(step: int, start: int, last_step: int) -> float:
    """Share of the way from `start` to the step after the last one, from 0 to 1."""
    return min(max(step - start, 0) / max(1, last_step + 1 - start), 1.0)
