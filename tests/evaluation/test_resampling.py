"""Intervals and paired tests: those of sacrebleu to the digit, whatever the number of sentences in memory."""

import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest as Sacrebleu

from dragoman.errors import UsageError
from dragoman.metrics import TEXT_METRICS, resampling
from dragoman.metrics.metric import Translations
from dragoman.metrics.resampling import Interval, Statistics, approximate_randomization, is_clearly_better

WORDS = "the a red blue old new house cat tree sees has is and or not we they it big small".split(" ")  # noqa: SIM905
SACREBLEU = {"bleu": BLEU(force=True), "chrf": CHRF(word_order=2), "ter": TER()}


def texts(seed: int, *, damage: float, count: int = 61) -> list[str]:
    """Sentences that are the same for each seed, but for a share of their words that is replaced at random."""
    words, dice = np.random.default_rng(3), np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        line = list(words.choice(WORDS, size=words.integers(1, 16)))
        lines.append(" ".join(dice.choice(WORDS) if dice.random() < damage else word for word in line))
    return lines


REFERENCES = texts(0, damage=0)
BETTER, WORSE = texts(1, damage=0.15), texts(2, damage=0.25)


def counted(name: str, hypotheses: list[str], references: list[str] = REFERENCES) -> Statistics:
    (metric,) = (metric for metric in TEXT_METRICS if metric.name == name)
    return metric.count(Translations(hypotheses, references))


@pytest.mark.parametrize("name", SACREBLEU)
@pytest.mark.parametrize("drawn_at_once", [100, 10_000_000])
def test_scores_and_intervals_are_sacrebleus(name: str, drawn_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "DRAWN_AT_ONCE", drawn_at_once)
    theirs = SACREBLEU[name].corpus_score(BETTER, [REFERENCES], n_bootstrap=1_000)
    statistics = counted(name, BETTER)
    assert statistics.value() == pytest.approx(theirs.score, abs=1e-9)
    assert statistics.signature == str(SACREBLEU[name].get_signature()).replace("|bs:1000|seed:12345", "")
    assert statistics.interval().half == pytest.approx(theirs._ci, abs=1e-4)  # they add up in single precision


@pytest.mark.parametrize("name", SACREBLEU)
@pytest.mark.parametrize("drawn_at_once", [1_000, 10_000_000])
def test_paired_tests_are_sacrebleus(name, drawn_at_once, monkeypatch) -> None:
    monkeypatch.setattr(resampling, "DRAWN_AT_ONCE", drawn_at_once)
    monkeypatch.setattr(resampling, "SHUFFLES", 1_000)
    systems = [("baseline", WORSE), ("system", BETTER)]
    metrics = {name: SACREBLEU[name]}
    _, scores = Sacrebleu(systems, metrics, [REFERENCES], test_type="ar", n_samples=1_000)()
    wanted = next(iter(results for key, results in scores.items() if key != "System"))[1]
    found = approximate_randomization(
        counted(name, WORSE), counted(name, BETTER)
    )  # no two of these differences are the same
    assert found.p_value == pytest.approx(wanted.p_value, abs=0.002)  # a draw at the very limit may be on either side
    assert found.difference == pytest.approx(counted(name, BETTER).value() - counted(name, WORSE).value())
    assert found.interval.low < found.difference < found.interval.high


def test_the_interval_holds_the_score_of_other_sentences_nineteen_times_in_twenty() -> None:
    dice = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        interval = Statistics.of_mean(dice.normal(2.0, 1.0, size=120), "").interval()
        held += interval.low <= 2.0 <= interval.high
    assert 180 <= held <= 198


def test_as_many_sentences_as_needed_show_a_difference_four_times_in_five() -> None:
    dice = np.random.default_rng(6)

    def pair(count: int) -> tuple[Statistics, Statistics]:
        before = dice.normal(50, 8, size=count)
        return Statistics.of_mean(before, ""), Statistics.of_mean(before + dice.normal(0.8, 4, size=count), "")

    needed = [approximate_randomization(*pair(400)).needed for _ in range(30)]
    count = round(math.exp(np.median(np.log(needed))))
    assert 100 < count < 400  # 2.8 squared times 25 is 196
    shown = sum(approximate_randomization(*pair(196)).is_significant for _ in range(60))
    assert 39 <= shown <= 57


def test_equal_systems_do_not_differ() -> None:
    same = approximate_randomization(counted("bleu", BETTER), counted("bleu", BETTER))
    assert (same.difference, same.needed, same.is_significant) == (0.0, None, False)


@pytest.mark.parametrize(("differing", "least"), [(1, 0.9), (3, 0.2), (12, 0.0)])
def test_systems_that_differ_in_few_sentences_are_not_found_to_differ(differing: int, least: float) -> None:
    before = np.arange(100.0)
    after = before + (np.arange(100) < differing)
    test = approximate_randomization(Statistics.of_mean(before, ""), Statistics.of_mean(after, ""))
    assert test.p_value > least
    assert test.is_significant == (differing == 12)
    assert test.is_significant or test.needed > 100


def test_one_sentence_tells_nothing() -> None:
    test = approximate_randomization(Statistics.of_mean([1.0], ""), Statistics.of_mean([2.0], ""))
    assert (test.is_significant, test.needed) == (False, None)


def test_a_seed_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "abc")
    with pytest.raises(UsageError, match="SACREBLEU_SEED is abc"):
        counted("bleu", BETTER).interval()


def test_a_single_sentence_has_no_interval() -> None:
    assert counted("bleu", BETTER[:1], REFERENCES[:1]).interval() is None
    assert counted("bleu", BETTER[:2], REFERENCES[:2]).interval() is not None


def test_an_interval_leaves_out_a_fortieth_at_either_end() -> None:
    assert Interval.of(np.arange(1_000)) == (25, 974)


def test_a_gain_by_chance_is_called_clear_once_in_twenty_times() -> None:
    generator = np.random.default_rng(7)
    clear = 0
    for _ in range(200):
        first, second = (Statistics.of_mean(generator.normal(size=60), "mean") for _ in range(2))
        clear += is_clearly_better(first, second)
    assert 4 <= clear <= 18


def test_a_clear_gain_is_one_and_a_loss_or_no_difference_is_none() -> None:
    for metric in ("bleu", "chrf"):
        worse, better = counted(metric, WORSE), counted(metric, BETTER)
        assert is_clearly_better(worse, better)
        assert not is_clearly_better(better, worse)
        assert not is_clearly_better(better, better)
