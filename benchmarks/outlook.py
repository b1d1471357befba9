"""Does it come as predicted? Runs of twice the steps, and on twice the pairs, beside what the run before said of them.

    .venv/bin/python benchmarks/outlook.py train.en train.de --languages en,de [--steps 150 300 600] [--pairs]

Trains with the defaults for each number of steps, each twice the one before, and prints the gain in BLEU of the test
pairs beside the prediction of "What would help" (docs/scores.md). With --pairs it trains on an eighth, a quarter, a
half and all of the pairs instead, for as large a share of the last number of steps, and predicts the last run from the
others.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.config.settings import parse_settings
from dragoman.runs.learning_curve import point_of
from dragoman.runs.outlook import CurvePoint, Gain, gain_of_minutes, gain_of_pairs
from dragoman.runs.plan import plan_run
from dragoman.runs.train import start_run
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.run_directory import RunDirectory
from dragoman.terminal import Display

SHARES = 0.125, 0.25, 0.5, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--steps", type=int, nargs="+", default=[150, 300, 600])
    parser.add_argument("--pairs", action="store_true")
    arguments = parser.parse_args()
    languages = json.dumps(arguments.languages.split(","))
    with TemporaryDirectory() as folder:
        path = Path(folder)

        def train(steps: int, share: float) -> tuple[CurvePoint, Gain | None]:
            """The point of a run, and what it says of twice its steps."""
            settings = [f"data.languages={languages}", f"data.share={share}", f"training.max_steps={steps}"]
            output = path / f"{steps}-{share:g}"
            config, pairs = plan_run(arguments.files, recipe=None, settings=parse_settings(settings), near=path)
            evaluation = start_run(pairs, config, output, listener=Display(quiet=True))
            run = RunDirectory(output)
            point = point_of(share, run.about()["train_pairs"], evaluation)
            return point, gain_of_minutes(list(read_metrics(run.metrics)))

        if arguments.pairs:
            *parts, whole = (train(round(share * arguments.steps[-1]), share)[0] for share in SHARES)
            report(f"{parts[-1].pairs:,} to {whole.pairs:,} pairs", parts[-1], whole, gain_of_pairs(parts))
            return
        before, predicted = train(arguments.steps[0], 1.0)
        for steps in arguments.steps[1:]:
            after, next_gain = train(steps, 1.0)
            report(f"{steps // 2:,} to {steps:,} steps", before, after, predicted)
            before, predicted = after, next_gain


def report(name: str, before: CurvePoint, after: CurvePoint, predicted: Gain | None) -> None:
    gain = after.score - before.score
    if predicted is None:
        verdict = "nothing was predicted"
    else:
        verdict = "as predicted" if predicted.low <= gain <= predicted.high else "not as predicted"
    print(
        f"{name}: BLEU {before.score:.2f}, {after.score:.2f}: {gain:+.1f}; predicted {predicted}: {verdict}", flush=True
    )


if __name__ == "__main__":
    main()
