"""Counters of a server for Prometheus, and its log. Neither holds anything about clients or their texts."""

import logging
import traceback

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dragoman.serving.queue import TranslationQueue

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds of the histogram of response times."""

LOG = logging.getLogger("dragoman.serving")


def log_failure(error: BaseException) -> None:
    """Log the type of an error and its traceback, without its message, which may hold what a client sent."""
    where = "".join(traceback.format_tb(error.__traceback__))
    LOG.error("A request failed: %s\n%s", type(error).__name__, where)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["route", "status"]
        self.requests = Counter("dragoman_requests", "Requests answered.", labels, registry=self.registry)
        self.seconds = Histogram(
            "dragoman_request_seconds", "Seconds from request to answer.", ["route"], buckets=SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.characters = Counter(
            "dragoman_characters", "Characters translated.", ["source", "target"], registry=self.registry
        )
        self.waiting = Gauge("dragoman_waiting_tokens", "Tokens that wait, about.", registry=self.registry)
        self.batches = Gauge("dragoman_batches", "Batches translated.", registry=self.registry)
        self.sentences = Gauge("dragoman_batched_texts", "Texts translated in them.", registry=self.registry)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer to a request of a route."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self, queue: TranslationQueue) -> bytes:
        """All counters in the text format of Prometheus, including those of a queue."""
        self.waiting.set(queue.tokens)
        self.batches.set(queue.batches)
        self.sentences.set(queue.translated)
        return generate_latest(self.registry)
