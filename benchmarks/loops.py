"""Do short and strange inputs make a model loop? A thousand single words and sentences in capitals.

    .venv/bin/python benchmarks/loops.py MODEL SOURCE [--inputs 1000]

SOURCE is a file of sentences (of its first column) in the source language. Prints for several settings of the guard how
many of the translations say a phrase more than three times in a row, or three tokens more than four times anywhere,
where the source does not; and how many were cut at the length limit.
"""

import argparse
import random
import re
from pathlib import Path

from dragoman.decoding.rules import most_copies, most_times
from dragoman.decoding.translator import Translator
from dragoman.formats.text_files import open_input, read_lines
from dragoman.system.processes import available_workers
from dragoman.text.tokenizers.tokenizer import Tokenizer


def odd_inputs(path: Path, number: int) -> list[str]:
    """35 % words, 30 % words in capitals, 35 % sentences in capitals."""
    with open_input(path) as stream:
        sentences = sorted({line.split("\t")[0] for line in read_lines(stream, str(path))})
    words = sorted({word for sentence in sentences for word in re.findall(r"[^\W\d_]+", sentence)})
    dice, large, small = random.Random(1), number * 35 // 100, number * 30 // 100
    capitals = [*dice.sample(words, small), *dice.sample(sentences, large)]
    return [*dice.sample(words, large), *map(str.upper, capitals)]


def loops(source: list[int], target: list[int]) -> bool:
    """Whether a translation repeats itself, and its source does not."""
    in_a_row, anywhere = max(3, most_copies(source)), max(4, most_times(source), len(source) // 10)
    return most_copies(target) > in_a_row or most_times(target) > anywhere


def count(translator: Translator, texts: list[str], **options: int) -> tuple[int, int]:
    """Translations that loop, and those that were cut."""
    tokenizer: Tokenizer = translator.source_tokenizer
    hypotheses = [group[0] for group in translator.search(texts, **options)]
    pairs = zip(tokenizer.encode_batch(texts), hypotheses, strict=True)
    return sum(loops(source, best.tokens) for source, best in pairs), sum(not best.finished for best in hypotheses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("source", type=Path)
    parser.add_argument("--inputs", type=int, default=1000)
    arguments = parser.parse_args()
    texts = odd_inputs(arguments.source, arguments.inputs)
    print("| beam | max_copies | loop | cut |\n| ---: | ---: | ---: | ---: |")
    with Translator.load(arguments.model, workers=available_workers()) as translator:
        for beam_size in (5, 1):
            for max_copies in (0, 3):
                looping, cut = count(translator, texts, beam_size=beam_size, max_copies=max_copies)
                print(f"| {beam_size} | {max_copies} | {looping} | {cut} |", flush=True)


if __name__ == "__main__":
    main()
