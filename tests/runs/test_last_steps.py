"""No failure after a training loses it: a step that fails is a warning, and the other steps are done."""

import json
import subprocess
import sys

import pytest

from dragoman.config.settings import parse_settings
from dragoman.errors import Interrupted, ResourceError, UsageError
from dragoman.report.run import describe_run
from dragoman.runs.plan import plan_resume, plan_run
from dragoman.runs.train import resume_run, start_run
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import LastSteps
from dragoman.terminal import Display
from tests.report.runs import full_run
from tests.small import MODEL_SETTINGS

LATER = "Go on with:  dragoman train --resume run"
TROUBLES = [
    ImportError("libXau.so.6: cannot open shared object file"),
    OSError(28, "No space left on device", "/home/x/.cache"),
    OSError("words alone"),
    RuntimeError("Could not determine home directory."),
    KeyError("getpwuid(): uid not found: 54321"),
    MemoryError(),
    UnicodeEncodeError("ascii", "é", 0, 1, "ordinal not in range(128)"),
    ResourceError("The disk of run is full; make room and try again."),
]


def name_of(trouble: BaseException) -> str:
    return type(trouble).__name__


@pytest.fixture
def warnings(monkeypatch) -> list[str]:
    warnings: list[str] = []
    monkeypatch.setattr(Display, "warn", lambda self, text: warnings.append(text))
    return warnings


@pytest.mark.parametrize("trouble", TROUBLES, ids=name_of)
def test_a_last_step_that_fails_is_a_warning_that_names_it_the_reason_and_the_remedy(trouble, warnings):
    last_steps = LastSteps(Display(quiet=True), later=LATER)
    with last_steps("The report"):
        raise trouble
    assert last_steps.failed
    (text,) = warnings
    assert text.startswith("The report could not be made: ")
    assert text.endswith(f". {LATER}")
    assert ".. " not in text
    assert "None" not in text


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(), Interrupted(15, "Stopped.")], ids=name_of)
def test_a_signal_is_no_failure_of_a_step(stop, warnings):
    with pytest.raises(type(stop)), LastSteps(Display(quiet=True), later=LATER)("The report"):
        raise stop
    assert not warnings


@pytest.fixture
def described(tmp_path, monkeypatch, warnings):
    """A function that writes the card and the report of a run, while the function of a name raises an error."""
    monkeypatch.setattr("dragoman.report.run._summary", lambda *_: full_run())
    monkeypatch.setattr("dragoman.report.run.write_report", lambda path, _: (path / "report.html").touch())
    monkeypatch.setattr("dragoman.report.run._attention", lambda *_: full_run().attention)

    def describe(name: str, trouble: BaseException) -> set[str]:
        def fail(*_, **__):
            raise trouble

        monkeypatch.setattr(f"dragoman.report.run.{name}", fail)
        steps = LastSteps(Display(quiet=True), later=LATER)
        describe_run(RunDirectory(tmp_path), None, None, None, None, last_steps=steps)
        return {file.name for file in tmp_path.iterdir()}

    return describe


@pytest.mark.parametrize("trouble", TROUBLES, ids=name_of)
@pytest.mark.parametrize(
    ("name", "missing", "words"),
    [
        ("write_report", {"report.html"}, "The report, report.html, could not be made"),
        ("model_card", {"README.md"}, "The model card, README.md, could not be made"),
        ("_attention", set(), "The attention in the report could not be made"),
    ],
)
def test_a_card_or_a_report_that_fails_costs_nothing_but_itself(name, missing, words, trouble, described, warnings):
    assert described(name, trouble) == {"README.md", "report.html"} - missing
    (text,) = warnings
    assert text.startswith(words)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_card_needs_no_matplotlib_and_a_report_no_more_than_training(missing):
    """In a process of its own: what is imported once stays."""
    code = f"import sys; sys.modules['{missing}'] = None; import dragoman.report.run, dragoman.runs.train"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.returncode == 0) == (missing == "matplotlib"), process.stderr


@pytest.mark.slow
def test_a_training_of_a_user_without_a_home_and_without_a_name_has_its_report(tmp_path):
    code = (
        "import pwd, sys\n"
        "def nobody(uid): raise KeyError(f'getpwuid(): uid not found: {uid}')\n"
        "pwd.getpwuid = nobody\n"
        "from dragoman.cli import main\n"
        "main()"
    )
    sizes = ["model.d_model=8", "model.d_ff=8", "model.num_heads=2", "tokenizer.vocab_size=300", "data.held_out=10"]
    steps = ["--size", "tiny", "training.max_steps=2", "training.validate_every=1"]
    command = [sys.executable, "-c", code, "train", "builtin:grammar:60", "--output", "run", *steps, *sizes, "--json"]
    path = {"PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "bleu" in json.loads(process.stdout)
    assert (tmp_path / "run" / "report.html").is_file()
    assert (tmp_path / "run" / "README.md").is_file()
    assert "matplotlib" not in process.stderr
    assert "could not be made" not in process.stderr


def test_a_report_that_failed_is_made_when_the_run_is_resumed(tmp_path, monkeypatch, warnings, with_reports):
    settings = parse_settings([*MODEL_SETTINGS, "size=tiny", "training.max_steps=3", "tokenizer.vocab_size=300"])
    config, pairs = plan_run(["builtin:grammar:60"], recipe=None, settings=settings)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full_disk:
        full_disk.setattr("dragoman.report.run.write_report", fail)
        start_run(pairs, config, tmp_path / "run", listener=Display(quiet=True))
    assert not (tmp_path / "run/report.html").exists()
    assert [text for text in warnings if "The report, report.html, could not be made" in text]
    resume_run(tmp_path / "run", plan_resume(tmp_path / "run", {}), listener=Display(quiet=True))
    assert (tmp_path / "run/report.html").is_file()
    with pytest.raises(UsageError, match="is finished"):
        plan_resume(tmp_path / "run", {})
