"""What the terminal shows: a live table for people, plain lines for pipes, nothing but warnings when quiet."""

import io

import pytest
from rich.console import Console

from dragoman import terminal
from dragoman.terminal import Display, scores_table

STEP = {"step": 1, "epoch": 0, "loss": 5.0, "learning_rate": 1e-3, "tokens": 700, "seconds": 1.0}
VALIDATION = {
    "step": 2, "better": True, "valid_loss": 3.217, "bleu": 12.34, "chrf": 30.0,
    "samples": [{"source": "A [b]cat[/b].", "translation": "Un chat.", "reference": "Un chat !"}],
}  # fmt: skip


def display(*, quiet: bool = False, tty: bool = False) -> Display:
    shown = Display(quiet=quiet)
    shown.console = Console(file=io.StringIO(), force_terminal=tty, width=120, color_system=None)
    return shown


def events(shown: Display) -> str:
    with shown.training(max_seconds=100.0, max_steps=None) as view:
        view.report("step", STEP)
        view.report("step", STEP | {"step": 2, "tokens": 1500, "seconds": 3.0})
        view.report("validation", VALIDATION)
        view.report("average", {"steps": [1, 2], "better": False, "bleu": 12.0})
    return shown.console.file.getvalue()


def test_a_pipe_gets_lines_without_control_characters():
    text = events(display())
    assert "\x1b" not in text
    assert text.startswith("step 1  epoch 1  loss 5.000")
    assert "valid loss 3.217  BLEU 12.3 *" in text
    assert "tokens/s 400" in text  # 800 tokens in 2 seconds
    assert "A [b]cat[/b]." in text  # text of users is no markup


def test_a_pipe_gets_a_line_every_ten_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    shown = display()
    with shown.training(max_seconds=None, max_steps=1000) as view:
        for step in range(1, 32):
            view.report("step", STEP | {"step": step, "seconds": float(step)})
            now[0] += 1
    steps = [line.split("  ")[0] for line in shown.console.file.getvalue().split("\n")[:-1]]
    assert steps == ["step 1", "step 12", "step 23"]


def test_a_terminal_gets_a_table_that_stays():
    text = events(display(tty=True))
    assert "valid loss" in text
    assert "12.3 *" in text
    assert "Un chat !" in text


def test_quiet_leaves_warnings_only():
    shown = display(quiet=True)
    shown.note("a note")
    shown.warn("careful")
    with shown.status("working"):
        pass
    assert events(shown) == "Warning: careful\n"


@pytest.mark.parametrize(("seconds", "clock"), [(0.9, "0:00"), (61, "1:01"), (3725, "1:02:05")])
def test_clock(seconds, clock):
    assert terminal._clock(seconds) == clock


def test_scores_come_with_their_signatures():
    figures = {
        "bleu": 41.126, "chrf": 60.0, "ter": 40.0, "signatures": dict.fromkeys(("bleu", "chrf", "ter"), "nrefs:1"),
        "perplexity": 3.5, "token_accuracy": 0.75, "sentences_per_second": 100.0, "sentences": 1000,
    }  # fmt: skip
    console = Console(file=io.StringIO(), width=100)
    console.print(scores_table("Scores", figures))
    text = console.file.getvalue()
    assert "41.13" in text
    assert "75.00 %" in text
    assert text.count("nrefs:1") == 3
