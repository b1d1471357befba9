"""The commands of benchmarks/ still run, on small amounts of made-up data; what they measure is not judged here."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import environment
from dragoman.data.bitext import Bitext
from dragoman.engine.int8 import can_quantise, functions
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.resources import processor_has
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_directory

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT.parent / "shared" / "notebooks" / "B-postnorm-pytorch.txt"

pytestmark = pytest.mark.slow

SMALL = ["model.d_model=16", "model.d_ff=24", "model.num_encoder_layers=1", "model.num_decoder_layers=1"]


def engine_names(*, int8: bool) -> set[str]:
    """The rows of a table of engines on this machine; `int8`: Dragoman computes the model in eight bits."""
    half = ["bfloat16"] * processor_has("avx512_bf16")
    precisions = {
        "Dragoman": ["float32", *half, *["int8"] * int8],
        "MarianMTModel": ["float32", *half],
        "CTranslate2": ["float32", "int8"],
    }
    return {f"{name} {precision}" for name, names in precisions.items() for precision in names}


def needs(name: str) -> None:
    """Skip the test if this environment of benchmarks/ cannot be had here."""
    try:
        environment.python(name)
    except environment.Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def peers() -> None:
    """The environment of the peers that run in one process with Dragoman."""
    needs("peers")


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
    sizes = {"d_model": 16, "d_ff": 24, "num_heads": 2}
    marian = {"norm_order": "post", "positions": "sinusoidal-concatenated", "projection_bias": True}
    folder = tmp_path_factory.mktemp("model")
    small_directory(tokenizer, seed=5, **sizes, **marian, share_embeddings=True).save(folder)
    return folder


def run(name: str, *arguments: str | Path) -> str:
    command = [sys.executable, f"benchmarks/{name}.py", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout if "--json" in arguments else done.stdout + done.stderr


def test_preparation_counts_pairs():
    assert "300 pairs in" in run("preparation", "prepare", "builtin:grammar:300")


def test_data_check_knows_aligned_pairs(corpus: Path):
    printed = run("data_check", corpus.parent, "--every", "1")
    assert "1 aligned corpora: 0 called misaligned" in printed
    assert "400 pairs checked in" in printed


def test_subwords_compares_all_kinds(corpus: Path):
    printed = run("subwords", corpus / "a.en", corpus / "b.fr", "--vocab-size", "400")
    assert all(kind in printed for kind in ("bpe", "unigram", "char", "word", "dropout=0.1"))


def test_students_are_compared_at_equal_precision(model: Path, corpus: Path):
    options = ["--precision", "float32", "--beam", "1", "--beam", "2", "--rounds", "1"]
    printed = run("students", corpus / "a.en", corpus / "b.fr", model, model, *options)
    assert printed.count(", beam 2 | one thread |") == 2
    assert "| BLEU | times as fast |" in printed


def test_lengths_tries_floors_penalties_and_samples(model: Path, corpus: Path):
    rows = run("lengths", model, corpus / "a.en", corpus / "b.fr", "--most", "4", "--mbr", "2").splitlines()[2:]
    assert len(rows) == 13
    assert all(len(row.split(" | ")) == 6 for row in rows)


def test_alignments_compares_links_and_tags_with_those_of_an_aligner(model: Path, corpus: Path, tmp_path: Path):
    aligner = tmp_path / "aligner"
    aligner.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "files = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "lines = zip(open(files['-s']), open(files['-t']))\n"
        "links = [' '.join(f'{i}-{i}' for i in range(min(len(a.split()), len(b.split())))) for a, b in lines]\n"
        "for name in ('-f', '-r'):\n"
        "    open(files[name], 'w').writelines(line + '\\n' for line in links)\n"
    )
    aligner.chmod(0o755)
    files = [corpus / "a.en", corpus / "b.fr"]
    options = ["--train", *files, "--test", *files, "--most", "6", "--aligner", aligner]
    (row,) = run("alignments", model, *options).splitlines()[2:]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[0] == model.name
    assert all(0 <= float(cell) <= 1 for cell in cells[1:])


@pytest.mark.slow
def test_outlook_compares_what_was_predicted_with_what_came(corpus: Path):
    files = [corpus / "a.en", corpus / "b.fr"]
    assert run("outlook", *files, "--languages", "en,fr", "--steps", "4", "8").count("predicted") >= 1
    assert "pairs: BLEU " in run("outlook", *files, "--languages", "en,fr", "--steps", "8", "--pairs")


def test_loops_tries_the_guard_on_and_off(model: Path, corpus: Path):
    rows = run("loops", model, corpus / "a.en", "--inputs", "20").splitlines()[-4:]
    assert [row.split("|")[1:3] for row in rows] == [[" 5 ", " 0 "], [" 5 ", " 3 "], [" 1 ", " 0 "], [" 1 ", " 3 "]]


def test_serving_asks_a_server_one_by_one_and_in_batches(model: Path, corpus: Path):
    options = ["--seconds", "1", "--clients", "2", "--overload", "2"]
    printed = run("serving", f"{model}:en,fr", corpus / "a.en", *options)
    assert all(
        words in printed for words in ("2, one by one", "2, batched", "requests a second for 3 s", "in this process")
    )


def test_others_asks_for_short_texts_beside_a_costly_request(model: Path):
    rows = run("others", f"{model}:en,fr", "--only", "lists deep").splitlines()[-2:]
    assert [row.split(" | ")[:2] for row in rows] == [["| nothing", "|"], ["| JSON, 500,000 lists deep", "400"]]
    assert not any("inf" in row for row in rows)  # the short text was translated


def test_attacks_leave_a_server_as_it_was(model: Path, corpus: Path):
    options = ["--slow", "4", "--malformed", "50", "--gone", "10", "--threads", "2"]
    printed = run("attacks", f"{model}:en,fr", corpus / "a.en", *options)
    assert "4 clients with half a request or a byte a second: all gone after" in printed
    assert "then a good one: 200" in printed
    assert "0 tokens waited after 1 s, 0 batches after that" in printed
    assert "exit code 0" in printed


def test_bulk_kills_what_translates_files_and_compares(model: Path, corpus: Path):
    options = ["--lines", "300", "--files", "4", "--kills", "2", "--start-up", "2"]
    found = json.loads(run("bulk", "kills", model, corpus / "a.en", *options).splitlines()[0])
    assert (found["lines"], found["files"], found["missing"], found["different"]) == (300, 4, 0, 0)
    assert found["as_plain"] > 0.9
    assert set(found["sentences_per_second"]) == {"plain", "whole"}


def test_resources_measures_the_memory_of_a_command():
    printed = run("resources", "memory", sys.executable, "-c", "import time; kept = b'1' * 10**8; time.sleep(0.5)")
    assert 95 < int(printed.split("peak memory ")[1].split()[0]) < 300


@pytest.mark.parametrize("options", [(), ("--without-feed-forward",)])
def test_notebooks_learns_random_pairs(options: tuple[str, ...], tmp_path: Path):
    settings = [*SMALL, "training.learning_rate=0.001"]  # a loss that falls visibly in one step
    rows = run("notebooks", "random", *settings, "--epochs", "2", "--notebook", tmp_path / "none", *options)
    (first, second) = (row.split("|")[1:5] for row in rows.splitlines()[2:])
    assert float(first[1]) == (8.677 if options else 8.683)
    assert 8.4 < float(second[2]) < float(first[2]) < 9.2


@pytest.mark.skipif(not NOTEBOOK.is_file(), reason="no notebooks beside the checkout")
@pytest.mark.parametrize("options", [(), ("--without-feed-forward",)])
def test_notebooks_runs_the_notebooks_own_code(options: tuple[str, ...]):
    # Where the notebook puts positions in place of a feed-forward network, its width is the longest sentence.
    rows = run("notebooks", "random", *SMALL, "model.d_ff=128", "--epochs", "3", *options).splitlines()[2:]
    assert len(rows) == 3
    # Two draws of first weights: no more can be said of three epochs.
    assert all(abs(float(row.split("|")[4].strip(" %"))) < 5 for row in rows)


def test_notebooks_compares_runs_without_case_and_marks(tmp_path: Path):
    settings = [*SMALL, "training.max_steps=2", "data.held_out=5", "tokenizer.vocab_size=300"]
    command = [sys.executable, "-m", "dragoman", "train", "builtin:grammar:50", "--output", tmp_path / "a", *settings]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    row = run("notebooks", "standardised", tmp_path / "a").splitlines()[2]
    assert row.split("|")[1:3] == [f" {tmp_path / 'a'} ", " 500 "]


def test_training_compares_everybody_on_the_same_batches(corpus: Path, peers: None):
    printed = run("training", corpus / "a.en", corpus / "b.fr", *SMALL, "--steps", "1", "--rounds", "2", "--json")
    (table,) = json.loads(printed)
    names = {row["name"] for row in table["rows"]}
    assert names >= {"Dragoman", "torch.nn.Transformer", "MarianMTModel", "x-transformers"}
    assert not NOTEBOOK.is_file() or names >= {"notebook A", "notebook B"}
    assert all(len(row["values"]) == 2 and row["median"] > 0 for row in table["rows"])


@pytest.mark.parametrize("mistake", ["future", "padding"])
def test_training_refuses_a_peer_that_sees_what_it_must_not(mistake: str, peers: None):
    code = f"""
from torch import nn
from steps import check_masks
class Sound(nn.Module):
    def forward(self, source_ids, target_ids):
        table = nn.functional.one_hot
        seen = table(target_ids, 23).float().cumsum(1)
        return seen + table(source_ids, 23).float()[:, :, 1:].sum((1, 2))[:, None, None]
class Wrong(Sound):
    def forward(self, source_ids, target_ids):
        others = target_ids if {mistake!r} == "future" else source_ids
        return super().forward(source_ids, target_ids) + others.size(1)
check_masks("sound", Sound())
try:
    check_masks("wrong", Wrong())
except AssertionError as error:
    print(error)
"""
    command = [environment.python("peers"), "-c", code]
    done = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, timeout=100)
    assert done.stdout.startswith("wrong sees"), done.stderr


def test_toolkits_compares_whole_loops(corpus: Path, peers: None):
    for name in ("joeynmt", "eole"):
        needs(name)
    options = [*SMALL, "training.max_tokens=512", "--pairs", "300", "--rounds", "1", "--json"]
    (table,) = json.loads(run("toolkits", corpus / "a.en", corpus / "b.fr", *options))
    assert [row["name"] for row in table["rows"]] == ["Dragoman", "Joey NMT", "eole"], table["notes"]


def test_throughput_has_both_searches_and_all_engines(model: Path, corpus: Path, tmp_path: Path, peers: None):
    few = tmp_path / "few.en"
    few.write_text("".join((corpus / "a.en").read_text().splitlines(keepends=True)[:7]))
    config = ModelDirectory.load(model).model.config
    for table in json.loads(run("decoding", "throughput", model, few, "--rounds", "1", "--json")):
        assert {row["name"] for row in table["rows"]} == engine_names(int8=can_quantise(config))
        assert "MarianMTModel float32" in table["notes"][0]


def test_start_and_memory_are_measured_of_whole_processes(model: Path, corpus: Path, tmp_path: Path, peers: None):
    few = tmp_path / "few.en"
    few.write_text("".join((corpus / "a.en").read_text().splitlines(keepends=True)[:7]))
    for verb in ("start", "memory"):
        for table in json.loads(run("decoding", verb, model, few, "--rounds", "1", "--json")):
            assert {row["name"] for row in table["rows"]} == {"Dragoman", "CTranslate2 int8"}
            assert all(min(row["values"]) > 0 for row in table["rows"])


def test_latency_makes_everybody_write_the_same(model: Path, corpus: Path, peers: None):
    options = ["--size", "tiny", "--sentences", "2", "--rounds", "1", "--json"]
    (table,) = json.loads(run("decoding", "latency", model, corpus / "a.en", *options))
    assert {row["name"] for row in table["rows"]} == engine_names(int8=functions is not None)
    assert len({row["about"]["tokens"] for row in table["rows"]}) == 1
    assert all(f"{name} float32 100.0 %" in table["notes"][0] for name in ("MarianMTModel", "CTranslate2"))


@pytest.mark.parametrize(("protocol", "case"), [("raw", "mixed"), ("papers", "lc")])
def test_quality_scores_both_after_minutes(protocol: str, case: str, corpus: Path, tmp_path: Path, peers: None):
    given: list[str | Path] = []
    for part, lines in {"train": slice(340), "valid": slice(340, 370), "test": slice(370, 400)}.items():
        given.append(f"--{part}")
        for name in ("a.en", "b.fr"):
            given.append(tmp_path / f"{part}-{name}")
            given[-1].write_text("".join((corpus / name).read_text().splitlines(keepends=True)[lines]))
    minutes = ["--minutes", "0.02", "--marian-minutes", "0.02", "--marian-every", "0.01"]
    options = [*minutes, "--languages", "en", "fr", "--protocol", protocol, "--json"]
    (table,) = json.loads(run("quality", *given, *options, "tokenizer.vocab_size=300"))
    assert [row["setting"] for row in table["rows"]] == ["0.02 minutes", "0.01 minutes", "0.02 minutes"]
    assert f"case:{case}" in table["notes"][1]


def test_scale_measures_every_axis(model: Path, corpus: Path, peers: None):
    options = ["--steps", "1", "--rounds", "1", "--sentences", "5", "--vocabularies", "300", "320", "350", "--json"]
    tables = json.loads(run("scale", corpus / "a.en", corpus / "b.fr", model, *SMALL[:-1], *options))
    assert [len(table["rows"]) >= 3 for table in tables] == [True] * 5
    assert all(any("grows as the power" in note for note in table["notes"]) for table in tables)


def test_gpu_runs_without_one(corpus: Path, peers: None):
    files, tried = (corpus / "a.en", corpus / "b.fr"), ["--device", "cpu", "--steps", "1", "--max-tokens", "200"]
    few = ["--matrix", "64", "--sentences", "5", "--rounds", "1", "--json"]
    tables = json.loads(run("gpu", *files, "tokenizer.vocab_size=307", *tried, *few, "--size", "tiny"))
    titles = [table["title"] for table in tables]
    assert titles == ["Training", "Translation, tiny, greedy", "Translation, tiny, beam 5"]
    (trained,) = tables[0]["rows"]
    assert trained["values"][0] > float(trained["about"]["target tokens/s"].replace(",", "")) > 0
    assert {row["name"] for row in tables[1]["rows"]} == {"Dragoman bfloat16", "CTranslate2 float32"}
