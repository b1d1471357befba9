"""Scores translations by COMET: a program for the Python that has unbabel-comet, of which it needs nothing else.

    python comet_worker.py CHECKPOINT < samples.json > scores.json

Nothing is fetched: the libraries are told to stay offline before they are loaded.
"""

import json
import os
import sys

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def main() -> None:
    """Read samples, each with `src`, `mt` and `ref`, and write a score for each of them."""
    os.environ.update(OFFLINE)
    answer, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no score
    samples = json.load(sys.stdin)
    here = os.path.dirname(os.path.abspath(__file__))  # which has a comet.py of its own
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    from comet import load_from_checkpoint
    from torch.cuda import is_available

    model = load_from_checkpoint(sys.argv[1], local_files_only=True)
    prediction = model.predict(samples, batch_size=16, gpus=int(is_available()), progress_bar=False)
    json.dump([float(score) for score in prediction["scores"]], answer)


if __name__ == "__main__":
    main()
