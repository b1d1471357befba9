"""The package keeps the rules of architecture.py, and each rule sees a planted violation."""

from pathlib import Path

import pytest

from tests.architecture import (
    danger_problems,
    import_problems,
    modules,
    unsealed_problems,
    wording_problems,
)

ROOT = Path(__file__).resolve().parent.parent


def test_the_package_is_where_the_checks_look():
    assert "dragoman.errors" in {module.name for module in modules(ROOT)}


def test_imports_point_one_way():
    assert import_problems(ROOT) == []


def test_nothing_reads_pickles_or_runs_text():
    assert danger_problems(ROOT) == []


def test_docstrings_make_sense_without_the_name_above_them():
    assert wording_problems(ROOT) == []


def test_a_docstring_that_points_at_a_name_is_seen(tmp_path: Path):
    plant(tmp_path, "data/pairs.py", 'MOST = 3\n"""Of the pairs that are shown."""\nTEXT = "Of course"\n')
    assert wording_problems(tmp_path) == ["dragoman.data.pairs:2 a docstring that begins with 'Of'"]


def test_our_own_files_are_verified_before_they_are_parsed():
    assert unsealed_problems(ROOT) == []


def test_a_file_of_our_own_that_is_parsed_unverified_is_seen(tmp_path: Path):
    plant(tmp_path, "runs/synthetic/x.py", "import json\nabout = json.loads(path.read_bytes())\n")
    (problem,) = unsealed_problems(tmp_path)
    assert problem.startswith("dragoman.runs.synthetic.x:2 parses JSON or YAML")


def plant(root: Path, path: str, text: str) -> None:
    """A package that keeps every rule, with one file added or replaced."""
    sound = {
        "__init__.py": '__version__ = "0"\n',
        "errors.py": "",
        "model/__init__.py": "import math\nimport torch.nn\nfrom jaxtyping import Float\n",
        "model/layers.py": "from dragoman.model import attention\nfrom . import attention\n",
        "model/attention.py": "",
        "storage/checkpoints.py": "from dragoman import __version__\nfrom .errors import DataError\n",
        "data/bitext.py": "from dragoman.config import Run\nfrom ..errors import DataError\n",
        "config/run.py": "import dragoman.system\nfrom dragoman.model.layers import Layer\n",
        "system/__init__.py": "",
        "training/trainer.py": "model.eval()\nfrom dragoman.data.bitext import Bitext\n",
        "decoding/search.py": "import heapq, numpy\nfrom dragoman.engine.log_probs import LogProbs\n",
        "interop/notebooks.py": "torch.load(path, weights_only=True)\n",
        "cli/__init__.py": "def main():\n    from dragoman.training.trainer import Trainer\n",
        "cli/train.py": "@app.command()\ndef train(a, b, c, *, d, e, f, g): ...\n",
    }
    for name, content in (sound | {path: text}).items():
        file = root / "dragoman" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


def test_a_sound_package_has_no_problems(tmp_path: Path):
    plant(tmp_path, "errors.py", "")
    for check in (import_problems, danger_problems):
        assert check(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("data/x.py", "import dragoman.training.x", "data.x:1 imports upward: data -> training"),
        ("data/x.py", "from dragoman import decoding", "imports upward: data -> decoding"),
        ("data/x.py", "from dragoman import Transformer", "imports upward: data -> __init__"),
        ("data/x.py", "from dragoman import cli", "imports upward: data -> cli"),
        ("data/x.py", "from ..cli.train import train", "imports upward: data -> cli"),
        ("data/__init__.py", "from ..training import trainer", "imports upward: data -> training"),
        ("data/x.py", "def f():\n    from dragoman.cli import main", "data.x:2 imports upward"),
        ("errors.py", "import dragoman.data", "imports upward: errors -> data"),
        ("decoding/x.py", "import dragoman.training.trainer", "decoding translates, and must not know training"),
        ("runs/x.py", "from dragoman.terminal import Display", "runs must not know terminal"),
        ("training/x.py", "from ..decoding import search", "training must not know decoding"),
        ("model/x.py", "import numpy", "dragoman.model must not import numpy"),
        ("model/x.py", "from dragoman.model.fast import norms", "is a formula, and must not know"),
        ("decoding/x.py", "def f():\n    import torch", "decoding.x translates, and must not import torch"),
        ("model/x.py", "from ..errors import DataError", "must not import dragoman.errors"),
        ("decoding/search.py", "from ..model import layers", "search must not import"),
        ("storage/x.py", "import dragoman.evaluation.scores", "imports upward: storage -> evaluation"),
        ("config/run.py", "import dragoman.data.bitext", "imports upward: config -> data"),
        ("system/x.py", "import dragoman.config.run", "imports upward: system -> config"),
        ("model/attention.py", "from dragoman.model import layers", "imports in a circle"),
        ("model/attention.py", "def f():\n    from dragoman.model import layers", "imports in a circle"),
        ("decoding/x.py", "import dragoman.data.bitext", "decoding translates, and must not know data"),
        ("helpers.py", "", "dragoman.helpers has no place in FLOORS"),
    ],
)
def test_a_wrong_import_is_seen(tmp_path: Path, path: str, text: str, problem: str):
    plant(tmp_path, path, text)
    found = import_problems(tmp_path)
    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("data/x.py", "import pickle", "imports pickle"),
        ("data/x.py", "from joblib.numpy_pickle import load", "imports joblib.numpy_pickle"),
        ("data/x.py", "eval('1')", "calls eval"),
        ("data/x.py", "exec('1')", "calls exec"),
        ("data/x.py", "text.splitlines()", "uses splitlines"),
        ("data/x.py", "map(str.splitlines, texts)", "uses splitlines"),
        ("data/x.py", "numpy.load(path, allow_pickle=True)", "passes allow_pickle=True"),
        ("data/x.py", "torch.load(path, weights_only=True)", "calls torch.load outside interop"),
        ("data/x.py", "torch.save(model, path)", "calls torch.save"),
        ("interop/x.py", "from torch import load", "imports load or save from torch"),
        ("interop/x.py", "torch.load(path)", "without weights_only=True"),
        ("interop/x.py", "other(path, weights_only=False)", "passes weights_only=False"),
    ],
)
def test_a_danger_is_seen(tmp_path: Path, path: str, text: str, problem: str):
    plant(tmp_path, path, text)
    found = danger_problems(tmp_path)
    assert len(found) == 1
    assert problem in found[0]
