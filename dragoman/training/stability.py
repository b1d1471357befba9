"""Counts and reports what goes wrong in steps: losses that are not finite, batches that do not fit in memory.

A step whose loss or gradient is not finite changes nothing. After three in a row the weights themselves are
distrusted, and the run goes back to its last validation. The same steps would end there again, to the bit, so it goes
on with half the learning rate, which is what such losses mostly come from.
"""

from collections.abc import Iterator
from typing import Any

import torch

from dragoman.config.training import TrainingConfig
from dragoman.errors import DragomanError, ResourceError
from dragoman.system.device import machine
from dragoman.training.executors import GradientSum
from dragoman.training.progress import Progress

BAD_STEPS = 3
"""Bad steps in a row after which the run goes back."""
SLOWER = 0.5
"""Factor of the learning rate after going back."""
MOST_ROLL_BACKS = 3
"""Roll-backs without a better validation in between after which the run gives up."""
PATIENCE = 10
"""Steps after which a run gives up if no pair has fitted in memory."""


def count_move(progress: Progress, precision: torch.dtype, ranks: int = 1) -> Iterator[str]:
    """Keep what the run computes with; say so if a run that goes on does with something else."""
    each = f"{ranks} times {machine()}" if ranks > 1 else machine()
    here = f"{each}, {str(precision).removeprefix('torch.')} and torch {torch.__version__}"
    if progress.computed_with not in ("", here):
        yield (
            f"This run was computed with {progress.computed_with}, and goes on with {here}: its weights will not have "
            "the same bits as those of a run that is not interrupted."
        )
    progress.computed_with = here


def count_bad_step(progress: Progress) -> str:
    """Count a step whose loss or gradient is not finite, and say so."""
    progress.bad_steps += 1
    progress.skipped_steps += 1
    return (
        f"Step {progress.step:,} was skipped: its loss or its gradient is not a finite number "
        f"({progress.bad_steps} in a row; after {BAD_STEPS} the run goes back)."
    )


def after_roll_back(progress: Progress, config: TrainingConfig) -> dict[str, Any]:
    """Fields of `Progress` that going back does not reset. Raises `DragomanError` if the run went back too often."""
    if progress.roll_backs >= MOST_ROLL_BACKS:
        raise DragomanError(
            f"The loss at step {progress.step:,} is not a finite number, although the run went back "
            f"{MOST_ROLL_BACKS} times and on with a smaller learning rate; resume it with training.learning_rate="
            f"{config.learning_rate / 10:.1g}, or start again with that and a longer training.warmup."
        )
    kept = ("skipped_steps", "left_out", "too_large")
    return {name: getattr(progress, name) for name in kept} | {
        "roll_backs": progress.roll_backs + 1,
        "rate_factor": SLOWER * progress.rate_factor,
    }


def count_memory(
    progress: Progress, gradient: GradientSum, too_large: int | None, config: TrainingConfig
) -> Iterator[str]:
    """Count what did not fit in memory, and say so the first time, or when still less fits."""
    if too_large != progress.too_large:
        progress.too_large = too_large
        yield (
            f"A batch of {too_large:,} tokens does not fit in memory: it is halved, and so are others as "
            f"large from now on, which is slower; a smaller training.max_tokens than {config.max_tokens:,} avoids it."
        )
    if gradient.left_out:
        if not progress.left_out:
            yield (
                f"At step {progress.step:,} a pair was left out that does not fit in memory even alone, and more may "
                "be; a smaller data.max_length for a new run, or a smaller model, avoids it."
            )
        progress.left_out += gradient.left_out
        if not progress.tokens and progress.step >= PATIENCE:
            raise ResourceError(
                f"No pair of the first {progress.step} batches fits in memory; start again with a smaller --size or "
                "data.max_length."
            )


def account(progress: Progress) -> str | None:
    """One sentence on what went wrong in the whole run, or None."""
    steps, pairs = progress.skipped_steps, progress.left_out
    told = [f"{steps:,} step{'s' * (steps > 1)} skipped, whose loss was not finite"] * (steps > 0)
    told += [f"{pairs:,} pair{'s' * (pairs > 1)} left out, for which there was no memory"] * (pairs > 0)
    return f"In the whole run: {'; '.join(told)}." if told else None
