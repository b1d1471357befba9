"""What a translation memory has for a sentence: its translation, or that of a similar sentence as a hint.

A hint stands behind the source, after a token of its own, and the model takes from it what fits (Bulté and Tezcan 2019,
"Neural Fuzzy Repair"). A model reads hints if it was trained to, with `training.fuzzy`.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dragoman.errors import DataError, ResourceError, UsageError, command_line
from dragoman.storage.memory import Entry, Memory, is_memory
from dragoman.text.characters import without_label
from dragoman.text.edit_distance import LEAST_SIMILAR, Compared
from dragoman.text.language_codes import served_language
from dragoman.text.preprocessing import Preprocessor
from dragoman.text.tokenizers.hint_tokens import SIMILAR
from dragoman.text.tokenizers.tokenizer import Tokenizer

T = TypeVar("T")
LOG = logging.getLogger("dragoman.memory")
MOST_HINTED = 255
"""Most tokens of a source with its hint: by default, models are trained on no more (`data.max_length`)."""
REST = 10.0
"""Seconds for which a lenient recall does not ask a memory that has failed."""


@dataclass(frozen=True)
class MemoryMatch:
    """An entry of a translation memory that a translation comes from, or was made with."""

    source: str
    target: str
    similarity: float
    """Share of the tokens that need not be edited to turn the source of the entry into the sentence; 1: the same."""


@dataclass(frozen=True)
class Hint:
    """Tokens to put behind a source, and the entry that they come from."""

    tokens: list[int]
    match: MemoryMatch


class Recall:
    """Looks sentences up in a translation memory.

    `languages` are the pairs of codes under which entries may stand, those to look under first at the beginning. A
    `lenient` one goes on without the memory for `REST` seconds after that has failed; others raise `ResourceError`.
    """

    def __init__(self, memory: Memory, languages: Sequence[tuple[str, str]], *, lenient: bool = False):
        self.memory, self.languages, self.lenient = memory, languages, lenient
        self._rests_until = -math.inf
        """Time until which a lenient one does not ask the memory again."""

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()

    def find(self, text: str) -> str | None:
        """The translation of a text, if there is an entry for it. A label of its languages does not matter."""
        text = without_label(text)
        for languages in self.languages:
            translation = self.memory.find(languages, text)
            if translation is not None:
                return translation
        return None

    def known(self, text: str) -> str | None:
        """The same as `find` for a text among others, whose translation a memory that fails must not prevent."""
        return self._unless_resting(lambda: self.find(text))

    def candidates(self, sentence: str) -> list[Entry]:
        """Entries that may be similar to a sentence."""
        text = without_label(sentence)

        def look_up() -> list[Entry]:
            return [entry for languages in self.languages for entry in self.memory.candidates(languages, text)]

        return self._unless_resting(look_up) or []

    def _unless_resting(self, look_up: Callable[[], T]) -> T | None:
        """What the memory answers; None while a lenient recall rests."""
        if time.monotonic() < self._rests_until:
            return None
        try:
            return look_up()
        except ResourceError as error:
            if not self.lenient:
                raise
            self._rests_until = time.monotonic() + REST
            LOG.warning("%s For %g seconds, nothing is looked up in it while texts are translated.", error, REST)
            return None

    def hints(
        self,
        sentences: Sequence[str],
        sources: Sequence[list[int]],
        preprocessor: Preprocessor,
        tokenizer: Tokenizer,
        *,
        rooms: Sequence[int],
    ) -> list[Hint | None]:
        """For each sentence, whose tokens are in `sources`, the translation of the most similar entry, if there is one.

        No hint has more tokens than there is room for, by `rooms`.
        """
        begin = tokenizer.hints[SIMILAR]
        hints: list[Hint | None] = []
        for sentence, source, room in zip(sentences, sources, rooms, strict=True):
            entries = self.candidates(sentence)
            texts = [preprocessor(entry.source).text for entry in entries]  # as the sentence is prepared
            compared = Compared(source)
            best, similarity = None, 0.0
            for entry, tokens in zip(entries, tokenizer.encode_batch(texts), strict=True):
                score = compared.similarity(tokens)
                if score == 1 and entry.source != without_label(sentence).strip():  # other values in its placeholders
                    score -= 1 / (1 + len(tokens))
                if score >= LEAST_SIMILAR and score > similarity:
                    best, similarity = entry, score
            hint = None
            if best is not None:
                # Its slots are numbered as in its source, which has them in the places of those of the sentence.
                target = preprocessor.prefix(best.target, preprocessor(best.source))
                tokens = [begin, *tokenizer.encode(target)]
                if len(tokens) <= room:
                    hint = Hint(tokens, MemoryMatch(best.source, best.target, similarity))
            hints.append(hint)
        return hints


def recall_of(path: Path, languages: tuple[str | None, str | None]) -> Recall:
    """A recall of the memory in a file, which is only read, for a model of these languages.

    A language that the model does not say is that of the memory. Raises `DataError` if the file is no translation
    memory, and `UsageError` if it has no entries in these languages, or if several pairs of languages fit.
    """
    refuse_no_memory(path)
    memory = Memory(path, read_only=True)
    known = memory.languages()
    source, target = languages
    sources, targets = ([language] if language else None for language in (source, target))
    fitting = [pair for pair in known if means(pair, (source, target), sources, targets)]
    if not fitting or (None in languages and len(fitting) > 1):
        memory.close()
        wanted = f"{source or '?'} to {target or '?'}"
        has = ", ".join(f"{one} to {other}" for one, other in known) or "no entries"
        raise UsageError(f"The model translates from {wanted}, and {path} has {has}; give a memory of its languages.")
    exact = [pair for pair in fitting if pair == (source, target)]
    return Recall(memory, [*exact, *(pair for pair in fitting if pair not in exact)])


def refuse_no_memory(path: Path) -> None:
    """Raise `DataError` for a file that is no translation memory."""
    if not is_memory(path):
        make = command_line("data", "memory", "PAIRS", "--output", "memory.db")
        raise DataError(f"{path} is no translation memory; make one of your pairs:  {make}")


def means(
    codes: tuple[str, str],
    languages: tuple[str | None, str | None],
    sources: Collection[str] | None,
    targets: Collection[str] | None,
) -> bool:
    """Whether entries under two codes are for a model of these languages, among all `sources` and `targets` that there
    are. A language that is None may be any.
    """
    source = languages[0] if sources is None else served_language(codes[0], sources, reads=True)
    target = languages[1] if targets is None else served_language(codes[1], targets)
    return (source, target) == languages
