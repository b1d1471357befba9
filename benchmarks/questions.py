"""How many questions without their mark are known by their words, in sentences whose words were not counted.

    .venv/bin/python benchmarks/questions.py fra.txt [--target]

3,000 of the pairs, drawn at random, are held out; the others are counted as `dragoman train` does. With --target the
second column is the source.
"""

import argparse
import random
from pathlib import Path

from dragoman.text.stops import StopCounts, with_mark
from dragoman.text.variants import no_final_mark

HELD_OUT = 3_000
QUESTION_MARKS = "?？؟"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="a file of pairs, a tab between source and target")
    parser.add_argument("--target", action="store_true", help="the second column is the source")
    arguments = parser.parse_args()
    pairs = [line.split("\t")[:2] for line in arguments.pairs.read_text(encoding="utf-8").splitlines()]
    pairs = [pair[::-1] if arguments.target else pair for pair in pairs if len(pair) == 2]
    random.Random(3).shuffle(pairs)
    counts = StopCounts()
    for source, target in pairs[HELD_OUT:]:
        counts.add(source, target)
    marks = counts.marks()
    seen = questions = wrong = others = 0
    for source, _ in pairs[:HELD_OUT]:
        shorter, _ = no_final_mark(source, source, random.Random(0))
        if shorter == source:
            continue
        is_taken = with_mark(shorter, marks)[-1] in QUESTION_MARKS
        if source.rstrip()[-1] in QUESTION_MARKS:
            questions, seen = questions + 1, seen + is_taken
        else:
            others, wrong = others + 1, wrong + is_taken
    print(f"{seen} of {questions} questions are seen, {wrong} of {others} other sentences are taken for one.")


if __name__ == "__main__":
    main()
