"""Pairs are prepared once into a folder, and runs that begin with it are those that begin with the pairs."""

import json
import multiprocessing
import os
import pkgutil
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dragoman.config.settings import parse_settings
from dragoman.data.builtin.grammar import generate
from dragoman.data.encoding import Encoder
from dragoman.errors import DataError, DragomanError, ResourceError, UsageError
from dragoman.runs.prepared import prepare_folder
from dragoman.runs.train import resume_run, start_run
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.run_directory import RunDirectory
from dragoman.system import processes
from dragoman.system.locks import only_one
from dragoman.terminal import Display
from tests.data.readers.files import write
from tests.small import MODEL_SETTINGS, plan, train_run, write_pairs

DATA = ["tokenizer.vocab_size=400", "data.held_out=0.1"]
SMALL = [
    *MODEL_SETTINGS, "training.max_steps=3", "training.validate_every=3", "training.log_every=1",
    "decoding.beam_size=1",
]  # fmt: skip


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    return str(write_pairs(tmp_path / "pairs.tsv", generate(211)))


def prepare(path: Path, *sources: str, settings: Sequence[str] = DATA) -> None:
    """Prepare sources of pairs in the folder `path`, as `dragoman data prepare` does."""
    prepare_folder(list(sources), path, recipe=None, settings=parse_settings(list(settings)))


@pytest.fixture
def folder(tmp_path: Path, pairs: str) -> Path:
    prepare(tmp_path / "prepared", pairs)
    return tmp_path / "prepared"


def losses(path: Path) -> list[float]:
    return [event["loss"] for event in read_metrics(RunDirectory(path).metrics) if event["event"] == "step"]


def test_a_run_is_the_same_from_pairs_and_from_a_prepared_folder(tmp_path, pairs, folder):
    for name, data, settings in (("a", pairs, [*DATA, *SMALL]), ("b", str(folder), [*SMALL, DATA[1]])):
        train_run(tmp_path / name, data, settings=settings)
    assert len(losses(tmp_path / "a")) == 3
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    first, second = (RunDirectory(tmp_path / name) for name in "ab")
    assert {(second.data / file.name).read_bytes() == file.read_bytes() for file in first.data.glob("[!fm]*")} == {True}
    assert (first.path / "run/config.yaml").read_text() == (second.path / "run/config.yaml").read_text()


@pytest.mark.slow
def test_it_stays_whole_when_its_runs_are_deleted_or_resumed(tmp_path, folder):
    config, planned = plan(folder, settings=SMALL)
    start_run(planned, config, tmp_path / "run", listener=Display(quiet=True))
    config.training.max_steps = 5
    resume_run(tmp_path / "run", config, listener=Display(quiet=True))
    RunDirectory(tmp_path / "run").clear()
    train_run(tmp_path / "again", folder, settings=SMALL)
    assert len(losses(tmp_path / "again")) == 3


def test_what_is_prepared_is_not_prepared_again(tmp_path, pairs, folder, monkeypatch):
    monkeypatch.setattr("dragoman.runs.prepared.plan_pairs", lambda *_, **__: pytest.fail("it is read again"))
    prepare(folder, pairs)
    with pytest.raises(UsageError, match="prepared from other files, or by other settings; choose another --output"):
        prepare(folder, pairs, settings=[*DATA, "data.cleaning.max_ratio=9"])
    Path(pairs).write_text("a\tb\n")
    with pytest.raises(UsageError, match="prepared from other files"):
        prepare(folder, pairs)
    config, _ = plan(folder, settings=SMALL)
    assert config.chosen[-1] == f"{pairs} has changed since {folder} was prepared, which has it as it was."


def test_one_that_broke_off_goes_on_and_no_run_begins_with_it(tmp_path, pairs, folder, monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 1)
    monkeypatch.setattr("dragoman.data.pair_file.BLOCK", 2_003)
    encode, calls = Encoder._encoded, []

    def breaks_off(*arguments, **options):
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return encode(*arguments, **options)

    monkeypatch.setattr(Encoder, "_encoded", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "again", pairs)
    with pytest.raises(DataError, match="is not prepared completely; type its `dragoman data prepare` again"):
        plan(tmp_path / "again", recipe=None)
    prepare(tmp_path / "again", pairs)
    assert {(tmp_path / "again" / file.name).read_bytes() == file.read_bytes() for file in folder.iterdir()} == {True}
    assert len(list((tmp_path / "again").iterdir())) == len(list(folder.iterdir()))


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("dies_in", "call", "kept"),
    [
        ("dragoman.data.bitext.judge_block", 1, 0),
        ("dragoman.data.bitext.judge_block", 6, 4),
        ("dragoman.data.bitext.judge_block", 23, 22),  # in the second corpus
        ("dragoman.data.journal.write_sealed", 3, 4),
        ("dragoman.data.preparation._learn_text_tools", 1, 35),
        ("dragoman.data.encoding.Encoder._encoded", 4, 35),
    ],
)
def test_what_was_done_before_it_was_killed_is_not_done_again(tmp_path, monkeypatch, dies_in, call, kept):
    """Cleaning in blocks of 997 characters, with a journal after every other, and learning the tokenizer."""
    monkeypatch.setattr(processes, "cores", lambda: 1)
    monkeypatch.setattr("dragoman.data.blocks.CHARACTERS_AT_ONCE", 997)
    monkeypatch.setattr("dragoman.data.pair_file.BLOCK", 2_003)
    monkeypatch.setattr("dragoman.data.pair_file.JOURNAL_EVERY", 2)
    monkeypatch.setattr("dragoman.data.filtering.Seen.RECENT", 31)
    lines = [f"{source}\t{target}\n" for source, target in generate(173)]
    first = write(tmp_path / "a.tsv", "".join([*lines, "\tx\n"]))
    second = write(tmp_path / "b.tsv", "".join([*lines[90:], *lines[20:120], "x\0\ty\n"]))
    corpora = f"data.corpora=[{{source: {first}, weight: 1.5}}, {{source: {second}}}]"

    def prepared(name: str) -> dict[str, bytes]:
        prepare(tmp_path / name, settings=[*DATA, corpora])
        return {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}

    def killed() -> None:
        calls(monkeypatch, dies_in, lambda number: number == call and os._exit(9))
        prepared("again")

    process = multiprocessing.get_context("fork").Process(target=killed)
    process.start()
    process.join()
    assert process.exitcode == 9
    judged = calls(monkeypatch, "dragoman.data.bitext.judge_block")
    learned = calls(monkeypatch, "dragoman.data.preparation._learn_text_tools")
    whole = prepared("whole")
    assert (len(judged), len(learned)) == (35, 1)
    assert prepared("again") == whole
    assert len(judged) == 35 + 35 - kept
    assert len(learned) == (1 if dies_in.endswith("_encoded") else 2)


def calls(monkeypatch, name: str, action: Callable[[int], object] = lambda number: None) -> list[int]:
    """Numbers of the calls of a function that are made from now on, before each of which `action` is called."""
    made: list[int] = []
    owner, _, function = name.rpartition(".")
    original = pkgutil.resolve_name(name)

    def counted(*arguments, **options):
        made.append(len(made) + 1)
        action(len(made))
        return original(*arguments, **options)

    monkeypatch.setattr(pkgutil.resolve_name(owner), function, counted)
    return made


def test_pairs_cleaned_from_something_else_are_cleaned_anew(tmp_path, pairs, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("dragoman.data.pair_file.map_on_cores", map_and_break_off)
        with pytest.raises(KeyboardInterrupt):
            prepare(tmp_path / "again", pairs, settings=[*DATA, "data.cleaning.max_ratio=2"])
    assert (tmp_path / "again" / "cleaning" / "pairs").is_file()
    prepare(tmp_path / "again", pairs)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()
    }


def map_and_break_off(work, jobs):
    yield work(*next(jobs))
    raise KeyboardInterrupt


def test_small_corpora_are_repeated_by_temperature_in_a_run_from_pairs_and_from_a_folder(tmp_path):
    pairs = [f"{source}\t{target}\n" for source, target in generate(200)]
    large, small = write(tmp_path / "a.tsv", "".join([*pairs[:180], *pairs[:50]])), tmp_path / "b.tsv"
    write(small, "".join(pairs[180:]))
    recipe = write(
        tmp_path / "r.yaml", f"data:\n  temperature: 2\n  corpora: [{{source: {large}}}, {{source: {small}}}]"
    )
    prepare_folder([], tmp_path / "folder", recipe=str(recipe), settings=parse_settings(DATA))
    about = json.loads((tmp_path / "folder" / "about.json").read_bytes())
    # (20 / 180)^(1 / 2 - 1) = 3
    assert about["occurrences"] == pytest.approx({str(large): 1, str(small): 3})
    from_folder, _ = plan(tmp_path / "folder", recipe=None)
    from_pairs, planned = plan(settings=DATA, recipe=str(recipe))
    assert from_folder.chosen == from_pairs.chosen
    occurrences = "In an epoch, by data.temperature, each pair occurs: of a.tsv 1 times, of b.tsv 3 times."
    assert occurrences in from_pairs.chosen
    assert planned.report.weighted == 180 + 3 * 20
    with pytest.raises(UsageError, match=r"prepared with another `data.temperature`"):
        plan(tmp_path / "folder", settings=["data.temperature=3"], recipe=None)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["data.max_length=100"], "was prepared with another `data.max_length`; leave it out"),
        (["tokenizer.kind=word"], "another `tokenizer.kind`"),
        (["data.cleaning.max_ratio=5"], "another `data.cleaning.max_ratio`"),
        (["model.positions=learned", "model.max_positions=400"], "another `model.max_positions`"),
        (["finetune.model=runs/x"], "--finetune prepares pairs as its model needs them"),
    ],
)
def test_settings_of_the_preparation_cannot_change(folder, settings, words):
    with pytest.raises(UsageError) as caught:
        plan(folder, settings=settings, recipe=None)
    assert words in str(caught.value)


def test_other_folders_are_not_written_to_nor_read(tmp_path, pairs):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text(json.dumps({}))
    with pytest.raises(UsageError, match="exists and is not empty"):
        prepare_folder([pairs], tmp_path / "full", recipe=None, settings={})
    with pytest.raises(DataError, match="is a folder; name a file in it"):
        plan(tmp_path / "full", recipe=None)


@pytest.mark.slow
def test_any_damage_of_the_folder_is_found_before_a_byte_of_it_is_understood(tmp_path, folder):
    dice, whole = random.Random(3), {path: path.read_bytes() for path in folder.iterdir()}
    for path, content in whole.items():
        place = dice.randrange(len(content))
        wrong = content[:place] + bytes([content[place] ^ 1 << dice.randrange(8)]) + content[place + 1 :]
        for damaged in (wrong, content[:place], None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises(DataError, match=r"is damaged|is not prepared completely|is a folder"):
                run_from(folder, tmp_path / "run")
            path.write_bytes(content)
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
    run_from(folder, tmp_path / "run")


def run_from(folder: Path, path: Path) -> None:
    config, planned = plan(folder, settings=SMALL)
    with RunDirectory(path).locked():
        planned.check()
    assert config.training.max_steps == 3


def test_two_preparations_of_one_folder_take_turns(tmp_path, pairs):
    with only_one(tmp_path / "prepared" / "lock", "it is being prepared"):
        code = in_child(lambda: prepare(tmp_path / "prepared", pairs))
    assert code == ResourceError.exit_code
    prepare(tmp_path / "prepared", pairs)
    assert not (tmp_path / "prepared" / "lock").exists()


def in_child(action: Callable[[], object]) -> int:
    """Exit code of a forked child: that of the error which `action` raised, or 0."""

    def run() -> None:
        try:
            action()
        except DragomanError as error:
            os._exit(error.exit_code)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "name", ["cleaning/pairs", "cleaning/journal.json", "text_tools.json", "source_tokenizer.json"]
)
def test_what_broke_off_and_was_damaged_is_made_anew_or_refused(tmp_path, pairs, folder, monkeypatch, name):
    again = tmp_path / "again"
    with monkeypatch.context() as patch:
        patch.setattr("dragoman.data.preparation._write_parts", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare(again, pairs)
    content = bytearray((again / name).read_bytes())
    content[len(content) // 2] ^= 1
    (again / name).write_bytes(content)
    if "cleaning" in name:
        prepare(again, pairs)
        assert (again / "train-source.ids").read_bytes() == (folder / "train-source.ids").read_bytes()
    else:
        with pytest.raises(DataError, match="is damaged"):
            prepare(again, pairs)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt
