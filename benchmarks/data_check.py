"""How often `dragoman data check` is wrong, and how fast it is, on many corpora that are known to be aligned.

    .venv/bin/python benchmarks/data_check.py FOLDER [--every 8]

FOLDER holds a folder for each corpus, with one file for each of its two sides, as the test sets of the Tatoeba
Translation Challenge do when they are unpacked. Prints how many corpora are called misaligned or unrelated, which none
is; how many of every N-th are found when their targets are put out of step by one line from the middle on, and when
they are shuffled; and the speed of a whole check of all pairs, one corpus after the other as one.
"""

import argparse
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from dragoman.config.data import CleaningConfig
from dragoman.data.bitext import Bitext
from dragoman.data_check import check
from dragoman.data_check.alignment import BLURRED, FEWEST, AlignmentCheck
from dragoman.data_check.result import Finding, PartResult, Side

Pairs = list[tuple[str, str]]


def misaligned(sources: list[str], targets: list[str]) -> list[Finding]:
    """Findings of the alignment check."""
    pairs: Pairs = list(zip(sources, targets, strict=True))
    result = PartResult("train", "corpus", Side(None), Side(None), pairs=len(pairs))
    alignment = AlignmentCheck(result)
    for block in result.locations.blocks([Bitext(lambda: pairs, name="corpus")]):
        alignment.add(block)
    return list(alignment.findings())


def is_at(findings: list[Finding], line: int) -> bool:
    """Whether they say that targets come one line earlier from this line on."""
    places = [(finding.examples[0].number, finding.what) for finding in findings]
    return len(places) == 1 and abs(places[0][0] - line) <= BLURRED and "1 pair earlier" in places[0][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=8, help="put every N-th corpus out of step (default 8)")
    arguments = parser.parse_args()
    corpora = [sorted(folder.iterdir()) for folder in sorted(arguments.folder.iterdir())]
    false_alarms, shifted, shuffled, missed = 0, [], [], []
    for number, files in enumerate(corpora):
        sources, targets = map(list, zip(*Bitext.open(*files), strict=True))
        false_alarms += bool(misaligned(sources, targets))
        if number % arguments.every == 0:
            middle = len(targets) // 2
            late = [*targets[:middle], *targets[middle + 1 :], targets[middle]]
            shifted.append(is_at(misaligned(sources, late), middle + 1))
            missed += [] if shifted[-1] else [len(targets)]
            random.Random(1).shuffle(targets)
            if len(targets) >= FEWEST + BLURRED:
                shuffled.append(any(finding.kind == "unrelated" for finding in misaligned(sources, targets)))
    print(f"{len(corpora)} aligned corpora: {false_alarms} called misaligned or unrelated")
    print(
        f"{len(shifted)} out of step from the middle on: {sum(shifted)} found there; missed, of pairs: {sorted(missed)}"
    )
    print(f"{len(shuffled)} shuffled: {sum(shuffled)} called unrelated")

    def everything() -> Iterator[tuple[str, str]]:
        for files in corpora:
            yield from Bitext.open(*files)

    started = time.process_time()
    result = check(Bitext(everything, name="all").cleaned(CleaningConfig()))
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{result.parts[0].pairs:,} pairs checked in {seconds:.1f} s of processor time, at most {peak:,.0f} MB")


if __name__ == "__main__":
    main()
