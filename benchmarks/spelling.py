"""BLEU of a model on sentences in which one thing is spelled otherwise: a no-break space, a curly quote, an ellipsis.

    python benchmarks/spelling.py MODEL SOURCE REFERENCE [--sentences 1000]

prints a row for each disturbance. A row has two scores on the sentences that the disturbance changes: as they are, and
changed. Two rows are about final stops: sentences of which source and reference have lost theirs are titles.
"""

import argparse
import random
import re
from collections.abc import Callable
from pathlib import Path

import sacrebleu

from dragoman.decoding.translator import Translator
from dragoman.formats.text_files import open_input

STOP = re.compile(r"\s*[.。]$")


def instead_of_space(other: str) -> Callable[[str, random.Random], str]:
    """Puts something in place of one of the spaces."""

    def disturbed(text: str, dice: random.Random) -> str:
        spaces = [match.span() for match in re.finditer(" ", text)]
        start, end = dice.choice(spaces or [(0, 0)])
        return text[:start] + (other if spaces else "") + text[end:]

    return disturbed


def within_word(other: str) -> Callable[[str, random.Random], str]:
    """Puts something between two letters."""

    def disturbed(text: str, dice: random.Random) -> str:
        seams = [match.end() for match in re.finditer(r"\w(?=\w)", text)]
        at = dice.choice(seams or [0])
        return text[:at] + (other if seams else "") + text[at:]

    return disturbed


def replaced(pairs: dict[str, str]) -> Callable[[str, random.Random], str]:
    return lambda text, dice: text.translate(str.maketrans(pairs))


def quoted(text: str, dice: random.Random) -> str:
    return re.sub(r'"([^"]*)"', "“\\1”", text)


def with_ellipsis(text: str, dice: random.Random) -> str:
    return text.replace("...", "…")


DISTURBANCES: dict[str, Callable[[str, random.Random], str]] = {
    "no-break space": instead_of_space("\xa0"),
    "narrow no-break space": instead_of_space("\u202f"),
    "tab": instead_of_space("\t"),
    "two spaces": instead_of_space("  "),
    "soft hyphen": within_word("\xad"),
    "zero-width space": within_word("\u200b"),
    "control character": within_word("\x07"),
    "curly apostrophes": replaced({"'": "’"}),
    "curly quotes": quoted,
    "ellipsis": with_ellipsis,
    "no-break hyphen": replaced({"-": "\u2011"}),
    "ligatures": lambda text, dice: text.replace("fi", "ﬁ").replace("fl", "ﬂ"),
    "full-width marks": replaced({",": "，", "?": "？", "!": "！"}),
    "decomposed": lambda text, dice: text.replace("é", "e\u0301"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam-size", type=int, default=5)
    arguments = parser.parse_args()
    sources, references = (read(path)[: arguments.sentences] for path in (arguments.source, arguments.reference))
    translator = Translator.load(arguments.model)

    def translated(texts: list[str]) -> list[str]:
        return [translation.text for translation in translator.translate(texts, beam_size=arguments.beam_size)]

    clean = translated(sources)
    print(f"{'disturbance':24}{'sentences':>10}{'clean':>8}{'disturbed':>11}{'same':>8}")
    print(f"{'none':24}{len(sources):10}{bleu(clean, references):8.2f}")
    for name, disturb in DISTURBANCES.items():
        dice = random.Random(1)
        changed = {row: new for row, old in enumerate(sources) if (new := disturb(old, dice)) != old}
        if not changed:
            continue
        before, after = [clean[row] for row in changed], translated(list(changed.values()))
        expected, same = [references[row] for row in changed], sum(map(str.__eq__, before, after)) / len(changed)
        print(f"{name:24}{len(changed):10}{bleu(before, expected):8.2f}{bleu(after, expected):11.2f}{same:8.1%}")
    stopped = [row for row in range(len(sources)) if sources[row].endswith(".") and STOP.search(references[row])]
    titles, expected = ([STOP.sub("", side[row]) for row in stopped] for side in (sources, references))
    after = translated(titles)
    before = [STOP.sub("", clean[row]) for row in stopped]
    with_stop = sum(bool(STOP.search(text)) for text in after)
    print(f"{'no final stop':24}{len(stopped):10}{bleu(before, expected):8.2f}{bleu(after, expected):11.2f}")
    print(f"{with_stop} of {len(stopped)} titles were given a final stop.")


def read(path: Path) -> list[str]:
    with open_input(path) as stream:
        return stream.read().decode().splitlines()


def bleu(translations: list[str], references: list[str]) -> float:
    return sacrebleu.corpus_bleu(translations, [references]).score


if __name__ == "__main__":
    main()
