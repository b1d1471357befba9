"""TER (Snover et al., 2006) by sacrebleu: edits per 100 reference words, a moved phrase counts once; from 0 up.

It tries out where each phrase could be moved. That takes minutes for a thousand translations of a half-trained model,
which share only the words with their references. So validations do not compute it.
"""

from dragoman.metrics.metric import Metric, Score, Translations, sacrebleu_score


def compute(translations: Translations) -> Score:
    from sacrebleu.metrics import TER

    characters = translations.language in ("zh", "ja")
    return sacrebleu_score(TER(normalized=characters, asian_support=characters), translations)


METRIC = Metric(name="ter", label="TER", higher_is_better=False, compute=compute)
