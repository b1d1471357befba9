"""The view of a training: a live table for people that fits their screen, plain lines for pipes."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from dragoman.config.training import TrainingConfig
from dragoman.terminal import training
from dragoman.terminal.training import TrainingView

STEP = {"step": 1, "epoch": 0, "loss": 5.0, "learning_rate": 1e-3, "tokens": 700, "seconds": 1.0}
SAMPLE = {"source": "A [b]cat[/b].", "translation": "Un chat.", "reference": "Un chat !"}
VALIDATION = {"step": 2, "better": True, "valid_loss": 3.217, "bleu": 12.34, "chrf": 30.0, "samples": [SAMPLE] * 3}


def view(*, width: int = 80, height: int = 24, live: bool = False, **limits: float) -> TrainingView:
    console = Console(file=io.StringIO(), force_terminal=live, width=width, height=height, color_system=None)
    used = {"memory": 812_000_000, "GPU": 3_100_000_000, "unknown": 0}
    return TrainingView(console, TrainingConfig(**limits), memory=lambda: used, live=live)


def feed(shown: TrainingView, validations: int = 1) -> str:
    """Reports two steps and a validation, `validations` times; returns what was printed."""
    for number in range(validations):
        first = 2 * number + 1
        shown.report("step", STEP | {"step": first, "tokens": 800 * first - 100, "seconds": 2.0 * first - 1})
        shown.report("step", STEP | {"step": first + 1, "tokens": 800 * first + 700, "seconds": 2.0 * first + 1})
        better = number < 3
        shown.report("validation", VALIDATION | {"step": first + 1, "better": better, "bleu": 12.34 + number % 3})
    return shown.console.file.getvalue()


def screen(shown: TrainingView) -> list[str]:
    """What the live table looks like."""
    with shown.console.capture() as captured:
        shown.console.print(shown)
    return captured.get().split("\n")[:-1]


def test_a_pipe_gets_lines_without_control_characters():
    shown = view(max_minutes=100 / 60)
    shown.begin([], last_step=None)  # a run that is no resumed one
    text = feed(shown)
    shown.report("average", {"steps": [1, 2], "better": False, "bleu": 12.0})
    assert "\x1b" not in text
    assert text.startswith("step 1  epoch 1  loss 5.000  learning rate 1.0e-03  0:01  1:39 left  memory 812 MB")
    assert "valid loss 3.217  BLEU 12.3 *" in text
    assert "tokens/s 400" in text  # 800 tokens in 2 seconds
    assert "A [b]cat[/b]." in text  # text of users is no markup
    assert shown.console.file.getvalue().endswith("has BLEU 12.0: not better than the best, left.\n")


def test_a_pipe_gets_a_line_every_ten_seconds(monkeypatch):
    now = [100.0]
    # Not the module of all: other threads, such as a server's, have a clock of their own.
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: now[0]))
    shown = view()
    for step in range(1, 32):
        shown.report("step", STEP | {"step": step, "seconds": float(step)})
        now[0] += 1
    steps = [line.split("  ")[0] for line in shown.console.file.getvalue().split("\n")[:-1]]
    assert steps == ["step 1", "step 12", "step 23"]


def test_quiet_prints_nothing():
    shown = view()
    shown.quiet = True
    assert feed(shown) == ""


def test_the_table_shows_all_that_is_asked_of_a_training():
    shown = view(live=True, max_minutes=100 / 60)
    feed(shown, validations=5)
    text = "\n".join(screen(shown))
    for words in ("valid loss", "14.3 *", "Un chat !", "A [b]cat[/b].", "400 tokens/s", "0:19  1:21 left"):
        assert words in text, words
    assert "▁▅█▁▅  best 14.3 at step 6" in text  # 12.34, 13.34, 14.34 and again 12.34, 13.34
    assert "best 3.217 at step 2" in text
    assert "memory 812 MB  GPU 3.1 GB" in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (132, 50), (80, 14), (47, 11), (29, 9)])
def test_the_table_fits_every_screen(width, height):
    shown = view(width=width, height=height, live=True)
    feed(shown, validations=23)
    shown.validations[-1]["samples"] = [{name: f"{name} " * 30 for name in SAMPLE}] * 2
    lines = screen(shown)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert lines[-2].startswith("step 46")  # the status is never left out
    assert ("tokens/s" in lines[1]) == (width >= 64)
    assert [line.split()[0] for line in lines if "13.3 " in line][-1] == "46"  # nor is the last validation


def test_accuracies_have_columns_where_they_are_measured():
    shown = view(live=True, width=100, accuracy=True)
    shown.report("step", STEP)
    shown.report("validation", VALIDATION | {"train_accuracy": 0.5479, "valid_accuracy": 0.53})
    text = "\n".join(screen(shown))
    for words in ("accuracy", "valid acc.", "54.8%", "53.0%"):
        assert words in text, words


def test_without_unicode_there_is_no_sparkline():
    shown = view(live=True)
    feed(shown, validations=3)
    shown.console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), width=80, height=24)
    text = "\n".join(screen(shown))
    assert text.isascii()
    assert "best 14.3 at step 6" in text


def test_a_resumed_run_shows_its_past_and_prints_none_of_it():
    shown = view(live=True)
    later = STEP | {"step": 2, "seconds": STEP["seconds"] + 1}
    events = [{"event": "step", **step} for step in (STEP, later)]
    shown.begin([*events, {"event": "validation", **VALIDATION}, {"event": "average"}], last_step=4)
    assert shown.console.file.getvalue() == ""
    text = "\n".join(screen(shown))
    assert "best 12.3 at step 2" in text
    assert "0:02 left" in text  # 2 more steps of a second


def test_the_shown_loss_is_the_same_whether_all_steps_were_seen_or_some():
    """Steps of equal loss after a first one: 1 + 4 * 0.95 ** 20 after twenty of them."""
    every, some = view(live=True), view(live=True)
    for step in range(1, 22):
        for shown in [every] if step % 10 != 1 else [every, some]:
            shown.report("step", STEP | {"step": step, "loss": 5.0 if step == 1 else 1.0})
    assert every.loss == pytest.approx(1 + 4 * 0.95**20)
    assert some.loss == pytest.approx(every.loss)


def test_ctrl_c_is_answered_inside_the_live_table_and_on_a_line_of_a_pipe(capfd):
    live, piped = view(live=True), view()
    for shown in (live, piped):
        shown.stopping()
    assert live.console.file.getvalue() == ""
    assert screen(live)[-1].startswith("Stopping after this step")
    assert capfd.readouterr().err.startswith("Stopping after this step")
