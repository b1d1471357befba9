"""Inspection of translations: how sure each word is, what could replace it, and what the model computes."""

import asyncio
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.errors import DragomanError, ResourceError
from dragoman.serving.limits import Refusal
from dragoman.serving.metrics import LOG
from dragoman.storage.adapter import adapter_path
from dragoman.storage.validate import file_state
from dragoman.system.helpers import Ask, HelperDied, Helpers, Job
from dragoman.system.optional import require
from dragoman.system.processes import Workers

MOST_REPLACEMENTS = 6
"""Words that are offered in place of one, at most."""
MOST_WAITING = 8
"""Questions that wait while one is answered; more are refused."""
BUSY = 2
"""Seconds after which a question that was refused may be asked again."""

T = TypeVar("T")
State = frozenset[tuple[str, int, int]]
"""State of the files of a model, which differs if a file was replaced."""


class InspectedSentence(NamedTuple):
    """A sentence of a text, with its translation and the words of that. Its fields are those of the answer in JSON."""

    source: str
    translation: str
    words: list[dict[str, Any]]
    """Fields of `WordProbability` for the words of the translation. All its other characters are spaces."""
    after: str
    """Spaces between this translation and the next one."""


class Replacement(NamedTuple):
    """A word that could replace another one in a translation. Its fields are those of the answer in JSON."""

    text: str
    probability: float
    """Probability of its first piece (subword) after the words before it."""
    translation: str
    """Translation of the whole sentence with this word."""


@dataclass(frozen=True)
class InspectedModel:
    """A model that can be inspected. Its weights are read again, in float32, when somebody first asks."""

    path: Path
    languages: tuple[str | None, str | None] = (None, None)
    """Codes of the languages, which a model for several pairs needs."""
    state: State | None = None
    """State of the files that the server translates with; by default, as they are now."""
    adapter: Path | None = None
    """The adapter that the server translates with."""
    decoding: DecodingConfig | None = None
    """The search of the server; by default that of the model."""

    def __post_init__(self) -> None:
        if self.state is None:
            object.__setattr__(self, "state", model_state(self.path, self.adapter))

    @property
    def model(self) -> Any:
        """The model. Raises `ModelChanged` if its files have changed since the server loaded them."""
        return _loaded(self.path, self.state, self.adapter).speaking(*self.languages)

    def words(self, sentence: str, translation: str) -> list[Any]:
        """The words of a translation, with their probabilities (`dragoman.report.WordProbability`)."""
        from dragoman.report import word_probabilities

        return word_probabilities(self.model, sentence, translation) if translation.strip() else []

    def likely_next(self, text: str, prefix: str) -> list[tuple[str, float]]:
        """The most likely continuations of `prefix`, the beginning of a translation, with their probabilities."""
        from dragoman.report import likely_next

        return likely_next(self.model, text, prefix, MOST_REPLACEMENTS)

    def page(self, text: str, target: str | None) -> str:
        """The HTML page that `dragoman inspect` writes."""
        from dragoman.report import inspect_translation, render_inspection

        model = replace(self.model, decoding=self.decoding) if self.decoding else self.model
        return render_inspection(inspect_translation(model, text, target=target))


class ModelChanged(ResourceError):
    """The files of a model have changed since the server loaded them."""


def model_state(path: Path, adapter: Path | None = None) -> State:
    """State of the files that make a model; others beside them, such as notes, may change."""
    files = {file for file in file_state(path) if file[0].endswith((".json", ".safetensors"))}
    if adapter:
        file = adapter_path(adapter)
        files |= {state for state in file_state(file.parent) if state[0] == file.name}
    return frozenset(files)


@cache
def _loaded(path: Path, state: State, adapter: Path | None) -> Any:
    """A model in torch for all of its languages. Raises `ModelChanged` if its files have another state."""
    from dragoman.storage.model_directory import ModelDirectory

    try:
        loaded = ModelDirectory.load(path, adapter=adapter, device="cpu")
    except (DragomanError, OSError) as error:
        LOG.error("A model cannot be loaded for inspection: %s", error)
        loaded = None
    if loaded is None or model_state(path, adapter) != state:
        raise ModelChanged(
            "The model's files have changed since the server started, so it cannot be looked into; start the server "
            "again."
        )
    return loaded


def replacements(probabilities: list[float], prefix: str, translations: list[Translation]) -> list[Replacement]:
    """The words after `prefix` in translations that begin with it, each once, in their order.

    `probabilities` are those of the pieces with which the translations continue the prefix.
    """
    by_word: dict[str, Replacement] = {}
    for probability, translation in zip(probabilities, translations, strict=True):
        if not translation.text.startswith(prefix):
            continue
        word = re.match(r"\s*(\S+)", translation.text[len(prefix) :])
        if word and word[1] not in by_word:
            by_word[word[1]] = Replacement(word[1], probability, translation.text)
    return list(by_word.values())[:MOST_REPLACEMENTS]


class InspectionWorker:
    """Answers questions about models, one after another, in a process of its own.

    Its computations would slow down the threads that translate if it shared their process, and torch, which it loads
    with the first question, would be in their memory. A process that dies, or takes too long, is replaced by another.
    """

    def __init__(self, models: Mapping[tuple[str, str], InspectedModel], *, fork: bool = sys.platform == "linux"):
        """Without `fork`, questions are answered in a thread of this process."""
        self.models = models
        self._waiting = 0
        """Questions that are not answered yet."""
        self._helpers = Helpers(_answer, fork=fork)
        self._workers = Workers(_run, 1, remedy="start the server again", threads=True)

    def start(self) -> None:
        """Fork the process that forks the one that answers, before there are threads and connections."""
        self._helpers.start()

    async def ask(self, pair: tuple[str, str], question: Callable[..., T], *arguments: str | None, seconds: float) -> T:
        """The result of `question`, a method of `InspectedModel`, for the model of a pair. Raises `Refusal`."""
        try:
            require("torch", extra="train", purpose="Looking into translations")
        except ResourceError as error:
            raise Refusal(501, str(error)) from None
        if self._waiting > MOST_WAITING:
            raise Refusal(503, "Too many look into translations; try again later", retry_after=BUSY)
        job = self._helpers.job()
        future = self._workers.submit(job, self.models[pair], question, *arguments)
        self._waiting += 1
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._count_answered))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:
            job.kill()
            raise Refusal(504, "This took too long; ask about a shorter text") from None
        except HelperDied:
            raise Refusal(503, "The process that looks into translations died; try again", retry_after=BUSY) from None
        except ResourceError as error:  # such as ModelChanged, or too many processes
            raise Refusal(503, str(error), retry_after=BUSY) from None
        except DragomanError as error:
            raise Refusal(400, str(error)) from None

    def _count_answered(self) -> None:
        self._waiting -= 1

    def close(self) -> None:
        """End the process, and answer no more questions."""
        self._helpers.close()
        self._workers.close()


def _run(job: Job, model: InspectedModel, question: Callable[..., T], *arguments: str | None) -> T:
    """In a thread of the server: run a job, and wait for its result."""
    return job.run(model, question, *arguments)


def _answer(ask: Ask, model: InspectedModel, question: Callable[..., T], *arguments: str | None) -> T:
    """In a process of its own: call a method of `InspectedModel`."""
    return question(model, *arguments)
