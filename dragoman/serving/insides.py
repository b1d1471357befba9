"""Looking into translations: how sure each word is, what could stand in its place, and everything inside."""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dragoman.decoding.translation import Translation
from dragoman.decoding.units import with_spaces
from dragoman.errors import DragomanError
from dragoman.report import WordProbability, inspect_translation, likely_next, render_inspection, word_probabilities
from dragoman.serving.limits import Refusal
from dragoman.storage.model_directory import ModelDirectory

OTHERS = 6
"""Words that could stand in place of one, at most."""
MOST_WAITING = 8
"""Questions that wait while one is answered; more are refused."""
BUSY = 2
"""Seconds after which these may ask again."""

T = TypeVar("T")


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
    """Answers questions about the inside of models, one after another, beside the translations."""

    def __init__(self) -> None:
        self._thread, self._waiting = ThreadPoolExecutor(1, "looking"), 0

    async def ask(self, question: Callable[..., T], *arguments: Any, seconds: float) -> T:
        """The answer in time. Raises `Refusal`."""
        if self._waiting > MOST_WAITING:
            raise Refusal(503, "Too many look into translations; try again later", retry_after=BUSY)
        self._waiting += 1
        future = self._thread.submit(question, *arguments)
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._done))
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:
            raise Refusal(504, "This took too long; ask about a shorter text") from None
        except DragomanError as error:
            raise Refusal(400, str(error)) from None

    def _done(self) -> None:
        self._waiting -= 1

    def close(self) -> None:
        """Answer nothing more."""
        self._thread.shutdown(cancel_futures=True)
