"""The commands of benchmarks/ still run, on small amounts of made-up data; what they measure is not judged here."""

import importlib.util
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import ModelDirectory
from dragoman.data.bitext import Bitext
from dragoman.data.tokenizer import Tokenizer
from dragoman.model import Transformer, TransformerConfig

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT.parent / "shared" / "notebooks" / "B-postnorm-pytorch.txt"

pytestmark = pytest.mark.slow

needs_peers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="peers are not installed: make install ARGS=bench"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 400 pairs, a side a file, alone in its own folder."""
    folder = tmp_path_factory.mktemp("corpora") / "en-fr"
    folder.mkdir()
    for name, side in zip(
        ("a.en", "b.fr"), zip(*islice(Bitext.open("builtin:grammar"), 400), strict=True), strict=True
    ):
        (folder / name).write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """A model directory of Marian's architecture, untrained."""
    tokenizer = Tokenizer.train((corpus / "a.en").read_text().split("\n"), vocab_size=307)
    sizes = {"source_vocab_size": tokenizer.vocab_size, "target_vocab_size": tokenizer.vocab_size}
    layers = {"d_model": 16, "d_ff": 24, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    marian = {"norm_order": "post", "positions": "sinusoidal-concatenated", "projection_bias": True}
    torch.manual_seed(5)
    folder = tmp_path_factory.mktemp("model")
    network = Transformer(TransformerConfig(**sizes, **layers, **marian, share_embeddings=True))
    ModelDirectory(network, tokenizer, tokenizer).save(folder)
    return folder


def run(name: str, *arguments: str | Path) -> str:
    command = [sys.executable, f"benchmarks/{name}.py", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_preparation_counts_pairs():
    assert "300 pairs in" in run("preparation", "prepare", "builtin:grammar:300")


def test_data_check_knows_aligned_pairs(corpus: Path):
    printed = run("data_check", corpus.parent, "--every", "1")
    assert "1 aligned corpora: 0 called misaligned" in printed
    assert "400 pairs checked in" in printed


def test_subwords_compares_all_kinds(corpus: Path):
    printed = run("subwords", corpus / "a.en", corpus / "b.fr", "--vocab-size", "400")
    assert all(kind in printed for kind in ("bpe", "unigram", "char", "word", "dropout=0.1"))


def test_loops_tries_the_guard_on_and_off(model: Path, corpus: Path):
    rows = run("loops", model, corpus / "a.en", "--inputs", "20").splitlines()[-4:]
    assert [row.split("|")[1:3] for row in rows] == [[" 5 ", " 0 "], [" 5 ", " 3 "], [" 1 ", " 0 "], [" 1 ", " 3 "]]


def test_resources_measures_the_memory_of_a_command():
    printed = run("resources", "memory", sys.executable, "-c", "import time; kept = b'1' * 10**8; time.sleep(0.5)")
    assert 95 < int(printed.split("peak memory ")[1].split()[0]) < 300


SMALL = ["model.d_model=16", "model.d_ff=24", "model.num_encoder_layers=1", "model.num_decoder_layers=1"]


@pytest.mark.parametrize("options", [(), ("--without-feed-forward",)])
def test_notebooks_learns_random_pairs(options: tuple[str, ...], tmp_path: Path):
    rows = run("notebooks", "random", *SMALL, "--epochs", "2", "--notebook", tmp_path / "none", *options)
    (first, second) = (row.split("|")[1:5] for row in rows.splitlines()[2:])
    assert float(first[1]) == (8.677 if options else 8.683)
    assert 8.4 < float(second[2]) < float(first[2]) < 9.2


@pytest.mark.skipif(not NOTEBOOK.is_file(), reason="no notebooks beside the checkout")
@pytest.mark.parametrize("options", [(), ("--without-feed-forward",)])
def test_notebooks_runs_the_notebooks_own_code(options: tuple[str, ...]):
    rows = run("notebooks", "random", *SMALL, "--epochs", "3", *options).splitlines()[2:]
    assert len(rows) == 3
    # Two draws of first weights: no more can be said of three epochs.
    assert all(abs(float(row.split("|")[4].strip(" %"))) < 5 for row in rows)


def test_notebooks_compares_runs_without_case_and_marks(tmp_path: Path):
    settings = [*SMALL, "training.max_steps=2", "data.held_out=5", "tokenizer.vocab_size=300"]
    command = [sys.executable, "-m", "dragoman", "train", "builtin:grammar:50", "--output", tmp_path / "a", *settings]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    row = run("notebooks", "standardised", tmp_path / "a").splitlines()[2]
    assert row.split("|")[1:3] == [f" {tmp_path / 'a'} ", " 500 "]


@needs_peers
def test_marian_translates_as_dragoman_does(model: Path, corpus: Path, tmp_path: Path):
    few = tmp_path / "few.en"
    few.write_text("".join((corpus / "a.en").read_text().splitlines(keepends=True)[:7]))
    printed = run("marian", "decode", model, few, "--rounds", "1")
    assert "of 7 translations are the same text in float32" in printed


@needs_peers
def test_marian_trains_beside_dragoman(corpus: Path):
    printed = run("marian", "train", corpus / "a.en", corpus / "b.fr", "--steps", "1", "--rounds", "1")
    assert "MarianMTModel float32" in printed
