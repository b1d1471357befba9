"""What unusual case costs, and whether numbers, addresses and the like come through.

    .venv/bin/python benchmarks/inputs.py MODEL SOURCE REFERENCE [--pairs 1000]

BLEU of the test pairs as they are, and with sources IN CAPITALS, In Title Case and in small letters; of capitals beside
references in capitals. Then each of the values below is put into the first hundred sources, before the last mark: how
many translations have it, unchanged and once, and BLEU of the rest.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from dragoman.data.readers.two_files import open_two_files
from dragoman.data.readers.types import ReaderOptions
from dragoman.decoding.translator import Translator
from dragoman.evaluation.scores import score
from dragoman.metrics import MAIN
from dragoman.system.processes import available_workers
from table import Row, Table, add_options, show

CASES = {"as it is": str, "in capitals": str.upper, "title case": str.title, "small letters": str.lower}
VALUES = (
    *("1,234.56", "2024-05-06", "12:30", "192.168.1.1", "+49 30 1234", "48213", "3.1415", "https://example.org/a?b=c"),
    *("me@example.org", "@someone", "/usr/bin/env", "{name}", "%s", "<b>", "🎉", "👍🏽", "NASA", "COVID-19", "A380"),
)
WITH_VALUES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--pairs", type=int, default=1000)
    add_options(parser, rounds=1)
    arguments = parser.parse_args()
    _, reader = open_two_files(arguments.source, arguments.reference, ReaderOptions())
    sources, references = zip(*(pair for _, pair in islice(reader.read(), arguments.pairs)), strict=True)
    with Translator.load(arguments.model, workers=available_workers()) as translator:
        rows = [case(translator, name, sources, references) for name in CASES]
        values = copied(translator, sources[:WITH_VALUES], references[:WITH_VALUES])
    show([Table("Case", "BLEU", rows, ("sacrebleu",)), Table("Copied", "%", values)], arguments)


def case(translator: Translator, name: str, sources: Sequence[str], references: Sequence[str]) -> Row:
    """BLEU of the sources in this case."""
    expected = list(map(str.upper, references)) if name == "in capitals" else references
    return Row(name, "", [bleu(translated(translator, map(CASES[name], sources)), expected)])


def copied(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> list[Row]:
    """The share of the translations that have each value, and BLEU of the rest of them."""
    rows = []
    for value in VALUES:
        translations = translated(
            translator, (re.sub(r"\s*([.!?。]?)$", rf" {value}\1", source, count=1) for source in sources)
        )
        rest = [re.sub(rf" ?{re.escape(value)}", "", text, count=1) for text in translations]
        rows.append(Row(value, "", [100 * sum(text.count(value) == 1 for text in translations) / len(translations)]))
        rows[-1].about["BLEU of the rest"] = f"{bleu(rest, references):.1f}"
    return rows


def translated(translator: Translator, sources: Iterable[str]) -> list[str]:
    return [translation.text for translation in translator.translate(sources, split=False)]


def bleu(translations: Sequence[str], expected: Sequence[str]) -> float:
    return score(translations, expected, metrics=[MAIN])[MAIN.name].value


if __name__ == "__main__":
    main()
