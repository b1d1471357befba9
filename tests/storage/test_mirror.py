"""A mirror holds a whole state of a run, whatever ends the process that writes it."""

import json
import random
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from dragoman.errors import DataError, ResourceError, UsageError
from dragoman.storage import mirror as module
from dragoman.storage.mirror import Mirror
from dragoman.system.seals import fingerprint, seal

URL = "memory://bucket/run"
WRITES = ("pipe_file", "put_file", "rm_file")
Contents = dict[str, bytes]


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture(autouse=True)
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "run/run/data"
    data.mkdir(parents=True)
    (data / "train-source.ids").write_bytes(bytes(range(97)))
    seal(data)
    return tmp_path / "run"


def reach(folder: Path, step: int) -> Contents:
    """Write what a run has at a step; returns all that its mirror must hold then."""
    (folder / "model.safetensors").write_bytes(random.Random(step).randbytes(101))
    (folder / "run/lock").write_text("7")
    with open(folder / "run/metrics.jsonl", "a") as metrics:
        metrics.write(f"{json.dumps({'step': step})}\n")
    for number in range(1, step + 1):
        checkpoint = folder / f"run/checkpoints/step_{number:08}"
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "state.json").write_text(str(number))
        if number < step - 1:
            shutil.rmtree(checkpoint)
    return contents(folder)


def contents(folder: Path) -> Contents:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def loaded(folder: Path) -> tuple[Contents, list[str]]:
    """The files that another machine gets from the mirror, and the warnings."""
    shutil.rmtree(folder, ignore_errors=True)
    warnings: list[str] = []
    Mirror(URL).load(folder, warnings.append)
    return contents(folder), warnings


def die_at(monkeypatch: pytest.MonkeyPatch, memory: fsspec.AbstractFileSystem, fatal: int, error: type) -> list[str]:
    """Let the writing call of this number leave half a file and fail; returns the calls."""
    calls: list[str] = []
    write, remove = memory.pipe_file, memory.rm_file

    def call(name: str, path: str, data: bytes = b"") -> None:
        calls.append(name)
        if len(calls) == fatal:
            if name != "rm_file":
                write(path, data[: len(data) // 2])
            raise error("away")
        remove(path) if name == "rm_file" else write(path, data)

    replaced = SimpleNamespace(
        pipe_file=lambda path, data: call("pipe_file", path, data),
        put_file=lambda local, path: call("put_file", path, Path(local).read_bytes()),
        rm_file=lambda path: call("rm_file", path),
    )
    for name in WRITES:
        monkeypatch.setattr(memory, name, getattr(replaced, name), raising=False)
    return calls


@pytest.mark.first_is_quick
@pytest.mark.parametrize("at_once", [module.AT_ONCE, 0])
@pytest.mark.parametrize("error", [Killed, OSError])
def test_ended_at_any_call_it_holds_the_state_before_or_the_new_one(tmp_path, folder, memory, error, at_once):
    for fatal in count(1):
        memory.store.clear()
        shutil.rmtree(folder / "run/checkpoints", ignore_errors=True)
        mirror, ended = Mirror(URL), False
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(module, "AT_ONCE", at_once)
            for step in (1, 2, 3):
                before = reach(folder, step)
                mirror.save(folder)
            now = reach(folder, 4)
            die_at(monkeypatch, memory, fatal, error)
            try:
                mirror.save(folder)
            except (Killed, ResourceError):
                ended = True
        files, warnings = loaded(tmp_path / "there")
        assert files in ((before, now) if ended else (now,))
        assert all(f"states/{4:08}" in warning for warning in warnings)  # a list that is half written
        # The next process, or the next checkpoint, goes on and leaves nothing behind that is not needed.
        again = Mirror(URL) if error is Killed else mirror
        latest = reach(folder, 5)
        again.save(folder)
        assert loaded(tmp_path / "there") == (latest, [])
        assert len(memory.find(f"{URL}/states")) == module.KEPT
        assert {path.removeprefix("/bucket/run/") for path in memory.find(f"{URL}/files")} == again._present
        assert again._present == again._whole
        if not ended:
            break
    assert fatal > 8


def damage(memory: fsspec.AbstractFileSystem, part: str) -> None:
    """Change the last byte of the last file whose path has this part."""
    path = max(path for path in memory.find(URL) if part in path)
    memory.pipe_file(path, memory.cat_file(path)[:-1] + b"?")


@pytest.mark.parametrize(
    ("part", "older", "words"),
    [
        ("step_00000003", False, "step_00000003/state.json"),
        ("model.safetensors", True, "Going back"),
        ("states/", True, "Going back"),
    ],
)
def test_damage_is_told_and_what_is_older_is_taken(tmp_path, folder, memory, part, older, words):
    mirror = Mirror(URL)
    states = []
    for step in (1, 2, 3):
        states.append(reach(folder, step))
        mirror.save(folder)
    if part == "model.safetensors":
        part = module._remote_path(part, list(mirror._states.values())[-1][part])
    damage(memory, part)
    expected = states[1] if older else {k: v for k, v in states[2].items() if "step_00000003" not in k}
    files, warnings = loaded(tmp_path / "there")
    assert files == expected
    assert len(warnings) == 1
    assert words in warnings[0]


def test_without_a_whole_state_there_is_no_folder(tmp_path, folder, memory):
    reach(folder, 1)
    Mirror(URL).save(folder)
    damage(memory, "train-source.ids")
    with pytest.raises(DataError, match="no state that is whole"):
        Mirror(URL).load(tmp_path / "there", lambda _: None)
    assert not (tmp_path / "there").exists()
    with pytest.raises(DataError, match="no run to go on with"):
        Mirror("memory://bucket/other").load(tmp_path / "there", lambda _: None)


def test_a_state_of_a_stranger_writes_nothing_outside_of_the_folder(tmp_path, memory):
    content = json.dumps({"../outside": fingerprint(b"x")}).encode()
    memory.pipe_file(f"{URL}/states/00000001-{fingerprint(content)['sha256']}.json", content)
    memory.pipe_file(f"{URL}/{module._remote_path('../outside', fingerprint(b'x'))}", b"x")
    with pytest.raises(DataError, match="no state that is whole"):
        Mirror(URL).load(tmp_path / "deep/there", lambda _: None)
    assert not list(tmp_path.rglob("outside"))


def test_another_run_and_one_that_is_further_are_not_written_over(tmp_path, folder, memory):
    reach(folder, 3)
    Mirror(URL).save(folder)
    with pytest.raises(UsageError, match="holds a run already"):
        Mirror(URL).refuse_if_used()
    before = loaded(tmp_path / "there")
    shutil.copytree(folder, tmp_path / "behind")
    shutil.rmtree(tmp_path / "behind/run/checkpoints/step_00000003")
    with pytest.raises(DataError, match="is further than"):
        Mirror(URL).save(tmp_path / "behind")
    (folder / "run/data/train-source.ids").write_bytes(b"other")
    (folder / "run/data/manifest.json").unlink()
    seal(folder / "run/data")
    with pytest.raises(DataError, match="holds another run"):
        Mirror(URL).save(folder)
    assert loaded(tmp_path / "there") == before


def test_what_is_there_is_not_uploaded_again_and_links_never_are(folder, memory, monkeypatch, tmp_path):
    (tmp_path / "private").write_text("mine")
    (folder / "link").symlink_to(tmp_path / "private")
    reach(folder, 1)
    Mirror(URL).save(folder)
    reach(folder, 2)
    calls = die_at(monkeypatch, memory, 0, Killed)
    Mirror(URL).save(folder)
    # The weights, the metrics, a checkpoint and the list of them.
    assert calls == ["pipe_file"] * 4
    assert not [path for path in memory.find(URL) if "link" in path]


def test_files_of_others_among_the_states_are_left_alone(folder, memory):
    """As the file manager of a Mac writes them."""
    mirror = Mirror(URL)
    mirror.save(folder)
    memory.pipe_file(f"{URL.partition('://')[2]}/states/.DS_Store", b"x")
    reach(folder, 9)
    mirror.save(folder)
    assert memory.exists(f"{URL.partition('://')[2]}/states/.DS_Store")


def test_files_of_others_among_those_of_the_run_are_left_alone(folder, memory):
    mirror, of_others = Mirror(URL), f"{URL.partition('://')[2]}/files/.DS_Store"
    memory.pipe_file(of_others, b"x")
    mirror.save(folder)
    reach(folder, 9)
    Mirror(URL).save(folder)
    assert memory.exists(of_others)
