"""Training sources that are followed by words of their targets, so that a model learns to use the terms of a glossary.

Half of these words are in another form than in the target, as a glossary has them, so that the model learns to inflect
them (Bergmanis and Pinnis 2021, "Facilitating Terminology Translation with Target Lemma Annotations"). No dictionary is
needed: other forms are words of the training targets that begin alike (`dragoman.text.word_forms`).
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from itertools import islice

import numpy as np

from dragoman.data.batching import Sentences, Store
from dragoman.data.joining import JoinedSentences
from dragoman.text.scripts import WORD, is_unspaced
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.text.word_forms import FEWEST_COMMON, are_forms, beginnings_of_forms, own_beginning

MOST_COUNTED = 200_000
"""Most targets whose words are counted."""
FREQUENT = 0.01
"""Share of all words from which one is no term, such as an article."""
OTHER_FORM = 0.5
"""Probability that a term is in another form than in the target, if there is one."""
NUMBERS, LENGTHS = (0.6, 0.3, 0.1), (0.8, 0.2)
"""Probabilities of one, two and three terms behind a source, and of one and two words in a term."""
_AT_ONCE = 10_000


class WordForms:
    """The words of some texts, and how often each occurs."""

    def __init__(self, texts: Iterable[str]):
        self.counts = Counter(word for text in texts for word in WORD.findall(text) if word.isalpha())
        self._most = FREQUENT * max(1, self.counts.total())
        self._alike: dict[str, list[str]] = defaultdict(list)
        for word in self.counts:
            self._alike[own_beginning(word)].append(word)
        self._known: dict[str, list[str]] = {}

    def is_term(self, word: str) -> bool:
        """Whether a word says something: it is neither frequent nor a mark."""
        return word.isalpha() and (is_unspaced(word) or len(word) >= FEWEST_COMMON) and self.counts[word] < self._most

    def other(self, word: str, rng: random.Random) -> str:
        """Another form of a word, a frequent one rather than a rare one; the same if none is known."""
        forms = [form for form in self.known(word) if form.casefold() != word.casefold()]
        return rng.choices(forms, [self.counts[form] for form in forms])[0] if forms else word

    def known(self, word: str) -> list[str]:
        """The forms of a word that occur, the word itself among them."""
        if word not in self._known:
            alike = (form for beginning in beginnings_of_forms(word) for form in self._alike.get(beginning, ()))
            self._known[word] = [form for form in alike if are_forms(form, word)]
        return self._known[word]


class TermStore:
    """Sources of which a `share` is followed by one to three terms of their targets, drawn in each epoch by `seed`.

    Before each term stands the token `begin`. No source gets `limit` tokens or more.
    """

    def __init__(
        self, sources: Store, targets: Store, tokenizer: Tokenizer, *, begin: int, share: float, seed: int, limit: int
    ):
        self.sources, self.targets, self.tokenizer = sources, targets, tokenizer
        self.begin, self.share, self.seed, self.limit = begin, share, seed, limit

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def _forms(self) -> WordForms:
        targets = self.targets.epoch(0)
        # Evenly from all of them: corpora stand one after another.
        counted = np.linspace(0, len(targets) - 1, min(len(targets), MOST_COUNTED), dtype=np.int64)
        return WordForms(
            text
            for block in np.array_split(counted, len(counted) // _AT_ONCE + 1)
            for text in self._texts(targets, block.tolist())
        )

    def epoch(self, number: int) -> JoinedSentences:
        """The sentences of an epoch."""
        sources, targets = self.sources.epoch(number), self.targets.epoch(number)
        drawn = np.flatnonzero(np.random.default_rng((self.seed, number, self.begin)).random(len(self)) < self.share)
        rows: list[int] = []
        hints: list[list[int]] = []
        for block in np.array_split(drawn, len(drawn) // _AT_ONCE + 1):
            texts = self._texts(targets, block.tolist())
            for row, hint in zip(block.tolist(), self._hints(texts, block.tolist(), number), strict=True):
                if hint and sources.lengths[row] + len(hint) < self.limit:
                    rows.append(row)
                    hints.append(hint)
        ends = np.cumsum(np.array([len(hint) for hint in hints], np.int64))
        ids = np.array([id_ for hint in hints for id_ in hint], np.uint32)
        which = np.arange(len(rows))[:, None]
        return JoinedSentences(sources, np.array(rows, np.int64), which, [], following=Sentences(ids, ends))

    def _texts(self, targets: Sentences, rows: Iterable[int]) -> list[str]:
        return self.tokenizer.decode_batch([targets[row].tolist() for row in rows])

    def _hints(self, texts: list[str], rows: list[int], epoch: int) -> list[list[int]]:
        """The tokens of the terms behind each source, given the targets; none where a target has no terms."""
        terms = [
            self._terms(text, random.Random(f"{self.seed} {epoch} {row} terms"))
            for text, row in zip(texts, rows, strict=True)
        ]
        encoded = iter(self.tokenizer.encode_batch([term for terms_of_row in terms for term in terms_of_row]))
        return [
            [id_ for term in islice(encoded, len(terms_of_row)) for id_ in (self.begin, *term)]
            for terms_of_row in terms
        ]

    def _terms(self, text: str, rng: random.Random) -> list[str]:
        """Some terms of a target in a random order."""
        matches = list(WORD.finditer(text))
        places = [place for place, match in enumerate(matches) if self._forms.is_term(match[0])]
        (number,) = rng.choices(range(1, len(NUMBERS) + 1), NUMBERS)
        terms = []
        for place in rng.sample(places, min(number, len(places))):
            (length,) = rng.choices(range(1, len(LENGTHS) + 1), LENGTHS)
            if is_unspaced(matches[place][0]):
                length += 1
            words = matches[place : place + length]
            if not all(match[0].isalpha() for match in words):
                words = words[:1]
            if rng.random() < OTHER_FORM:
                space = "" if is_unspaced(words[0][0]) else " "
                terms.append(space.join(self._forms.other(match[0], rng) for match in words))
            else:
                terms.append(text[words[0].start() : words[-1].end()])
        return terms
