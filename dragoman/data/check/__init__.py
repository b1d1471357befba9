"""What is in a bitext, what is wrong with it and what to expect of training on it, without training. One pass."""

from collections.abc import Callable, Iterator

from dragoman.data.bitext import Bitext, CleanedBitext, Corpus
from dragoman.data.check.alignment import Alignment
from dragoman.data.check.damage import Damage
from dragoman.data.check.languages import Languages
from dragoman.data.check.places import Place
from dragoman.data.check.repeats import Repeats, overlaps, remaining
from dragoman.data.check.report import Finding, Part, PartReport, Report, Side
from dragoman.data.check.sizes import Sizes
from dragoman.data.check.verdict import account, training_warnings, verdict

__all__ = ["Finding", "PartReport", "Place", "Report", "check", "training_warnings"]


def check(
    train: CleanedBitext,
    *,
    held_out: dict[Part, Bitext] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Look through the corpora of `train` and the held-out parts `valid` and `test`, as far as they are given.

    `progress` is called with the number of pairs read since the last call. Memory grows by 24 bytes a pair. Raises
    `DataError` if a file cannot be read.
    """
    parts: list[PartReport] = []
    findings: list[Finding] = []
    repeats: dict[Part, Repeats] = {}
    for name, bitext in {"train": train, **(held_out or {})}.items():
        report = PartReport(name, bitext.name, Side(bitext.source_language), Side(bitext.target_language))
        # What is held out is scored as it is.
        corpora, rules = (train.corpora, train.rules) if bitext is train else ([Corpus(bitext)], None)
        repeats[name] = Repeats(report, rules)
        # Sizes come first: the others need the number of pairs.
        looks = [Sizes(report), repeats[name], Damage(report), Alignment(report), Languages(report)]
        for block in report.places.blocks(corpus.bitext for corpus in corpora):
            for look in looks:
                look.add(block)
            progress(len(block.sources))
        findings += _skipped(report)
        for look in looks:
            findings += look.findings()
        parts.append(report)
    findings += overlaps(repeats)
    findings = sorted(_first_causes(findings), key=lambda finding: finding.severity != "problem")
    num_pairs, split_off = remaining(repeats), len(repeats) < 3
    trainable, sentences = verdict(num_pairs, findings, words=parts[0].source.words.mean, split_off=split_off)
    return Report(parts, findings, trainable, [*account(parts[0]), *sentences])


def _skipped(report: PartReport) -> Iterator[Finding]:
    """What the files have instead of pairs."""
    for reason, tally in report.places.skipped.items():
        report.dropped[reason] = tally.count
        what, advice = f"entries that are no pairs ({reason})", "`train` leaves them out"
        yield Finding("skipped", "note", what, tally.count, tally.examples, report.entries, advice, report.part)


def _first_causes(findings: list[Finding]) -> list[Finding]:
    """Without what follows from another: an exchanged pair may fit the sides of its neighbours, which are of its text.

    In a sorted corpus the next line often translates the same sentence.
    """
    exchanged = {finding.part for finding in findings if finding.kind == "exchanged" and finding.severity == "problem"}
    return [finding for finding in findings if finding.kind != "misaligned" or finding.part not in exchanged]
