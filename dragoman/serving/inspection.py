"""Looking into translations: how sure each word is, what could stand in its place, and everything inside."""

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.decoding.translation import Translation
from dragoman.errors import DragomanError, ResourceError
from dragoman.report import WordProbability, inspect_translation, likely_next, render_inspection, word_probabilities
from dragoman.serving.limits import Refusal
from dragoman.serving.metrics import LOG
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import file_state
from dragoman.system.helpers import Ask, HelperDied, Helpers, Job
from dragoman.system.processes import Workers

OTHERS = 6
"""Words that could stand in place of one, at most."""
MOST_WAITING = 8
"""Questions that wait while one is answered; more are refused."""
BUSY = 2
"""Seconds after which these may ask again."""


class InspectedSentence(NamedTuple):
    """A part of a text, and its translation."""

    source: str
    translation: str
    words: list[WordProbability]
    """The words of the translation; all its other characters are spaces."""
    after: str
    """What stands between this translation and the next one."""


class Other(NamedTuple):
    """A word in place of another."""

    text: str
    probability: float
    """Probability of its first piece, after what stands before it."""
    translation: str
    """How the sentence goes on with it."""


@dataclass(frozen=True)
class InspectedModel:
    """The inside of one model, whose weights are read again, in float32, when somebody first asks."""

    path: Path
    languages: tuple[str | None, str | None] = (None, None)
    state: "State | None" = None
    """State of the files that the server translates with; by default, as they are now."""

    def __post_init__(self) -> None:
        if self.state is None:
            object.__setattr__(self, "state", model_state(self.path))

    @property
    def model(self) -> ModelDirectory:
        """The model. Raises `ModelChanged` if it is not the one any more that the server translates with."""
        return _loaded(self.path, self.state).speaking(*self.languages)

    def words(self, sentence: str, translation: str) -> list[WordProbability]:
        """How sure the model is of each word of a translation."""
        return word_probabilities(self.model, sentence, translation) if translation.strip() else []

    def likely_next(self, text: str, prefix: str) -> list[tuple[str, float]]:
        """Ways to go on from the beginning of a translation."""
        return likely_next(self.model, text, prefix, OTHERS)

    def page(self, text: str, target: str | None) -> str:
        """The page of `dragoman inspect`."""
        return render_inspection(inspect_translation(self.model, text, target=target))


class ModelChanged(ResourceError):
    """The files of a model are not those any more that the server translates with."""


State = frozenset[tuple[str, int, int]]


def model_state(path: Path) -> State:
    """What changes when a model is replaced by another one; notes beside it may change."""
    return frozenset(file for file in file_state(path) if file[0].endswith((".json", ".safetensors")))


@cache
def _loaded(path: Path, state: State) -> ModelDirectory:
    """A model for all of its languages. Raises `ModelChanged`."""
    try:
        loaded = ModelDirectory.load(path, device="cpu")
    except (DragomanError, OSError) as error:
        LOG.error("A model cannot be loaded to be looked into: %s", error)
        loaded = None
    if loaded is None or model_state(path) != state:
        raise ModelChanged(
            "The model's files have changed since the server started, so it cannot be looked into; start the server "
            "again."
        )
    return loaded


def others(begun: list[tuple[str, float]], prefix: str, translations: list[Translation]) -> list[Other]:
    """The words after a prefix with which translations go on, each once; `begun` is what was asked of each."""
    words: dict[str, Other] = {}
    for (_, probability), translation in zip(begun, translations, strict=True):
        rest = translation.text[len(prefix) :] if translation.text.startswith(prefix) else ""
        word = re.match(r"\s*(\S+)", rest)
        if word and word[1] not in words:
            words[word[1]] = Other(word[1], probability, translation.text)
    return list(words.values())[:OTHERS]


class InspectionWorker:
    """Answers questions about the insides of models, one after another, in a process of its own.

    In a thread it would share its number of threads, and thereby slow down, those that translate. A process that dies,
    or takes too long, is followed by another one.
    """

    def __init__(self, models: Mapping[tuple[str, str], InspectedModel], *, fork: bool = sys.platform == "linux"):
        """Without `fork` it is a thread after all."""
        self.models, self._waiting = models, 0
        self._helpers = Helpers(_answer, fork=fork)
        self._workers = Workers(self._helped, 1, remedy="start the server again", threads=True)

    def start(self) -> None:
        """Fork what forks the process, before there are threads and connections."""
        self._helpers.start()

    async def ask(self, pair: tuple[str, str], question: str, *arguments: Any, seconds: float) -> Any:
        """The answer of a method of `InspectedModel` in time. Raises `Refusal`."""
        if self._waiting > MOST_WAITING:
            raise Refusal(503, "Too many look into translations; try again later", retry_after=BUSY)
        job = self._helpers.job()
        future = self._workers.submit(job, self.models[pair], question, *arguments)
        self._waiting += 1
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:
            job.kill()
            raise Refusal(504, "This took too long; ask about a shorter text") from None
        except HelperDied:
            raise Refusal(503, "The process that looks into translations died; try again", retry_after=BUSY) from None
        except ModelChanged as error:
            raise Refusal(503, str(error)) from None
        except DragomanError as error:
            raise Refusal(400, str(error)) from None

    def _helped(self, job: Job, *question: Any) -> Any:
        return job.run(*question)

    def _done(self) -> None:
        self._waiting -= 1

    def close(self) -> None:
        """Answer nothing more."""
        self._helpers.close()
        self._workers.close()


def _answer(ask: Ask, inside: InspectedModel, question: str, *arguments: Any) -> Any:
    """In a process of its own: what a method of `InspectedModel` says."""
    return getattr(inside, question)(*arguments)
