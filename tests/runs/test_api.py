"""Learning from a program: pairs of any kind, settings by name, and wrong ones told in words."""

import datetime
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import dragoman
from dragoman.errors import DataError, UsageError
from dragoman.storage.memory import Memory
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import Deaf
from tests.small import SIZES

PAIRS = [(f"the number {n} house is red", f"la maison numéro {n} est rouge") for n in range(120)]
SMALL = {
    "tokenizer": {"vocab_size": 300},
    "data": {"held_out": 5},
    "model": SIZES,
    "training": {"max_steps": 2, "validate_every": 2},
    "decoding": {"beam_size": 1},
    "listener": Deaf(),
}


def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"id": range(len(PAIRS)), "en": [s for s, _ in PAIRS], "fr": [t for _, t in PAIRS]})


KINDS = {
    "pairs": lambda folder: list(PAIRS),
    "lists": lambda folder: [list(pair) for pair in PAIRS],
    "an iterator": lambda folder: iter(PAIRS),
    "dicts": lambda folder: [{"source": source, "target": target} for source, target in PAIRS],
    "rows of a Dataset": lambda folder: [{"translation": {"en": source, "fr": target}} for source, target in PAIRS],
    "a DataFrame": lambda folder: frame(),
    "a path": lambda folder: written(folder / "pairs.tsv", "".join(f"{s}\t{t}\n" for s, t in PAIRS)),
    "the name of a file": lambda folder: str(KINDS["a path"](folder)),
    "two paths": lambda folder: [
        written(folder / f"pairs.{name}", "".join(f"{pair[side]}\n" for pair in PAIRS))
        for side, name in enumerate(("en", "fr"))
    ],
}


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.first_is_quick
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_all_kinds_are_the_same_run(kind, tmp_path):
    evaluation = dragoman.train(KINDS[kind](tmp_path), tmp_path / "run", size="tiny", **SMALL)
    assert len(evaluation.translations) == 5
    about = RunDirectory(tmp_path / "run").about()
    assert about["train_pairs"] == len(PAIRS) - 10
    assert sorted(RunDirectory(tmp_path / "run").pairs("test"))[0] in PAIRS


def test_a_run_goes_on_and_its_model_is_scored_and_translates(tmp_path):
    held_out = {"valid": PAIRS[:10], "test": PAIRS[10:20]}
    dragoman.train(PAIRS, tmp_path / "run", size="tiny", seed=3, languages=("en", "fr"), **held_out, **SMALL)
    tested = RunDirectory(tmp_path / "run").pairs("test")
    assert sorted(tested) == sorted(PAIRS[10:20])
    with pytest.raises(UsageError, match="is finished"):
        dragoman.resume(tmp_path / "run", listener=Deaf())
    again = dragoman.resume(tmp_path / "run", training={"max_steps": 4}, listener=Deaf())
    found = dragoman.evaluate(tmp_path / "run", iter(tested), precision="float32")
    assert found.translations == again.translations
    several = dragoman.evaluate([tmp_path / "run"] * 2, tested, precision="float32", beam_size=1)
    assert several.translations == again.translations
    with closing(Memory(tmp_path / "memory.db")) as memory:
        memory.add_all(("en", "fr"), tested)
    remembered = dragoman.evaluate(tmp_path / "run", tested, memory=tmp_path / "memory.db")
    assert remembered.translations == [target for _, target in tested]
    assert remembered.memory["same"]["sentences"] == len(tested)
    with pytest.raises(DataError, match="adapter"):
        dragoman.evaluate(tmp_path / "run", tested, adapter=tmp_path / "run")
    translator = dragoman.Translator.load(tmp_path / "run")
    assert translator.languages == ("en", "fr")


@pytest.mark.slow
def test_held_out_pairs_may_be_of_any_kind_and_columns_beside_them_of_any_type(tmp_path):
    rows = [{"en": source, "fr": target, "at": datetime.date(2024, 1, 1)} for source, target in PAIRS]
    held_out = {"valid": iter(PAIRS[:10]), "test": frame()[10:20]}
    dragoman.train(rows, tmp_path / "run", size="tiny", **held_out, **SMALL)
    assert len(RunDirectory(tmp_path / "run").pairs("test")) == 10


@pytest.mark.slow
def test_pairs_are_scored_in_the_direction_of_the_model(tmp_path):
    dragoman.train(PAIRS, tmp_path / "run", size="tiny", languages=("en", "fr"), **SMALL)
    expected = dragoman.evaluate(tmp_path / "run", PAIRS[:5]).translations
    turned = [{"fr": target, "en": source} for source, target in PAIRS[:5]]
    assert dragoman.evaluate(tmp_path / "run", turned).translations == expected
    units = "".join(
        f'<tu><tuv xml:lang="fr"><seg>{t}</seg></tuv><tuv xml:lang="en"><seg>{s}</seg></tuv></tu>' for s, t in PAIRS[:5]
    )
    head = '<?xml version="1.0"?><tmx version="1.4"><header srclang="fr"/><body>'
    file = written(tmp_path / "a.tmx", f"{head}{units}</body></tmx>")
    assert dragoman.evaluate(tmp_path / "run", file).translations == expected


@pytest.mark.parametrize(
    ("pairs", "settings", "kind", "problem"),
    [
        (None, {}, DataError, "The pairs are None; give the path of a file"),
        (3, {}, DataError, "The pairs are 3"),
        ({"en": ["a"], "fr": ["b"]}, {}, DataError, "The pairs are a dict; give a list"),
        ([], {}, DataError, "There are no pairs"),
        ([("a", "b"), ("a",)], {}, DataError, r"Pair 1 is \('a',\); give two texts"),
        ([("a", None)], {}, DataError, r"Pair 0 is \('a', None\); give two texts"),
        ([("a", float("nan"))], {}, DataError, r"Pair 0 is \('a', nan\)"),
        (["a", "b", "c"], {}, UsageError, "There are 3 files of pairs"),
        ("nowhere.tsv", {}, DataError, "nowhere.tsv"),
        (PAIRS, {"max_minuts": 3}, UsageError, r"no setting `max_minuts` \(did you mean 'max_minutes'\?\)"),
        (PAIRS, {"chosen": ["x"]}, UsageError, "no setting `chosen`"),
        (PAIRS, {"size": "huge"}, UsageError, "There is no recipe 'huge'"),
        (PAIRS, {"size": "tiny", "recipe": "small"}, UsageError, "both choose the settings"),
        (PAIRS, {"size": "tiny", "finetune": "base"}, UsageError, "leave out `size`"),
        (PAIRS, {"training": {"warmpu": 3}}, UsageError, r"no setting `training\.warmpu`"),
        (PAIRS, {"max_minutes": "x"}, UsageError, r"`training\.max_minutes` is 'x'"),
        (PAIRS, {"valid": [("a",)]}, DataError, "Pair 0"),
    ],
)
def test_a_mistake_is_told_in_words(pairs, settings, kind, problem, tmp_path):
    with pytest.raises(kind, match=problem):
        dragoman.train(pairs, tmp_path / "run", listener=Deaf(), **settings)
    assert not (tmp_path / "run/config.json").exists()


def test_the_public_names_are_those_that_help_and_completion_show():
    assert dir(dragoman) == sorted(dragoman.__all__)
    assert all(getattr(dragoman, name) is not None for name in dragoman.__all__)
    assert Path(dragoman.__file__).with_name("py.typed").is_file()
    with pytest.raises(AttributeError, match=r"write Translator\.load\(path\)\.translate"):
        dragoman.translate  # noqa: B018
    code = "import sys, dragoman; dir(dragoman); print('torch' in sys.modules)"
    root = str(Path(dragoman.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": root}
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stdout
        == "False\n"
    )
