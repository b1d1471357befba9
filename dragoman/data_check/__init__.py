"""Checks a bitext without training: its content, its faults and the quality to expect."""

from collections.abc import Callable, Iterable

from dragoman.data.bitext import Bitext, CleanedBitext, Corpus
from dragoman.data.splitting import MIN_PAIRS
from dragoman.data_check.alignment import AlignmentCheck
from dragoman.data_check.apart import by_languages
from dragoman.data_check.damage import DamageCheck
from dragoman.data_check.faults import LOOKED_FOR, FaultCheck
from dragoman.data_check.languages import LanguageCheck
from dragoman.data_check.locations import Location
from dragoman.data_check.repeats import RepeatCheck, overlaps, remaining, source_hashes
from dragoman.data_check.result import CheckResult, Finding, Part, PartResult, Side, finding_kinds
from dragoman.data_check.sizes import SizeCheck
from dragoman.data_check.spellings import SpellingCheck
from dragoman.data_check.twins import TwinCheck
from dragoman.data_check.verdict import account, training_warnings, verdict

APART = "misaligned", "unrelated", "exchanged", "language", "foreign"
"""Kinds of findings about sides that do not belong together."""
__all__ = ["CheckResult", "Finding", "Location", "PartResult", "by_languages", "check", "training_warnings"]


def check(
    train: CleanedBitext,
    *,
    held_out: dict[Part, Bitext] | None = None,
    elsewhere: Iterable[Bitext] = (),
    fewest: int = MIN_PAIRS,
    examples: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> CheckResult:
    """Look through the corpora of `train` and the held-out parts `valid` and `test`, as far as they are given.

    Sources that are held out `elsewhere`, for other languages, are not trained on either. Each part gives so many
    `examples`, drawn at random. `progress` is called with the number of pairs read since the last call. The pairs
    of `train` are read once more if parts are held out. `fewest` are needed to split some off. Memory grows by 32
    bytes a pair. Raises `DataError` if a file cannot be read.
    """
    parts: list[PartResult] = []
    findings: list[Finding] = []
    repeats: dict[Part, RepeatCheck] = {}
    twin_checks: list[TwinCheck] = []
    for name, bitext in {"train": train, **(held_out or {})}.items():
        result = PartResult(name, bitext.name, Side(bitext.source_language), Side(bitext.target_language))
        corpora = [Corpus(bitext)]
        if bitext is train:  # what is held out is not cleaned: it is scored as it is
            corpora, result.rules = train.corpora, train.rules
        repeats[name] = RepeatCheck(result)
        # Sizes come first: the others need the number of pairs.
        # Faults come last: they need the languages.
        languages = LanguageCheck(result)
        checks = [
            SizeCheck(result),
            repeats[name],
            DamageCheck(result),
            AlignmentCheck(result),
            languages,
            FaultCheck(result, languages),
            SpellingCheck(result, languages),
        ]
        if bitext is not train:
            twin_checks.append(TwinCheck(result))
            checks.append(twin_checks[-1])
        for block in result.locations.blocks(corpus.bitext for corpus in corpora):
            for part_check in checks:
                part_check.add(block)
            progress(len(block))
        for reason, tally in result.locations.skipped.items():
            result.dropped[reason] = tally.count
            kind = reason if reason in finding_kinds() else "skipped"
            findings.append(result.finding(kind, tally, result.entries, {"reason": reason}))
        for part_check in checks:
            findings += part_check.findings()
        result.examples = languages.examples(examples)
        parts.append(result)
    findings += overlaps(repeats)
    # `train` leaves out pairs whose source is held out.
    findings += TwinCheck.twins(twin_checks, train.cleaned(held_out=(held_out or {}).values()))
    findings = sorted(_first_causes(findings), key=lambda finding: finding.severity != "problem")
    num_pairs = remaining(repeats, source_hashes(elsewhere))  # completes the counts of what `train` leaves out
    words = parts[0].source.words.mean
    needed = fewest if len(parts) < 3 else 1
    trainable, sentences = verdict(num_pairs, findings, words=words, needed=needed)
    return CheckResult(parts, findings, trainable, [*account(parts[0]), *sentences], num_pairs)


def _first_causes(findings: list[Finding]) -> list[Finding]:
    """Leaves out findings that follow from others.

    An exchanged pair may seem misaligned, since it fits the sides of its neighbours, which are in its languages. In a
    sorted corpus the next line often translates the same sentence. Sides that do not belong together differ in numbers
    and names, too.
    """
    exchanged = {finding.part for finding in findings if finding.kind == "exchanged" and finding.severity == "problem"}
    apart = {finding.part for finding in findings if finding.kind in APART}
    return [
        finding
        for finding in findings
        if not (finding.kind == "misaligned" and finding.part in exchanged)
        and not (finding.kind in LOOKED_FOR and finding.part in apart)
    ]
