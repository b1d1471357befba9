"""Notes and tables: on a terminal, in a pipe, without colours, and when quiet."""

import io
import json
import os
import re

import pytest
from rich.console import Console

from dragoman.config.training import TrainingConfig
from dragoman.terminal import Display, console
from dragoman.terminal.tables import results_table, scores_table

FIGURES = {
    "bleu": 41.126, "chrf": 60.0, "ter": 40.0, "signatures": dict.fromkeys(("bleu", "chrf", "ter"), "nrefs:1|" * 20),
    "perplexity": 3.5, "token_accuracy": 0.75, "sentences_per_second": 100.0, "sentences": 1000,
}  # fmt: skip
STEP = {"step": 1, "epoch": 0, "loss": 5.0, "learning_rate": 1e-3, "tokens": 700, "seconds": 1.0}


def display(*, quiet: bool = False, tty: bool = False) -> Display:
    shown = Display(quiet=quiet)
    shown.console = Console(file=io.StringIO(), force_terminal=tty, width=120, color_system=None)
    shown.is_terminal = tty
    return shown


def test_quiet_leaves_warnings_only():
    shown = display(quiet=True)
    shown.note("a note")
    shown.show(scores_table("title", FIGURES))
    with (
        shown.status("working"),
        shown.progress("working") as advance,
        shown.file_progress("working", 3) as advance_files,
        shown.training(TrainingConfig(), memory=dict) as view,
    ):
        advance(1)
        advance_files(1, 5)
        view.report("step", STEP)
    shown.warn("careful [b]x[/b]")
    assert shown.console.file.getvalue() == "Warning: careful [b]x[/b]\n"


def test_progress_over_files_counts_files_and_lines():
    shown = display(tty=True)
    with shown.file_progress("Translating", 3) as advance:
        advance(0, 1000)
        advance(1, 234)
        shown.warn("careful")
    drawn = shown.console.file.getvalue()
    assert "1 of 3 files, 1,234 lines" in drawn
    assert drawn.index("Warning: careful") < drawn.rindex("1 of 3 files")


def test_warnings_are_json_with_json():
    shown = display(quiet=True)
    shown.as_json = True
    shown.warn("careful [b]é[/b] :smile:")
    assert json.loads(shown.console.file.getvalue()) == {"warning": "careful [b]é[/b] :smile:"}


def test_notes_that_nobody_reads_stop_nothing_and_results_stop_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", closefd=False) as nobody:
        notes, results = console(stderr=True), console()
        notes.file = results.file = nobody
        notes.print("a note")
        notes.print("another")
        with pytest.raises(BrokenPipeError):
            results.print("a result")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)
    os.close(writing)


def test_scores_of_a_split_that_leaks_come_apart():
    shown = display()
    by_source = {"trained_on": {"bleu": 47.25, "sentences": 41}, "new": {"bleu": 23.5, "sentences": 1003}}
    shown.show(scores_table("title", FIGURES | {"by_source": by_source}))
    text = shown.console.file.getvalue()
    assert re.search(r"trained on +47\.25 +41 whose source", text)
    assert re.search(r"new +23\.50 +1,003 with a source sentence that is new", text)


def test_the_cursor_comes_back_whatever_ends_a_training():
    shown = display(tty=True)

    def interrupted() -> None:
        with shown.training(TrainingConfig(), memory=dict) as view:
            view.report("step", STEP)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    written = shown.console.file.getvalue()
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")  # shown after it was hidden


def test_no_color_leaves_no_styles_at_all(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
    for value, styled in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        written = console()
        written.file = io.StringIO()
        written.print("[bold red]x[/]")
        assert ("\x1b" in written.file.getvalue()) == styled


def test_a_table_in_a_pipe_is_not_folded(capsys):
    console().print(scores_table("title", FIGURES))
    text = capsys.readouterr().out
    (line,) = [line for line in text.split("\n") if line.strip().startswith("BLEU")]
    assert "41.13" in line
    assert FIGURES["signatures"]["bleu"] in line
    assert "75.00 %" in text


def test_numbers_stand_to_the_right_and_texts_to_the_left(capsys):
    for text, line in ((False, " a     1"), (True, " a  1   ")):
        console().print(results_table("title", [("a", "1", ""), ("b", "1000", "")], text=text))
        assert capsys.readouterr().out.split("\n")[1].startswith(line)
