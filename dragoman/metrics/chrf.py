"""chrF++ (Popović, 2017) by sacrebleu: F-score of character 6-grams and word bigrams; 0 to 100."""

from typing import TYPE_CHECKING

from dragoman.metrics.metric import Metric, Translations, counted_by_sacrebleu

if TYPE_CHECKING:
    from dragoman.metrics.resampling import Statistics


def count(translations: Translations) -> "Statistics":
    from sacrebleu.metrics import CHRF

    return counted_by_sacrebleu(CHRF(word_order=2), translations)


METRIC = Metric(name="chrf", label="chrF++", validation_key="chrf", unit="score", count=count)
