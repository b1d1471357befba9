"""The registry of metrics: a new one is a file of this folder and its name below.

Tables, JSON, curves, pages and the monitor of a training loop over it, in its order.
"""

from typing import Literal

from dragoman.metrics import bleu, chrf, ter
from dragoman.metrics.tokens import LOSS, PERPLEXITY, TOKEN_ACCURACY

__all__ = [
    "LOSS", "MAIN", "METRICS", "PERPLEXITY", "TESTED", "TEXT_METRICS", "TOKEN_ACCURACY", "VALIDATED",
    "VALIDATED_TEXT_METRICS", "Monitor",
]  # fmt: skip

MAIN = bleu.METRIC
"""The metric that is shown where there is room for one."""
METRICS = {each.name: each for each in (LOSS, bleu.METRIC, chrf.METRIC, ter.METRIC, PERPLEXITY, TOKEN_ACCURACY)}
Monitor = Literal["bleu", "chrf", "loss"]
"""Names of the metrics with a `validation_key`: values of `training.monitor`."""

TESTED = [each for each in METRICS.values() if each.tested]
TEXT_METRICS = [each for each in TESTED if each.compute]
VALIDATED = [each for each in METRICS.values() if each.validation_key]
VALIDATED_TEXT_METRICS = [each for each in VALIDATED if each.compute]
