"""Train on the machines of a Ray cluster.

    python launch/ray_train.py --workers 16 --gpus -- train.en train.de --output /shared/runs/en-de

What follows `--` is what `dragoman train` takes; the files have to be on a disk that all machines see. A worker that is
lost is started again, and the run goes on from its last checkpoint.
"""

import argparse
import os
import sys
from typing import Any

from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train(config: dict[str, Any]) -> None:
    """One rank; Ray has set the variables that torchrun sets, and made the process group."""
    from dragoman.cli import main

    os.chdir(config["folder"])  # Ray's own folder is another on each machine
    sys.argv = ["dragoman", "train", *config["arguments"]]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"dragoman train ended with exit code {ended.code}; see its message above.") from None


def run() -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, required=True, help="number of ranks")
    parser.add_argument("--gpus", action="store_true", help="a GPU for each")
    parser.add_argument("arguments", nargs="+", help="arguments of `dragoman train`")
    options = parser.parse_args()
    trainer = TorchTrainer(
        train,
        train_loop_config={"arguments": options.arguments, "folder": os.getcwd()},
        scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpus),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    )
    trainer.fit()


if __name__ == "__main__":
    run()
