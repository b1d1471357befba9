"""launch/ray_translate.py: files of every format, on any file system, without Ray and with it."""

import gzip
import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import fsspec
import pytest

from dragoman.data.bitext import Bitext
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError
from tests.cli.test_translation import save_model

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "launch" / "ray_translate.py"
LINES = [source for source, _ in Bitext.open("builtin:grammar:40")]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "random")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ray_translate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where pickled rows look for its classes
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def translated(model) -> list[str]:
    return [t.text for t in Translator.load(model, device="cpu").translate(LINES, beam_size=2)]


def work(script: ModuleType, model: Path, **fields: object) -> object:
    return script.Work(str(model), loading={"device": "cpu"}, options={"beam_size": "2"}, **fields)


@pytest.mark.slow
def test_an_actor_translates_files_of_every_format_on_any_file_system(script, model, translated):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    memory = fsspec.filesystem("memory")
    with memory.open("/in/a.txt.gz", "wb") as file:
        file.write(gzip.compress("\n".join(LINES).encode() + b"\ncaf\xe9\n"))
    with memory.open("/in/b.jsonl", "wb") as file:
        rows = [json.dumps({"n": n, "text": line}) for n, line in enumerate(LINES)]
        file.write("\n".join([*rows, "[3]", '{"text": null}', '{"text": ""}']).encode())
    with memory.open("/in/c.parquet", "wb") as file:
        pq.write_table(pa.table({"text": [*LINES, None, ""], "n": range(len(LINES) + 2)}), file)
    with memory.open("/in/d.parquet", "wb") as file:
        pq.write_table(pa.table({"txt": LINES}), file)
    todo, skipped = script.plan("memory://in/*", "memory://out/")
    assert (todo[0]["output"], len(todo), skipped) == ("memory://out/a.txt.gz", 4, 0)

    actor = script.FileTranslator(pickle.loads(pickle.dumps(work(script, model, into="fr"))))
    found = actor({name: [row[name] for row in todo] for name in ("source", "output")})
    assert (found["lines"], found["rejected"]) == ([41, 43, 42, 0], [1, 2, 0, 0])
    assert found["error"][:3] == [""] * 3
    assert "d.parquet has no column 'text'; choose --column among ['txt']." in found["error"][3]
    assert gzip.decompress(memory.cat("/out/a.txt.gz")).decode() == "".join(f"{line}\n" for line in [*translated, ""])
    assert memory.cat("/out/a.txt.gz.rejected.tsv") == b"41\tnot UTF-8 (byte 0xE9 at position 4)\tcaf\\xe9\n"
    lines = memory.cat("/out/b.jsonl").decode().split("\n")
    assert [json.loads(line) for line in lines[: len(LINES)]] == [
        {"n": n, "text": line, "fr": fr} for n, (line, fr) in enumerate(zip(LINES, translated, strict=True))
    ]
    assert lines[len(LINES) :] == ["", "", '{"text": "", "fr": ""}', ""]
    assert [row.split(b"\t")[0] for row in memory.cat("/out/b.jsonl.rejected.tsv").split(b"\n")] == [b"41", b"42", b""]
    with memory.open("/out/c.parquet", "rb") as file:
        table = pq.read_table(file).to_pydict()
    assert table == {"text": [*LINES, None, ""], "n": [*range(42)], "fr": [*translated, None, ""]}
    # What is there is not done again.
    todo, skipped = script.plan("memory://in/*", "memory://out/")
    assert ([work["source"] for work in todo], skipped) == (["memory:///in/d.parquet"], 3)
    assert not [path for path in memory.ls("/out", detail=False) if path.endswith(".tmp")]


def test_files_that_would_be_lost_are_refused(script, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text("Hello.\n")
    for pattern, output, error in (
        (f"{tmp_path}/a/*", f"{tmp_path}/a", UsageError),
        (f"{tmp_path}/*/x.txt", f"{tmp_path}/out", UsageError),
        (f"{tmp_path}/a/*.en", f"{tmp_path}/out", DataError),
    ):
        with pytest.raises(error):
            script.plan(pattern, output)


@pytest.mark.slow
def test_a_pipeline_that_is_killed_goes_on_to_the_same_bytes(model, tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray")
    (tmp_path / "in").mkdir()
    for number in range(6):
        text = "".join(f"{line}\n" for line in LINES[number:] * (1 + number))
        (tmp_path / "in" / f"{number}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "in" / "bad.txt").write_bytes(b"caf\xe9\n")

    def start(output: str) -> subprocess.Popen:
        command = [sys.executable, SCRIPT, model, "in/*", output, "--actors", "1", "--set", "beam_size=2"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}  # where Ray keeps its token
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(list(map(str, command)), cwd=tmp_path, env=environment, text=True, **pipes)

    def finish(output: str) -> dict[str, float]:
        out, err = start(output).communicate(timeout=240)
        assert out, err
        return json.loads(out)

    whole = finish("whole")
    assert (whole["files"], whole["skipped"], whole["rejected"]) == (7, 0, 1)
    with start("killed") as process:
        until = time.monotonic() + 120
        while not list(tmp_path.glob("killed/?.txt")) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    rest = finish("killed")
    assert rest["skipped"] >= 1
    assert rest["files"] + rest["skipped"] == 7
    made = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("whole", "killed")]
    assert made[0] == made[1]
    assert made[0].keys() >= {"bad.txt.rejected.tsv", "5.txt"}
