"""Are translations too short? Shortest lengths, length penalties and minimum Bayes risk, with what each gives.

    .venv/bin/python benchmarks/lengths.py MODEL SOURCES REFERENCES [--most 300] [--mbr 24]

A shortest length is a share of the usual one, which follows from the number of target tokens for each source token in
the training pairs: for sources of average length, and more for longer ones, as the model stores it with a share of 0.6;
or the same share for all. Prints BLEU, chrF (as AmericasNLP scores: without words), chrF++ and the length of the
translations by that of the references, in characters, and the minutes.
"""

import argparse
import time
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translator import Translator
from dragoman.runs.train import SHORTEST
from dragoman.storage.validate import decoding_defaults
from dragoman.system.processes import available_workers
from spelling import read

SHARES = 0.5, 0.6, 0.7, 0.8
PENALTIES = 1.5, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--mbr", type=int, default=24)
    arguments = parser.parse_args()
    sources, references = (read(path)[: arguments.most] for path in (arguments.sources, arguments.references))
    references = [reference.strip() for reference in references]
    stored = decoding_defaults(arguments.model)
    if stored.min_ratio and not stored.min_slack:
        parser.error(f"{arguments.model} has the same shortest length for all sources; train it anew.")
    usual, slack = stored.min_ratio or 0.0, (stored.min_slack or 0.0) / (1 - SHORTEST)
    none = {"min_ratio": 0.0}
    default = {"min_ratio": usual, "min_slack": stored.min_slack or 0.0}
    searches: dict[str, dict[str, float]] = {"any length": none}
    for share in SHARES:
        searches[f"average sources {share:g}"] = {"min_ratio": usual, "min_slack": (1 - share) * slack}
        searches[f"all sources {share:g}"] = {"min_ratio": share * usual}
    searches |= {f"length penalty {penalty:g}": none | {"length_penalty": penalty} for penalty in PENALTIES}
    searches[f"mbr {arguments.mbr}"] = none | {"mbr": arguments.mbr}
    searches[f"mbr {arguments.mbr}, as stored"] = default | {"mbr": arguments.mbr}
    print("| | BLEU | chrF | chrF++ | length | minutes |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    with Translator.load(arguments.model, workers=available_workers()) as translator:
        for name, options in searches.items():
            started = time.perf_counter()
            search = DecodingConfig.validate(options).alone()
            texts = [translation.text.strip() for translation in translator.translate(sources, search)]
            minutes = (time.perf_counter() - started) / 60
            scores = [metric.corpus_score(texts, [references]).score for metric in (BLEU(), CHRF(), CHRF(word_order=2))]
            length = sum(map(len, texts)) / sum(map(len, references))
            print(
                f"| {name} | {' | '.join(f'{score:.2f}' for score in scores)} | {length:.2f} | {minutes:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
