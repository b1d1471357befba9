"""TER (Snover et al., 2006) by sacrebleu: edits per 100 reference words, a moved phrase counts once; from 0 up.

It tries out where each phrase could be moved, which takes minutes for a thousand translations that share only the words
of their references, as those of a half-trained model do. So validations do without it.
"""

from dragoman.metrics.metric import Metric, Score, Translations, sacrebleu_score


def compute(given: Translations) -> Score:
    from sacrebleu.metrics import TER

    characters = given.language in ("zh", "ja")
    return sacrebleu_score(TER(normalized=characters, asian_support=characters), given)


METRIC = Metric(name="ter", label="TER", higher_is_better=False, compute=compute)
