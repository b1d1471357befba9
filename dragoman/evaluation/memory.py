"""What a translation memory brings: scores with and without it, by how similar its entries are to the sources."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.decoding.translation import Translation
from dragoman.evaluation.scores import as_numbers, main_score
from dragoman.metrics import MAIN
from dragoman.metrics.metric import Score

BANDS = {"same": 1.0, "90": 0.9, "75": 0.75, "60": 0.6, "50": 0.5, "none": 0.0}
"""The least similarity of an entry, by the name of the band; "none" has no entry that was used."""


@dataclass(frozen=True)
class BandScore:
    """The main score of the sources of one band."""

    name: str
    sentences: int
    before: Score
    """Without the memory."""
    after: Score

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `MAIN.name` is the score with the memory, and `before` that without."""
        return {"sentences": self.sentences, **as_numbers({MAIN.name: self.after}), "before": self.before.value}


def score_by_bands(
    before: Sequence[Translation],
    after: Sequence[Translation],
    references: Sequence[str],
    sources: Sequence[str],
    *,
    target_language: str | None = None,
) -> list[BandScore]:
    """Score translations `before` and `after` a memory was given, band by band; bands without sources are left out."""
    rows: dict[str, list[int]] = {name: [] for name in BANDS}
    for row, translation in enumerate(after):
        rows[band(translation)].append(row)

    def score(translations: Sequence[Translation], numbers: Sequence[int]) -> Score:
        texts = [translations[row].text for row in numbers]
        sides = [[side[row] for row in numbers] for side in (references, sources)]
        return main_score(texts, *sides, target_language=target_language)

    return [
        BandScore(name, len(numbers), before=score(before, numbers), after=score(after, numbers))
        for name, numbers in rows.items()
        if numbers
    ]


def band(translation: Translation) -> str:
    """The band of a translation: that of the least similar entry that it was made with."""
    similarity = min((match.similarity for match in translation.memory or ()), default=0.0)
    return next(name for name, least in BANDS.items() if similarity >= least)
