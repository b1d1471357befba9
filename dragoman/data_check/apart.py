"""Separates pairs of several languages, so that each pair of languages is checked on its own."""

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
        self.files = bitext.files
        self.unit = bitext.unit
        self._bitext = bitext
        self._label = label

    def entries(self) -> Iterator[Numbered]:
        for number, entry in self._bitext.entries():
            if isinstance(entry, Skipped):
                yield number, entry
                continue
            label, source = cut_label(entry[0])
            if label == self._label:
                yield number, (source, entry[1])

    def _pairs(self) -> Iterator[Pair]:
        return (entry for _, entry in self.entries() if not isinstance(entry, Skipped))


def by_languages(train: CleanedBitext, held_out: dict[Part, Bitext]) -> dict[str, Parts]:
    """The pairs of each pair of languages, by their names, such as en-de."""
    parts_by_name: dict[str, Parts] = {}
    for label in dict.fromkeys(label for corpus in train.corpora for label in _labels(corpus)):
        held_out_parts: dict[Part, Bitext] = {}
        for part, bitext in held_out.items():
            corpora = list(_with_label(label, bitext.corpora))
            if corpora:
                held_out_parts[part] = CleanedBitext(corpora)
        train_part = CleanedBitext(list(_with_label(label, train.corpora)), train.rules)
        parts_by_name[name_of(label)] = train_part, held_out_parts
    return parts_by_name


def _labels(corpus: Corpus) -> Iterable[str]:
    """The different labels of a corpus."""
    if corpus.label is not None:
        return [corpus.label]
    labels = (cut_label(source)[0] for source, _ in corpus.bitext)
    return dict.fromkeys(label for label in labels if label)


def _with_label(label: str, corpora: Iterable[Corpus]) -> Iterator[Corpus]:
    """The corpora with this label, or their pairs with it."""
    for corpus in corpora:
        if corpus.label is None:
            yield Corpus(OneLabel(corpus.bitext, label), corpus.weight)
        elif corpus.label == label:
            yield Corpus(corpus.bitext, corpus.weight)
