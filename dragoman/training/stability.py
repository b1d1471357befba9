"""Counts and reports what goes wrong in steps: losses that are not finite, batches that do not fit in memory.

A step whose loss or gradient is not finite changes nothing. After three in a row the weights themselves are
distrusted, and the run goes back to its last validation. The same steps would end there again, to the bit. So the run
continues with half the learning rate, because too high a rate is what such losses mostly come from.
"""

from typing import Any

import torch

from dragoman.config.training import TrainingConfig
from dragoman.errors import DragomanError, ResourceError
from dragoman.system.device import machine
from dragoman.training.executors import GradientSum
from dragoman.training.progress import Progress

BAD_STEPS = 3
"""Steps without a finite loss and gradient in a row after which the run goes back."""
ROLL_BACK_FACTOR = 0.5
"""Factor by which each roll-back lowers the learning rate."""
MOST_ROLL_BACKS = 3
"""Roll-backs without a better validation in between after which the run gives up."""
PATIENCE = 10
"""Steps after which a run gives up if no pair has fitted in memory."""


def remember_machine(progress: Progress, precision: torch.dtype, ranks: int = 1) -> list[str]:
    """Store what the run is computed with; returns a warning if that has changed since the run was interrupted."""
    machines = f"{ranks} times {machine()}" if ranks > 1 else machine()
    now = f"{machines}, {str(precision).removeprefix('torch.')} and torch {torch.__version__}"
    before, progress.computed_with = progress.computed_with, now
    if before in ("", now):
        return []
    return [
        f"This run was computed with {before}, and goes on with {now}: its weights will not have the same bits as "
        "those of a run that is not interrupted."
    ]


def count_bad_step(progress: Progress) -> str:
    """Count a step whose loss or gradient is not finite; returns the warning."""
    progress.bad_steps += 1
    progress.skipped_steps += 1
    return (
        f"Step {progress.step:,} was skipped: its loss or its gradient is not a finite number "
        f"({progress.bad_steps} in a row; after {BAD_STEPS} the run goes back)."
    )


def fields_after_roll_back(progress: Progress, config: TrainingConfig) -> dict[str, Any]:
    """Fields of `Progress` that differ from the checkpoint after a roll-back.

    Raises `DragomanError` if there were too many roll-backs already.
    """
    if progress.roll_backs >= MOST_ROLL_BACKS:
        raise DragomanError(
            f"The loss at step {progress.step:,} is not a finite number, although the run went back "
            f"{MOST_ROLL_BACKS} times and on with a smaller learning rate; resume it with training.learning_rate="
            f"{config.learning_rate / 10:.1g}, or start again with that and a longer training.warmup."
        )
    return {
        "skipped_steps": progress.skipped_steps,
        "left_out": progress.left_out,
        "too_large": progress.too_large,
        "roll_backs": progress.roll_backs + 1,
        "rate_factor": ROLL_BACK_FACTOR * progress.rate_factor,
    }


def count_memory_errors(
    progress: Progress, gradient: GradientSum, too_large: int | None, config: TrainingConfig
) -> list[str]:
    """Count what did not fit in memory in a step; returns warnings, the first time or when still less fits.

    `too_large` are the tokens of the smallest batch that did not fit. Raises `ResourceError` if nothing ever fits.
    """
    warnings = []
    if too_large != progress.too_large:
        progress.too_large = too_large
        warnings.append(
            f"A batch of {too_large:,} tokens does not fit in memory: it is halved, and so are others as "
            f"large from now on, which is slower; a smaller training.max_tokens than {config.max_tokens:,} avoids it."
        )
    if gradient.left_out:
        if not progress.left_out:
            warnings.append(
                f"At step {progress.step:,} a pair was left out that does not fit in memory even alone, and more may "
                "be; a smaller data.max_length for a new run, or a smaller model, avoids it."
            )
        progress.left_out += gradient.left_out
        if not progress.tokens and progress.step >= PATIENCE:
            raise ResourceError(
                f"No pair of the first {progress.step} batches fits in memory; start again with a smaller --size or "
                "data.max_length."
            )
    return warnings


def summary_of_troubles(progress: Progress) -> str | None:
    """One sentence on what went wrong in the whole run; None if nothing did."""
    steps, pairs = progress.skipped_steps, progress.left_out
    parts = []
    if steps:
        parts.append(f"{steps:,} step{'s' * (steps > 1)} skipped, whose loss was not finite")
    if pairs:
        parts.append(f"{pairs:,} pair{'s' * (pairs > 1)} left out, for which there was no memory")
    return f"In the whole run: {'; '.join(parts)}." if parts else None
