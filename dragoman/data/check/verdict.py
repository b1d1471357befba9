"""Whether data suffices, which quality to expect, what to do next; all figures are measured or published ones."""

from typing import NamedTuple

from dragoman.data.check.report import Finding, PartReport
from dragoman.data.splitting import MIN_PAIRS
from dragoman.data.text import folded

FEW = 10_000
"""Pairs below which training is possible but nothing was ever measured."""


class Expectation(NamedTuple):
    """What corpora of about a size led to."""

    below: int
    """Pairs, up to which this is what to expect."""
    text: str
    measured: int = 0
    """Pairs of the corpus that the figures are of; 0: there are none."""
    words: float = 0.0
    """In its source sentences, on average."""


# README, section "Measured": Multi30k 36.9 (en-de) and 57.2 (en-fr), Tatoeba en-fr 42.3. IWSLT14 de-en, lower-cased:
# 33.7 in JoeyNMT's README, 35.6 for fairseq in LiyuanLucasLiu/Transformer-Clinic#12. WMT14: arXiv 1706.03762,
# table 2; Ott et al. (2018), arXiv 1806.00187; JoeyNMT's README for the lowest. Published scores are of other BLEUs.
EXPECTATIONS = (
    Expectation(
        FEW,
        "few pairs: the smallest corpus with a measured score has 29,000, so no figure can be promised. Expect a tiny "
        "model that knows little beyond the words and phrases of these pairs; more pairs help most.",
    ),
    Expectation(
        100_000,
        "enough for a tiny model of one narrow kind of text. 29,000 image captions reached 37 BLEU from English to "
        "German and 57 to French in 20 minutes on two cores.",
        measured=29_000,
        words=11.9,
    ),
    Expectation(
        1_000_000,
        "enough for a small model of everyday sentences or of one field. 167,130 short Tatoeba sentences from English "
        "to French reached 42 BLEU in 20 minutes on two cores; with 160,000 sentences of talks (IWSLT14), from German "
        "to English, published systems reach 34 to 36.",
        measured=160_000,
        words=6.2,
    ),
    Expectation(
        10_000_000,
        "enough for a general model of size base, on a GPU. With 4.5 million pairs of WMT14, from English to German, "
        "published systems reach 24 to 29 BLEU on news.",
        measured=4_500_000,
        words=25.0,
    ),
    Expectation(
        10**18,
        "enough for a general model of size base or big, on GPUs. With 36 million pairs of WMT14, from English to "
        "French, published systems reach 38 to 43 BLEU on news.",
        measured=36_000_000,
        words=25.0,
    ),
)


def expectation(num_pairs: int, *, words: float) -> list[str]:
    """Sentences on what this many different pairs, with so many words in a source, can be expected to give."""
    found = next(each for each in EXPECTATIONS if num_pairs < each.below)
    sentences = [f"{num_pairs:,} different pairs are {found.text}"]
    if found.measured:
        fewer = ", and fewer pairs give less" if num_pairs < 0.9 * found.measured else ""
        longer = ", and longer sentences are harder" if words > 1.5 * found.words else ""
        sentences.append(
            "Such scores hold for test sentences of the same kind as those trained on; expect less for any others, and "
            f"other figures for other languages. Yours have {words:.0f} words on average{longer}{fewer}."
        )
    return sentences


def account(train: PartReport) -> list[str]:
    """What `train` would leave out, and why, in its own words; nothing if it would read every pair."""
    if not train.dropped:
        return []
    reasons = "; ".join(f"{reason}: {count:,}" for reason, count in train.dropped.most_common())
    return [f"`train` leaves out {train.dropped.total():,} of {train.entries:,} pairs ({reasons})."]


def verdict(num_pairs: int, findings: list[Finding], *, words: float, split_off: bool) -> tuple[bool, list[str]]:
    """Whether training is possible, and what to say on it.

    `num_pairs` are different and in no other part; `words` are in a source sentence, on average; with `split_off`,
    validation or test pairs must be taken from them.
    """
    needed = MIN_PAIRS if split_off else 1
    if num_pairs < needed:
        return False, [
            f"Cannot be trained on: {num_pairs:,} different pairs are left; at least {needed} are needed, and tens of "
            "thousands for a translator."
        ]
    sentences = expectation(num_pairs, words=words)
    problems = sum(finding.severity == "problem" for finding in findings)
    if problems:
        them = f"the {problems} problems" if problems > 1 else "the problem"
        sentences.append(f"First look at {them} above: training would run, but learn less or learn wrong things.")
    else:
        sentences.append("Nothing speaks against training on it.")
    return True, sentences


def training_warnings(num_pairs: int, valid: list[str], test: list[str], *, leaked: int = 0) -> list[str]:
    """What to say loudly before a training; `valid` and `test` are source sentences, `leaked` of `test` in training."""
    warnings = []
    if num_pairs < FEW:
        warnings.append(f"{num_pairs:,} pairs to train on are {EXPECTATIONS[0].text}")
    if leaked:
        warnings.append(
            f"{leaked:,} of the {len(test):,} test pairs have a source sentence that is trained on with another "
            "translation, so test scores come out too high; data.split=sentence holds out all translations together."
        )
    held_out = frozenset(map(folded, valid))
    if shared := sum(folded(source) in held_out for source in test):
        warnings.append(
            f"{shared:,} of the {len(test):,} test sentences are also in the validation data, by which the model is "
            "chosen, so test scores come out too high; take them out of one of the two."
        )
    return warnings
