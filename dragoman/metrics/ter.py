"""TER (Snover et al., 2006) by sacrebleu: edits per 100 reference words, a moved phrase counts once; from 0 up.

It tries out where each phrase could be moved. That takes minutes for a thousand translations of a half-trained model,
which share only the words with their references. So validations do not compute it.
"""

from typing import TYPE_CHECKING

from dragoman.metrics.metric import Metric, Translations, counted_by_sacrebleu

if TYPE_CHECKING:
    from dragoman.metrics.resampling import Statistics


def count(translations: Translations) -> "Statistics":
    from sacrebleu.metrics import TER

    characters = translations.language in ("zh", "ja")
    return counted_by_sacrebleu(TER(normalized=characters, asian_support=characters), translations)


METRIC = Metric(name="ter", label="TER", higher_is_better=False, count=count)
