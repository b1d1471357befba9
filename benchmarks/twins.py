"""How surely near copies of test sentences are found among training pairs, and how fast.

    .venv/bin/python benchmarks/twins.py SOURCE TARGET [--held-out 1000] [--seeds 3]

Holds out pairs of two aligned files at random, and adds copies of half of the held-out sources to the other pairs, each
changed in one of five ways: a word, case, punctuation, a number, or the order of two parts. Prints which share of them
is found (recall), which share of what is found was added (precision, which counts sentences that are near copies by
nature as wrong), and the seconds that the search takes on all cores.
"""

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path

from dragoman.data.readers.types import Pair
from dragoman.data.twins import find_twins

NUMBERS = {"a", "one", "two", "three", "four", "five"}
Change = Callable[[list[str], random.Random, list[str]], list[str]]


def changed_word(words: list[str], dice: random.Random, vocabulary: list[str]) -> list[str]:
    words[dice.randrange(len(words))] = dice.choice(vocabulary)
    return words


def changed_number(words: list[str], dice: random.Random, _: list[str]) -> list[str]:
    places = [index for index, word in enumerate(words) if word.lower() in NUMBERS or word.isdecimal()]
    if places:
        words[dice.choice(places)] = dice.choice(["2", "7", "twelve"])
    return words


def turned(words: list[str], dice: random.Random, _: list[str]) -> list[str]:
    start = dice.randrange(1, max(2, len(words)))
    return words[start:] + words[:start]


CHANGES: dict[str, Change] = {
    "word": changed_word,
    "case": lambda words, dice, _: [*map(dice.choice([str.upper, str.lower, str.title]), words)],
    "punctuation": lambda words, dice, _: [*words[:-1], words[-1].rstrip(".") + dice.choice(["", "!", "?!", " ..."])],
    "number": changed_number,
    "order": turned,
}


def trial(pairs: list[Pair], held_out: int, seed: int) -> tuple[dict[str, float], float, float]:
    """Recall by change, precision, and seconds."""
    dice = random.Random(seed)
    pairs = dice.sample(pairs, len(pairs))
    vocabulary = sorted({word for source, _ in pairs[:5_000] for word in source.split()})
    tested, train = pairs[:held_out], pairs[held_out:]
    copied = {index: [*CHANGES][index % len(CHANGES)] for index in range(held_out // 2) if tested[index][0].split()}
    for index, change in copied.items():
        train.append((" ".join(CHANGES[change](tested[index][0].split(), dice, vocabulary)), ""))
    dice.shuffle(train)
    started = time.perf_counter()
    found = set(find_twins(tested, train).indices())
    seconds = time.perf_counter() - started
    recall = {}
    for change in CHANGES:
        indices = [index for index, made in copied.items() if made == change]
        recall[change] = sum(index in found for index in indices) / len(indices)
    return recall, len(found & copied.keys()) / max(1, len(found)), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--held-out", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    sides = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in (arguments.source, arguments.target)]
    pairs = list(zip(*sides, strict=True))
    print(f"{len(pairs):,} pairs, {arguments.held_out:,} held out, half of them copied\n")
    print(f"| seed | {' | '.join(CHANGES)} | precision | s |\n|{' ---: |' * (len(CHANGES) + 3)}")
    for seed in range(1, arguments.seeds + 1):
        recall, precision, seconds = trial(pairs, arguments.held_out, seed)
        shares = " | ".join(f"{share:.1%}" for share in recall.values())
        print(f"| {seed} | {shares} | {precision:.1%} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
