"""The registry of metrics. To add one, write a file in this folder and list its `METRIC` below.

Tables, JSON, curves, pages and the monitor of training go through the registry, in its order.
"""

from typing import Literal

from dragoman.metrics import bleu, chrf, comet, ter
from dragoman.metrics.tokens import LOSS, PERPLEXITY, TOKEN_ACCURACY

__all__ = [
    "LOSS", "MAIN", "METRICS", "PERPLEXITY", "SHOWN", "TESTED", "TEXT_METRICS", "TOKEN_ACCURACY", "VALIDATED",
    "VALIDATED_TEXT_METRICS", "Monitor",
]  # fmt: skip

MAIN = bleu.METRIC
"""The metric that is shown where there is room for one."""
METRICS = {
    metric.name: metric
    for metric in (LOSS, bleu.METRIC, chrf.METRIC, ter.METRIC, comet.METRIC, PERPLEXITY, TOKEN_ACCURACY)
}
Monitor = Literal["bleu", "chrf", "loss"]
"""Names of the metrics with a `validation_key`: values of `training.monitor`."""

SHOWN = [metric for metric in METRICS.values() if metric.tested or metric is comet.METRIC]
"""Metrics that a table has if they were computed."""
TESTED = [metric for metric in METRICS.values() if metric.tested]
TEXT_METRICS = [metric for metric in TESTED if metric.count]
VALIDATED = [metric for metric in METRICS.values() if metric.validation_key]
VALIDATED_TEXT_METRICS = [metric for metric in VALIDATED if metric.count]
