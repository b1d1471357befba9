"""chrF++ (Popović, 2017) by sacrebleu: F-score of character 6-grams and word bigrams; 0 to 100."""

from dragoman.metrics.metric import Metric, Score, Translations, sacrebleu_score


def compute(translations: Translations) -> Score:
    from sacrebleu.metrics import CHRF

    return sacrebleu_score(CHRF(word_order=2), translations)


METRIC = Metric(name="chrf", label="chrF++", validation_key="chrf", unit="score", compute=compute)
