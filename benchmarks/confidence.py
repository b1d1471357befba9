"""How well the confidence of translations holds, on the test pairs of a run and on pairs of another kind.

    .venv/bin/python benchmarks/confidence.py RUN [RUN=SOURCE,TARGET ...] [--picture out.svg] [--json]

Each RUN is a model directory with its run/. Its confidence is fitted to its validation pairs, as `train` does it, and
tried on its test pairs, and with `=SOURCE,TARGET` also on two aligned files, or on the two first columns of one. Prints
how far what is expected is from what is measured, in tenths of the translations (mean and largest), and the area under
risk against coverage, by the confidence and by the mean log-probability of the tokens: lower is better.
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np

from dragoman.data.bitext import Bitext
from dragoman.decoding.translator import Translator
from dragoman.engine.confidence import SIGNS
from dragoman.evaluation.calibration import Bin, Scored, fit, reliability, risk_area, score_translations
from dragoman.runs.finish import CALIBRATED
from dragoman.storage.beside import read_sketch
from dragoman.system.processes import available_workers

MOST = 2_000


def pairs_in(file: Path) -> list[tuple[str, str]]:
    return [(source, target) for source, target in json.loads(file.read_text(encoding="utf-8"))][:MOST]


def pairs_of(files: list[str]) -> list[tuple[str, str]]:
    pairs = list(Bitext.open(*files))
    return random.Random(1).sample(pairs, min(MOST, len(pairs)))


def measured(name: str, bins: list[Bin], expected: np.ndarray, scored: Scored) -> dict:
    distances = [abs(part.expected - part.measured) for part in bins]
    log_probs = np.nan_to_num(scored.features[:, list(SIGNS).index("mean_log_prob")])
    return {
        "pairs": name,
        "count": len(scored),
        "expected": float(expected.mean()),
        "measured": float(scored.similarity.mean()),
        "mean error": float(np.mean(distances)),
        "largest error": max(distances),
        "risk": risk_area(expected, scored.similarity),
        "risk by log-probability": risk_area(log_probs, scored.similarity),
        "bins": [(part.expected, part.measured) for part in bins],
    }


def trial(run: Path, others: list[list[str]]) -> list[dict]:
    rows = []
    sketch = read_sketch(run)
    with Translator.load(run, workers=available_workers()) as translator:
        fitted = fit(score_translations(translator, pairs_in(run / "run/data/valid.json")[:CALIBRATED], sketch))
        named = {"its test pairs": pairs_in(run / "run/data/test.json")}
        named |= {", ".join(Path(file).name for file in files): pairs_of(files) for files in others}
        for name, pairs in named.items():
            scored = score_translations(translator, pairs, sketch)
            expected = np.array([row.confidence for row in fitted(scored.features)])
            rows.append(measured(f"{run.name}: {name}", reliability(expected, scored.similarity), expected, scored))
    return rows


def draw(rows: list[dict], file: Path) -> None:
    """Reliability curves: what is expected against what is measured, a line for each set of pairs."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "confidence"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.4, 4.6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--", label="as expected")
    for row in rows:
        axes.plot(*zip(*row["bins"], strict=True), marker="o", markersize=3, linewidth=1.2, label=row["pairs"])
    axes.set(xlabel="confidence", ylabel="measured chrF++ / 100", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(fontsize=7, frameon=False)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    others: dict[str, list[list[str]]] = {}
    for text in arguments.runs:
        run, _, files = text.partition("=")
        others.setdefault(run, []).extend([files.split(",")] if files else [])
    rows = [row for run, files in others.items() for row in trial(Path(run), files)]
    if arguments.picture:
        draw(rows, arguments.picture)
    if arguments.json:
        print(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        print(
            f"{row['pairs']:45s} {row['count']:5d}  expected {row['expected']:.3f}, measured {row['measured']:.3f}; "
            f"off by {row['mean error']:.3f}, at most {row['largest error']:.3f}; risk {row['risk']:.4f}, by "
            f"log-probability {row['risk by log-probability']:.4f}"
        )


if __name__ == "__main__":
    main()
