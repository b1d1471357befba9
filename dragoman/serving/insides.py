"""Looking into translations: how sure each word is, what could stand in its place, and everything inside."""

import asyncio
import re
import sys
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.decoding.translation import Translation
from dragoman.decoding.units import with_spaces
from dragoman.errors import DragomanError
from dragoman.report import WordProbability, inspect_translation, likely_next, render_inspection, word_probabilities
from dragoman.serving.limits import Refusal
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.processes import WorkerError, Workers

OTHERS = 6
"""Words that could stand in place of one, at most."""
MOST_WAITING = 8
"""Questions that wait while one is answered; more are refused."""
BUSY = 2
"""Seconds after which these may ask again."""


class Sentence(NamedTuple):
    """A part of a text, and its translation."""

    source: str
    translation: str
    words: list[WordProbability]
    """Of the translation; all other characters of it are spaces."""
    after: str
    """What stands between this translation and the next one."""


class Other(NamedTuple):
    """A word in place of another."""

    text: str
    probability: float
    """Of its first piece, after what stands before it."""
    translation: str
    """How the sentence goes on with it."""


class Inside:
    """The inside of one model, whose weights are read again when somebody first asks."""

    def __init__(self, path: Path, languages: tuple[str | None, str | None] = (None, None)):
        self.path, self.languages = path, languages

    @cached_property
    def model(self) -> ModelDirectory:
        """The model, in float32."""
        model = ModelDirectory.load(self.path, device="cpu").speaking(*self.languages)
        model.model.eval()
        return model

    def sentences(self, units: list[str], translations: list[str]) -> list[Sentence]:
        """Each sentence of a text with its translation."""
        spaced = with_spaces(translations, units)
        return [
            Sentence(unit, text, word_probabilities(self.model, unit, text) if text.strip() else [], full[len(text) :])
            for unit, text, full in zip(units, translations, spaced, strict=True)
        ]

    def likely_next(self, text: str, prefix: str) -> list[tuple[str, float]]:
        """Ways to go on from the beginning of a translation."""
        return likely_next(self.model, text, prefix, OTHERS)

    def page(self, text: str, target: str | None) -> str:
        """The page of `dragoman inspect`."""
        return render_inspection(inspect_translation(self.model, text, target=target))


def others(begun: list[tuple[str, float]], prefix: str, translations: list[Translation]) -> list[Other]:
    """The words after a prefix with which translations go on, each once; `begun` is what was asked of each."""
    found: dict[str, Other] = {}
    for (_, probability), translation in zip(begun, translations, strict=True):
        rest = translation.text[len(prefix) :] if translation.text.startswith(prefix) else ""
        word = re.match(r"\s*(\S+)", rest)
        if word and word[1] not in found:
            found[word[1]] = Other(word[1], probability, translation.text)
    return list(found.values())[:OTHERS]


class Lookers:
    """Answers questions about the insides of models, one after another, in a process of its own.

    In a thread it would share its number of threads, and thereby slow down, those that translate.
    """

    def __init__(self, insides: Mapping[tuple[str, str], Inside], *, fork: bool = sys.platform == "linux"):
        """Without `fork` it is a thread after all."""
        self.insides, self._waiting = insides, 0
        self._workers = Workers(partial(_answer, insides), 1, remedy="start the server again", threads=not fork)

    def start(self) -> None:
        """Fork the process, before there are connections, which it would keep open."""
        self._workers.start()

    async def ask(self, pair: tuple[str, str], question: str, *arguments: Any, seconds: float) -> Any:
        """The answer of a method of `Inside` in time. Raises `Refusal`."""
        if self._waiting > MOST_WAITING:
            raise Refusal(503, "Too many look into translations; try again later", retry_after=BUSY)
        try:
            future = self._workers.submit(pair, question, *arguments)
            self._waiting += 1
            loop = asyncio.get_running_loop()
            future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._done))
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:
            raise Refusal(504, "This took too long; ask about a shorter text") from None
        except (BrokenExecutor, WorkerError):
            raise Refusal(503, "Nothing more can be looked into until the server is started again") from None
        except DragomanError as error:
            raise Refusal(400, str(error)) from None

    def _done(self) -> None:
        self._waiting -= 1

    def close(self) -> None:
        """Answer nothing more."""
        self._workers.close()


def _answer(insides: Mapping[tuple[str, str], Inside], pair: tuple[str, str], question: str, *arguments: Any) -> Any:
    return getattr(insides[pair], question)(*arguments)
