"""Speed and quality of models beside each other, such as a teacher and its students, at equal precision.

    .venv/bin/python benchmarks/students.py SOURCE REFERENCE MODEL [MODEL ...] [--beam 1 --beam 5] [--rounds 3]

Each model translates the sentences on one thread, with each beam size and in each precision that the processor
multiplies, one after the other, round by round. The last column compares with the first model and the largest beam.
"""

import argparse
import gc
from functools import partial
from pathlib import Path

from table import OURS, Contestant, Row, Table, add_options, precisions, rate, show, tournament


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("models", nargs="+", metavar="MODEL", type=Path)
    parser.add_argument("--beam", type=int, action="append", help="repeatable; default 1, 2 and 5")
    parser.add_argument("--precision", action="append", help="repeatable; default float32, bfloat16 if quick, and int8")
    add_options(parser, rounds=3)
    arguments = parser.parse_args()
    from dragoman.cli import tune_process

    tune_process()
    import torch

    torch.set_num_threads(1)
    show([compared(arguments, precision) for precision in arguments.precision or [*precisions(), "int8"]], arguments)


def compared(arguments: argparse.Namespace, precision: str) -> Table:
    """One table, of sentences a second."""
    from dragoman.decoding.translator import Translator

    sources, references = (
        path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        for path in (arguments.source, arguments.reference)
    )
    beams, about = sorted(arguments.beam or (1, 2, 5)), {"BLEU": "", "times as fast": ""}
    contestants = []
    for path in arguments.models:
        translator = Translator.load(path, precision=precision)
        for beam in beams:
            run = partial(translated, translator, sources, references, beam, columns := dict(about))
            contestants.append(Contestant(f"{OURS} {path.name}, beam {beam}", {"one thread": run}, columns))
    gc.freeze()  # as the commands do
    rows: list[Row] = tournament(contestants, arguments.rounds)
    for row in rows:
        row.about["times as fast"] = f"{row.median / rows[len(beams) - 1].median:.2f}"
    return Table(f"Models in {precision}", "sentences/s", rows)


def translated(translator, sources: list[str], references: list[str], beam: int, columns: dict[str, str]) -> float:
    """Sentences a second; BLEU goes into `columns`."""
    from dragoman.evaluation.scores import score

    texts: list[str] = []

    def translate() -> int:
        texts.extend(translation.text for translation in translator.translate(sources, beam_size=beam, split=False))
        return len(texts)

    speed = rate(translate)
    if not columns["BLEU"]:
        scores = score(texts, references, sources=sources, target_language=translator.languages[1])
        columns["BLEU"] = f"{scores['bleu'].value:.2f}"
    return speed


if __name__ == "__main__":
    main()
