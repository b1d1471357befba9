"""Decides whether there are enough pairs to train on, what quality to expect and what to do next."""

from functools import cache
from typing import NamedTuple

from dragoman.data_check.result import Finding, PartResult, read_table
from dragoman.text.characters import folded

FEW = 10_000
"""Fewer pairs than this to train on are warned of."""


MANY_TWINS = 0.05
"""Share of test pairs with a near copy among the training pairs above which users are warned."""


class Expectation(NamedTuple):
    """An entry of expectations.yaml, which explains the fields."""

    below: float
    text: str
    measured: int = 0
    words: float = 0.0


@cache
def expectations() -> list[Expectation]:
    """The quality that corpora of each size led to, smallest size first; all figures are measured or published."""
    return [Expectation(**fields) for fields in read_table("expectations.yaml")]


def _expected(num_pairs: int) -> Expectation:
    """The expectation for corpora of this size."""
    return next(expectation for expectation in expectations() if num_pairs < expectation.below)


def expectation(num_pairs: int, *, words: float) -> list[str]:
    """Sentences on the quality to expect of so many different pairs; `words` is the mean length of their sources."""
    expected = _expected(num_pairs)
    sentences = [f"{num_pairs:,} different pairs are {expected.text}"]
    if expected.measured:
        fewer = ", and fewer pairs give less" if num_pairs < 0.9 * expected.measured else ""
        longer = ", and longer sentences are harder" if words > 1.5 * expected.words else ""
        sentences.append(
            "Such scores hold for test sentences of the same kind as those trained on; expect less for any others, and "
            f"other figures for other languages. Yours have {words:.0f} words on average{longer}{fewer}."
        )
    return sentences


def account(train: PartResult) -> list[str]:
    """A sentence on the pairs that `train` leaves out, by reason; none if it reads every pair."""
    if not train.dropped:
        return []
    reasons = "; ".join(f"{reason}: {count:,}" for reason, count in train.dropped.most_common())
    return [f"`train` leaves out {train.dropped.total():,} of {train.entries:,} pairs ({reasons})."]


def too_few(num_pairs: int, needed: int) -> str:
    """The sentence on fewer pairs than are needed."""
    return (
        f"Cannot be trained on: {num_pairs:,} different pairs are left; at least {needed} are needed, and tens of "
        "thousands for a translator."
    )


def verdict(num_pairs: int, findings: list[Finding], *, words: float, needed: int) -> tuple[bool, list[str]]:
    """Whether training is possible, and sentences that say so and what to expect.

    `num_pairs` counts different pairs that are in no other part, of which so many are `needed`, and `words` is the mean
    length of their sources.
    """
    if num_pairs < needed:
        return False, [too_few(num_pairs, needed)]
    sentences = expectation(num_pairs, words=words)
    problems = sum(finding.severity == "problem" for finding in findings)
    if problems:
        them = f"the {problems} problems" if problems > 1 else "the problem"
        sentences.append(f"First look at {them} above: training would run, but learn less or learn wrong things.")
    elif num_pairs < expectations()[0].below:
        sentences.append("Train on it only to try the commands out.")
    else:
        sentences.append("Nothing speaks against training on it.")
    return True, sentences


def training_warnings(
    num_pairs: int, valid: list[str], test: list[str], *, leaked: int = 0, twins: int = 0, forgetful: bool = False
) -> list[str]:
    """Warnings before a training.

    `valid` and `test` are source sentences; `leaked` of the test sentences are trained on, and `twins` test pairs are
    nearly the same as training pairs. A training is `forgetful` if it adapts a model to these pairs alone, without
    general pairs.
    """
    warnings = []
    if num_pairs < FEW and forgetful:
        warnings.append(
            f"{num_pairs:,} pairs to adapt to are few: the model soon memorises them and forgets how to translate "
            "others. Give general pairs as well, such as --mix general.tsv:0.5, or at least some to score it on before "
            "and after, as finetune.test."
        )
    elif num_pairs < FEW:
        warnings.append(f"{num_pairs:,} pairs to train on are {_expected(num_pairs).text}")
    if leaked:
        warnings.append(
            f"{leaked:,} of the {len(test):,} test pairs have a source sentence that is trained on with another "
            "translation, so test scores come out too high; data.split=sentence holds out all translations together."
        )
    if twins > MANY_TWINS * len(test):
        warnings.append(
            f"{twins:,} of the {len(test):,} test pairs are nearly the same as a training pair, so the test score "
            "flatters; look at the one without them, too. Where test pairs are split off, data.split=groups keeps such "
            "training pairs out."
        )
    held_out = frozenset(map(folded, valid))
    if shared := sum(folded(source) in held_out for source in test):
        warnings.append(
            f"{shared:,} of the {len(test):,} test sentences are also in the validation data, by which the model is "
            "chosen, so test scores come out too high; take them out of one of the two."
        )
    return warnings
