"""Training sources with typos, others in each epoch, so that a model reads what people type.

Sentences are decoded, misspelled as `dragoman.text.variants.typos` does, and encoded again. Targets stay as they are.
"""

import random
from collections.abc import Iterator

import numpy as np

from dragoman.data.batching import Sentences, Store
from dragoman.text.labels import label
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.text.variants import typos

AT_ONCE = 10_000
"""Sentences that are encoded at a time."""


class ChangedSentences:
    """Sentences of which some have other token ids: `changed` has these by the index of the sentence."""

    def __init__(self, sentences: Sentences, changed: dict[int, np.ndarray]):
        self.sentences, self.changed = sentences, changed
        self.lengths = sentences.lengths.copy()
        for row, ids in changed.items():
            self.lengths[row] = len(ids)

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> np.ndarray:
        """The token ids of one sentence."""
        changed = self.changed.get(index)
        return self.sentences[index] if changed is None else changed


class MisspelledStore:
    """Sources of which a `share` has typos, drawn in each epoch by `seed`.

    A sentence stays as it is if it has a symbol of the user, if it would have `limit` tokens or more or a new unknown
    one, or if its text does not give its tokens again, as with words that were split at random.
    """

    def __init__(self, store: Store, tokenizer: Tokenizer, *, share: float, seed: int, limit: int):
        self.store, self.tokenizer = store, tokenizer
        self.share, self.seed, self.limit = share, seed, limit
        self._symbols = {*tokenizer.symbol_ids}.difference(tokenizer.slots)
        self._labels = {id_: label(None, code) for code, id_ in tokenizer.label_ids.items()}

    def __len__(self) -> int:
        return len(self.store)

    def epoch(self, number: int) -> ChangedSentences:
        """The sentences of an epoch."""
        sentences = self.store.epoch(number)
        rows = np.flatnonzero(np.random.default_rng((self.seed, number)).random(len(self)) < self.share)
        changed: dict[int, np.ndarray] = {}
        for block in np.array_split(rows, len(rows) // AT_ONCE + 1):
            changed.update(self._misspelled(sentences, block.tolist(), number))
        return ChangedSentences(sentences, changed)

    def _misspelled(self, sentences: Sentences, rows: list[int], epoch: int) -> Iterator[tuple[int, np.ndarray]]:
        """The new token ids of those of these rows that change."""
        before = [sentences[row].tolist() for row in rows]
        # The token of a language is no part of the text, but may decide how that is split.
        labels = [self._labels.get(ids[0], "") if ids else "" for ids in before]
        texts = self.tokenizer.decode_batch([ids[bool(name) :] for ids, name in zip(before, labels, strict=True)])
        misspelled = [
            typos(text, "", random.Random(f"{self.seed} {epoch} {row}"))[0]
            for text, row in zip(texts, rows, strict=True)
        ]
        again, after = (
            self.tokenizer.encode_batch(name + text for name, text in zip(labels, some, strict=True))
            for some in (texts, misspelled)
        )
        unknown = self.tokenizer.special_ids.unk
        for row, ids, same, new in zip(rows, before, again, after, strict=True):
            is_changed = same == ids and new != same and self._symbols.isdisjoint(ids)
            if is_changed and len(new) < self.limit and new.count(unknown) <= same.count(unknown):
                yield row, np.array(new, np.uint32)
