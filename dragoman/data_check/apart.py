"""Pairs of several languages, apart: each pair of languages is checked on its own."""

from collections.abc import Iterable, Iterator

from dragoman.data.bitext import Bitext, CleanedBitext, Corpus
from dragoman.data.readers.types import Numbered, Pair, Skipped
from dragoman.data_check.result import Part
from dragoman.text.characters import cut_label
from dragoman.text.labels import languages_in, name_of

Parts = tuple[CleanedBitext, dict[Part, Bitext]]
"""The pairs to train on, and those that are held out."""


class OneLabel(Bitext):
    """The pairs of a bitext that have a label, without it."""

    def __init__(self, bitext: Bitext, label: str):
        super().__init__(self._pairs, name=bitext.name, languages=languages_in(label))
        self.files, self.unit, self._bitext, self._label = bitext.files, bitext.unit, bitext, label

    def entries(self) -> Iterator[Numbered]:
        for number, entry in self._bitext.entries():
            if isinstance(entry, Skipped):
                yield number, entry
            elif (cut := cut_label(entry[0]))[0] == self._label:
                yield number, (cut[1], entry[1])

    def _pairs(self) -> Iterator[Pair]:
        return (entry for _, entry in self.entries() if not isinstance(entry, Skipped))


def by_languages(train: CleanedBitext, held_out: dict[Part, Bitext]) -> dict[str, Parts]:
    """The pairs of each pair of languages, by their names, such as en-de."""
    found = {}
    for label in dict.fromkeys(label for corpus in train.corpora for label in _labels(corpus)):
        given = {part: list(_of(label, each.corpora)) for part, each in held_out.items()}
        kept: dict[Part, Bitext] = {part: CleanedBitext(corpora) for part, corpora in given.items() if corpora}
        found[name_of(label)] = CleanedBitext(list(_of(label, train.corpora)), train.rules), kept
    return found


def _labels(corpus: Corpus) -> Iterable[str]:
    if corpus.label is not None:
        return [corpus.label]
    return dict.fromkeys(filter(None, (cut_label(source)[0] for source, _ in corpus.bitext)))


def _of(label: str, corpora: Iterable[Corpus]) -> Iterator[Corpus]:
    """The corpora with this label, or their pairs with it."""
    for corpus in corpora:
        if corpus.label is None:
            yield Corpus(OneLabel(corpus.bitext, label), corpus.weight)
        elif corpus.label == label:
            yield Corpus(corpus.bitext, corpus.weight)
