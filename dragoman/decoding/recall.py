"""What a translation memory has for a sentence: its translation, or that of a similar sentence as a hint.

A hint stands behind the source, after a token of its own, and the model takes from it what fits (Bulté and Tezcan 2019,
"Neural Fuzzy Repair"). A model reads hints if it was trained to, with `training.fuzzy`.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import DataError, ResourceError, UsageError, command_line
from dragoman.storage.memory import Entry, Memory, is_memory
from dragoman.text.characters import without_label
from dragoman.text.edit_distance import Compared
from dragoman.text.language_codes import close, two_letters
from dragoman.text.preprocessing import Preprocessor
from dragoman.text.tokenizers.hint_tokens import SIMILAR
from dragoman.text.tokenizers.tokenizer import Tokenizer

LOG = logging.getLogger("dragoman.memory")
LEAST_SIMILAR = 0.5
"""Similarity from which the translation of an entry is a hint."""
MOST_HINTED = 255
"""Most tokens of a source with its hint: models are trained on no more (`data.max_length`)."""


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
    `lenient` one goes on without hints while the memory fails, and logs that; others raise `ResourceError`.
    """

    def __init__(self, memory: Memory, languages: Sequence[tuple[str, str]], *, lenient: bool = False):
        self.memory, self.languages, self.lenient = memory, languages, lenient

    def find(self, text: str) -> str | None:
        """The translation of a text, if there is an entry for it."""
        for languages in self.languages:
            translation = self.memory.find(languages, text)
            if translation is not None:
                return translation
        return None

    def known(self, text: str) -> str | None:
        """The same as `find` for a text among others, whose translation a memory that fails must not prevent."""
        try:
            return self.find(text)
        except ResourceError as error:
            self._bear(error)
            return None

    def _candidates(self, sentence: str) -> list[Entry]:
        try:
            return [entry for languages in self.languages for entry in self.memory.candidates(languages, sentence)]
        except ResourceError as error:
            self._bear(error)
            return []

    def _bear(self, error: ResourceError) -> None:
        """Log an error that a lenient recall goes on after; raise it if this one is not."""
        if not self.lenient:
            raise error
        LOG.warning("%s", error)

    def hints(
        self,
        sentences: Sequence[str],
        sources: Sequence[list[int]],
        preprocessor: Preprocessor,
        tokenizer: Tokenizer,
        *,
        most_tokens: int,
    ) -> list[Hint | None]:
        """For each sentence, whose tokens are in `sources`, the translation of the most similar entry, if there is one.

        No source has more than `most_tokens` with its hint.
        """
        begin = tokenizer.hints[SIMILAR]
        found: list[Hint | None] = []
        for sentence, source in zip(sentences, sources, strict=True):
            entries = self._candidates(without_label(sentence))
            pairs = [preprocessor.pair(entry.source, entry.target) for entry in entries]
            compared = Compared(source)
            best, similarity = None, LEAST_SIMILAR
            for number, tokens in enumerate(tokenizer.encode_batch([entry_source for entry_source, _ in pairs])):
                if (score := compared.similarity(tokens)) >= similarity and (best is None or score > similarity):
                    best, similarity = number, score
            hint = None
            if best is not None:
                target = tokenizer.encode(pairs[best][1])
                if len(source) + 1 + len(target) <= min(most_tokens, MOST_HINTED):
                    match = MemoryMatch(entries[best].source, entries[best].target, similarity)
                    hint = Hint([begin, *target], match)
            found.append(hint)
        return found


def recall_of(path: Path, languages: tuple[str | None, str | None]) -> Recall:
    """A recall of the memory in a file, for a model of these languages.

    Where the model does not say them, they are those of the memory. Raises `DataError` if the file is no translation
    memory, and `UsageError` if neither model nor memory tells the languages.
    """
    refuse_no_memory(path)
    memory = Memory(path)
    source, target = languages
    if source is not None and target is not None:
        return Recall(memory, known_as(memory, (source, target)))
    in_memory = memory.languages()
    if len(in_memory) != 1:
        memory.close()
        raise UsageError(
            f"The model does not say its two languages, and {path} has entries of {len(in_memory)} pairs of languages; "
            "give a memory of one pair."
        )
    return Recall(memory, in_memory)


def refuse_no_memory(path: Path) -> None:
    """Raise `DataError` for a file that is no translation memory."""
    if not is_memory(path):
        make = command_line("data", "memory", "PAIRS", "--output", "memory.db")
        raise DataError(f"{path} is no translation memory; make one of your pairs:  {make}")


def known_as(memory: Memory, languages: tuple[str, str]) -> list[tuple[str, str]]:
    """The pairs of codes under which a memory has entries for two languages: their own first."""
    others = [pair for pair in memory.languages() if pair != languages and _are_close(pair, languages)]
    return [languages, *others]


def _are_close(codes: tuple[str, str], others: tuple[str, str]) -> bool:
    """Whether two pairs of codes mean the same languages."""
    return all(close(two_letters(code), two_letters(other)) for code, other in zip(codes, others, strict=True))
