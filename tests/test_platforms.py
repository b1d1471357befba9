"""Commands on macOS and Windows, as far as Linux can stand in for them (platforms/sitecustomize.py)."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman import errors
from tests.small import MODEL_SETTINGS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux stands in for the others")
ROOT = Path(__file__).parents[1]
SMALL = [
    *MODEL_SETTINGS, "training.max_steps=8", "training.validate_every=4", "training.validate_sentences=5",
    "data.held_out=10", "tokenizer.vocab_size=300",
]  # fmt: skip


@pytest.fixture(params=["darwin", "win32"])
def platform(request, tmp_path: Path) -> dict[str, str]:
    """The environment of commands on a platform."""
    path = os.pathsep.join([str(ROOT / "tests" / "platforms"), str(ROOT)])
    return os.environ | {"PYTHONPATH": path, "DRAGOMAN_TEST_PLATFORM": request.param, "HOME": str(tmp_path)}


@pytest.fixture
def run(platform: dict[str, str], tmp_path: Path) -> Callable[..., str]:
    """A function that runs a command, which must succeed without a traceback, and returns its stdout."""

    def run(*arguments: object, stdin: str = "") -> str:
        command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
        done = subprocess.run(
            command, env=platform, cwd=tmp_path, input=stdin, capture_output=True, text=True, timeout=300
        )
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        return done.stdout

    return run


def write_pairs(folder: Path) -> None:
    lines = [f"The {colour} house number {n} is old.\tLa maison {n} est {colour}.\n" for n in range(40)
             for colour in ("red", "green", "blue")]  # fmt: skip
    (folder / "pairs.tsv").write_text("".join(lines), encoding="utf-8")


@pytest.mark.slow
def test_pairs_are_checked(run, tmp_path: Path):
    write_pairs(tmp_path)
    (tmp_path / "report.tsv").write_text("is replaced", encoding="utf-8")
    assert "120 pairs" in run("data", "check", "pairs.tsv", "-o", "report.tsv")
    assert "is replaced" not in (tmp_path / "report.tsv").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_model_is_trained_goes_on_translates_and_serves(run, platform, tmp_path: Path):
    write_pairs(tmp_path)
    run("train", "pairs.tsv", "-o", "run", *SMALL)
    run("train", "--resume", "run", "training.max_steps=12")
    assert (tmp_path / "run/run/checkpoints/step_00000012").is_dir()
    assert not list(tmp_path.rglob("*.tmp")) + list(tmp_path.rglob(".*.lock"))
    run("data", "prepare", "pairs.tsv", "-o", "prepared")
    assert run("translate", "run", "The red house is old.", "A cat.").count("\n") == 2
    assert run("translate", "run", stdin="A cat.\nA dog.\n").count("\n") == 2
    for _ in range(2):  # the second time it is replaced
        run("translate", "run", "--input", "pairs.tsv", "--output", "out.txt")
    assert (tmp_path / "out.txt").read_bytes().count(b"\n") == 120
    (tmp_path / "page.html").write_text("<p>The <b>red</b> house.</p>", encoding="utf-8")
    run("translate", "run", "--document", "page.html", "--output", "page.fr.html")
    run("evaluate", "run", "pairs.tsv")
    run("export", "run", "eight", "--to", "dragoman-int8")
    command = [sys.executable, "-m", "dragoman", "serve", "run:en,fr", "--port", "0"]
    with subprocess.Popen(command, env=platform, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            lines = iter(server.stderr.readline, "")
            url = next(found[1] for line in lines if (found := re.search(r"at (http://\S+);", line)))
            form = b"q=The+red+house.&source=en&target=fr"
            with urllib.request.urlopen(f"{url}/translate", form, timeout=60) as answer:
                assert b"translatedText" in answer.read()
            server.send_signal(signal.SIGINT)
            rest = server.communicate(timeout=30)[1]
            assert (server.returncode, "Traceback" in rest) == (0, False), rest
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["pip", "install", "h5py>=3.11"], 'pip install "h5py>=3.11"'),
        (["train", "data.languages=[en,fr]"], 'train "data.languages=[en,fr]"'),
        (["translate", r"C:\my models\en-fr" + "\\", 'say "hi"'], r'translate "C:\my models\en-fr\\" "say \"hi\""'),
        ([r"runs\en-fr", "a&b", ""], r'runs\en-fr "a&b" ""'),
    ],
)
def test_commands_are_quoted_for_the_shells_of_windows(words: list[str], line: str, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert errors.quoted(*words) == line
    # As the programs of Windows split it, which is documented for the C runtime.
    assert subprocess.list2cmdline(words).replace('"', "") == line.replace('"', "")
