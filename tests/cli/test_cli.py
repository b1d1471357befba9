"""The command line as a user meets it: results on stdout, one sentence for a mistake, the right exit code."""

import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import unicodedata
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path

import jaxtyping
import pytest
import torch

from dragoman import cli
from dragoman.cli.app import Command, Group, describe
from dragoman.config.decoding import DecodingConfig
from dragoman.data.bitext import Bitext
from tests.small import MODEL_SETTINGS, write_pairs
from tests.waiting import wait_until
from tools import make_docs

ROOT = Path(__file__).resolve().parents[2]
PATHS = [context.command_path for _, context in make_docs.commands()]

SMALL = [
    *MODEL_SETTINGS, "tokenizer.vocab_size=400", "training.max_tokens=512",
    "training.validate_every=7", "training.validate_sentences=5", "decoding.beam_size=2",
    "training.warmup=3", "training.learning_rate=1e-2", "training.average=3",
]  # fmt: skip
LINES = ["The red house is old.", "", "I see a cat.", "   ", "The red house is old.", "Ω 😀 \u2028 x"]


@pytest.fixture(scope="session")
def pairs(tmp_path_factory) -> Path:
    """A TSV file of 300 pairs."""
    return write_pairs(tmp_path_factory.mktemp("data") / "en-fr.tsv", Bitext.open("builtin:grammar:300"))


@pytest.fixture(scope="session")
def trained(pairs, tmp_path_factory) -> tuple[Path, str]:
    """A model directory, trained for 21 steps by the command itself, and what the command printed to stderr."""
    directory, stderr = tmp_path_factory.mktemp("model") / "my run", io.StringIO()
    command = ["dragoman", "train", pairs, "-o", directory, "training.max_steps=21", *SMALL]
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(stderr):
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        patch.setattr(sys, "argv", list(map(str, command)))
        with pytest.raises(SystemExit) as exit_:
            cli.main()
    assert exit_.value.code == 0, stderr.getvalue()
    return directory, stderr.getvalue()


@pytest.fixture(scope="session")
def model(trained) -> Path:
    return trained[0]


@pytest.mark.slow
def test_torchrun_starts_a_killed_run_again_and_it_ends_with_the_same_losses(pairs, tmp_path):
    def start(name: str) -> subprocess.Popen:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        settings = [*SMALL, "training.max_steps=60", "training.optimizer=adam", "training.log_every=1"]
        command = [*torchrun, "--max-restarts=2", "-m", "dragoman", "train", pairs, "--output", tmp_path / name]
        with open(tmp_path / f"{name}.log", "w") as log:
            return subprocess.Popen(list(map(str, [*command, *settings])), stdout=log, stderr=log)

    def losses(name: str) -> list[float]:
        lines = (tmp_path / name / "run/metrics.jsonl").read_text().splitlines()
        return [event["loss"] for event in map(json.loads, lines) if event["event"] == "step"]

    quiet, killed = start("quiet"), start("killed")
    while not list((tmp_path / "killed" / "run").glob("checkpoints/step_*")):
        time.sleep(0.05)
        assert killed.poll() is None, (tmp_path / "killed.log").read_text()
    children = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    for name, process in (("quiet", quiet), ("killed", killed)):
        assert process.wait(120) == 0, (tmp_path / f"{name}.log").read_text()
    assert len(losses("killed")) == 60
    assert losses("killed") == losses("quiet")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["1", "2"])
def test_a_dry_run_says_what_is_chosen_and_trains_nothing(pairs, tmp_path, dragoman, monkeypatch, ranks: str):
    """It waits for no other rank."""
    monkeypatch.setattr("torch.distributed.init_process_group", lambda *_, **__: pytest.fail("it waits for others"))
    for name, value in (("RANK", "0"), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", ranks)):
        monkeypatch.setenv(name, value)
    code, out, err = dragoman("train", pairs, "--dry-run", "--json", "-o", tmp_path / "run", *SMALL)
    assert code == 0, err
    assert "measures its speed" in json.loads(out)["chosen"][1]
    limited = [*SMALL, "training.max_epochs=3"]
    code, out, err = dragoman("train", pairs, "--dry-run", "--json", "-o", tmp_path / "run", *limited)
    report = json.loads(out)
    assert "300 pairs" in report["chosen"][0]
    assert "For 3 epochs, about 3 epochs: dropout 0" in report["chosen"][1]
    assert [case["ranks"] for case in report["memory"]] == [1, 8, 8, 64, 64]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_command_to_try_can_be_copied_whatever_the_folder_is_called(trained):
    directory, notes = trained
    (line,) = [line for line in notes.split("\n") if line.startswith("Try it:")]
    assert shlex.split(line)[-3:] == ["translate", str(directory), "..."]


def test_train_writes_everything_that_people_copy_around(model):
    names = {path.name for path in model.iterdir()}
    weights = {"config.json", "model.safetensors", "tokenizer.json", "source_style.json", "sketch.bin"}
    assert names == {*weights, "README.md", "report.html", "run"}
    assert "en" in (model / "README.md").read_text(encoding="utf-8")
    lines = (model / "run" / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    events = [json.loads(line) for line in lines]
    assert [e["step"] for e in events if e["event"] == "validation"] == [7, 14, 21]


def test_as_many_lines_out_as_in_and_in_their_order(model, dragoman, tmp_path):
    code, out, _ = dragoman("translate", model, "--beam-size", 2, stdin="\n".join(LINES) + "\n")
    piped = out.split("\n")[:-1]
    assert code == 0
    assert len(piped) == len(LINES)
    assert (piped[1], piped[3].strip()) == ("", "")
    assert piped[0] == piped[4]
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(LINES), encoding="utf-8")
    code, out, _ = dragoman("translate", model, "-i", source, "-o", target, "--beam-size", 2)
    assert (code, out) == (0, "")
    assert target.read_text(encoding="utf-8").split("\n")[:-1] == piped
    code, out, _ = dragoman("translate", model, LINES[0], LINES[2], "--beam-size", 2)
    assert out.split("\n")[:-1] == [piped[0], piped[2]]


def test_json_lines_hold_text_and_score(model, dragoman):
    code, out, _ = dragoman("translate", model, "I see a cat.", "--json")
    line = json.loads(out)
    assert code == 0
    assert line["score"] < 0
    assert set(line) == {"text", "score", "log_prob", "tokens", "sentences"}


@pytest.mark.slow
def test_evaluate_prints_all_figures_with_signatures(model, pairs, dragoman, tmp_path):
    hypotheses, few = tmp_path / "hypotheses.txt", tmp_path / "few.tsv"
    few.write_text("".join(pairs.read_text(encoding="utf-8").splitlines(keepends=True)[:80]), encoding="utf-8")
    pairs = few
    code, out, _ = dragoman("evaluate", model, pairs, "--json", "-o", hypotheses, "--beam-size", 1)
    figures = json.loads(out)
    assert code == 0
    assert figures["sentences"] == 80 == hypotheses.read_text(encoding="utf-8").count("\n")
    assert 1 < figures["perplexity"] < 400  # better than guessing among the vocabulary
    assert "version:" in figures["signatures"]["bleu"]
    code, out, _ = dragoman("evaluate", model, pairs, "--beam-size", 1)
    assert all(name in out for name in ("BLEU", "chrF++", "TER", "perplexity", "token accuracy", "sentences/s"))
    translated = hypotheses.read_text(encoding="utf-8").splitlines()
    code, out, _ = dragoman("evaluate", model, pairs, "--beam-size", 1, "--examples", 7, "--json")
    examples = json.loads(out)["examples"]
    rows = [line.split("\t") for line in pairs.read_text(encoding="utf-8").splitlines()]
    assert len(examples) == 7
    for example in examples:
        row = rows.index([example["source"], example["reference"]])
        assert example["translation"] == translated[row]
    code, out, _ = dragoman("evaluate", model, pairs, "--beam-size", 1, "--examples", 2)
    assert out.count("reference: ") == 2


def test_average_of_snapshots_is_a_model(model, dragoman, tmp_path):
    code, out, err = dragoman("average", model, "--output", tmp_path / "average", "--last", 2)
    assert (code, out, "14, 21" in err) == (0, "", True)
    code, out, err = dragoman("average", model, "--output", tmp_path / "again", "--json", "--quiet")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"model": str(tmp_path / "again"), "steps": [7, 14, 21]}
    code, out, _ = dragoman("translate", tmp_path / "average", "I see a cat.")
    assert (code, out.count("\n")) == (0, 1)


@pytest.mark.slow
def test_runs_are_compared(model, dragoman, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = dragoman("compare", model, model, "--json", "-o", page)
    first, second = json.loads(out)
    assert (code, first) == (0, second)
    assert (first["steps"], first["best_step"] in (7, 14, 21), first["settings"]) == (21, True, {})
    assert str(page) in err
    assert "<svg" in page.read_text(encoding="utf-8")
    code, out, err = dragoman("compare", model, model, "--quiet")
    assert (code, err) == (0, "")
    assert all(name in out for name in ("Weights", "Validation BLEU", "Test BLEU", first["test_signature"]))


def test_without_tensorboard_nothing_is_begun(pairs, dragoman, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    code, out, err = dragoman("train", pairs, "--tensorboard", "-o", tmp_path / "run")
    assert (code, out, (tmp_path / "run").exists()) == (4, "", False)
    assert "pip install 'tensorboard>=" in err


def test_no_socket_is_opened(model, pairs, dragoman, monkeypatch, tmp_path):
    opened: list[object] = []

    def refuse(*arguments):
        opened.append(arguments)  # whoever calls home may catch every error
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    few = tmp_path / "few.tsv"
    few.write_text("".join(pairs.read_text(encoding="utf-8").splitlines(keepends=True)[:80]), encoding="utf-8")
    files = {"MODEL": model, "PAIRS": few} | {name: tmp_path / name.lower() for name in ("NEW", "RUN", "PAGE.html")}
    files["PNG"] = tmp_path / "mask.png"
    commands = [
        "translate MODEL Hi.", "translate MODEL Hi. --workers 2", "score MODEL PAIRS",
        "evaluate MODEL PAIRS --beam-size 1", "average MODEL -o NEW", "compare MODEL MODEL -o PAGE.html",
        "inspect MODEL Hi. --json", "tokenize MODEL Hi.", "plot mask -o PNG", "data check PAIRS",
        "train PAIRS -o RUN training.max_steps=2",
    ]  # fmt: skip
    for command in commands:
        words = [files.get(word, word) for word in command.split()]
        code, _, err = dragoman(*words, *(SMALL if words[0] == "train" else ()))
        assert code == 0, (command, err)
        assert not opened, command


def test_no_output_is_emptied_for_an_input_that_cannot_be_read(model, dragoman, tmp_path):
    path = tmp_path / "precious.txt"
    path.write_text("The red house is old.\n", encoding="utf-8")
    assert dragoman("translate", model, "-i", path, "-o", path)[0] == 2
    assert dragoman("translate", model, "-i", tmp_path / "nowhere.txt", "-o", path)[0] == 3
    assert path.read_text(encoding="utf-8") == "The red house is old.\n"


def test_no_model_and_no_folder_is_overwritten(model, pairs, dragoman, tmp_path):
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    commands = [["train", pairs, "-o", tmp_path], ["average", model, "-o", model], ["average", model, "-o", pairs]]
    for arguments in commands:
        code, _, err = dragoman(*arguments)
        assert (code, "exists and is not empty; choose another folder." in err) == (2, True)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


def test_decomposed_accents_are_read_as_composed_ones(model, dragoman):
    composed, decomposed = (unicodedata.normalize(form, "Élise déjà été") for form in ("NFC", "NFD"))
    code, out, _ = dragoman("translate", model, composed, decomposed)
    first, second = out.split("\n")[:-1]
    assert (code, first) == (0, second)


def test_evaluate_leaves_no_pair_out(model, dragoman, tmp_path):
    path, hypotheses = tmp_path / "gaps.tsv", tmp_path / "out.txt"
    path.write_text("I see a cat.\tJe vois un chat.\n\tRien.\nWe run.\t\n", encoding="utf-8")
    code, out, _ = dragoman("evaluate", model, path, "--json", "-o", hypotheses)
    assert (code, json.loads(out)["sentences"]) == (0, 3)
    lines = hypotheses.read_text(encoding="utf-8").split("\n")
    assert (len(lines), lines[1], lines[3]) == (4, "", "")


def test_columns_of_pairs_to_score_are_chosen_and_what_is_left_out_is_told(model, dragoman, tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = [f"{n}\tJe vois {n} chats.\tI see {n} cats.\n" for n in range(5)]
    path.write_text("nr\tfr\ten\n" + "".join(rows) + "We run. Nous courons.\n", encoding="utf-8")
    for command in ("score", "evaluate"):
        code, out, err = dragoman(command, model, path, "--columns", "3,2", "--json")
        assert (code, json.loads(err.split("\n")[0])) == (
            0, {"warning": f"{path}: 1 left out, which are no pairs (other columns than most rows)."},
        )  # fmt: skip
        assert out.count("\n") == (5 if command == "score" else 1)
    assert json.loads(out)["sentences"] == 5
    first = dragoman("score", model, path, "--columns", "en,fr", "--json")[1].split("\n")[0]
    (tmp_path / "alone.tsv").write_text("I see 0 cats.\tJe vois 0 chats.\n", encoding="utf-8")
    alone = json.loads(dragoman("score", model, tmp_path / "alone.tsv", "--json")[1])
    assert json.loads(first)["score"] == pytest.approx(alone["score"], rel=1e-5)


def test_bytes_that_are_no_text_name_their_line(model, dragoman, tmp_path):
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"Good.\nCaf\xe9.\n")
    code, _, err = dragoman("translate", model, "--input", path)
    assert (code, "line 2" in err) == (3, True)


def test_no_help_waits_for_torch_or_anything_slow():
    script = (
        "import sys\n"
        "from dragoman.cli import main\n"
        f"for path in {['dragoman', *PATHS]}:\n"
        "    sys.argv = [*path.split(), '--help']\n"
        "    try: main()\n"
        "    except SystemExit as exit_: assert exit_.code == 0\n"
        "slow = {'torch', 'numpy', 'matplotlib', 'yaml', 'tokenizers', 'rich.console', 'sacrebleu'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)"
    )
    environment = os.environ | {"FORCE_COLOR": "1"}
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr
    assert "--resume" in process.stdout
    assert "\x1b" not in process.stdout


def test_every_command_takes_json_and_quiet():
    for command, context in make_docs.commands():
        options = {option for parameter in command.get_params(context) for option in parameter.opts}
        assert {"--json", "--quiet"} <= options, context.command_path


def test_options_of_decoding_follow_from_the_config():
    options = {
        context.command_path: {parameter.name: describe(parameter) for parameter in command.get_params(context)}
        for command, context in make_docs.commands()
    }
    assert set(DecodingConfig.model_fields) - set(options["dragoman translate"]) == {"max_tokens", "min_ratios"}
    assert options["dragoman translate"]["top_p"][0] == "--top-p X"
    for command in ("translate", "evaluate", "inspect", "plot attention"):
        described = "Hypotheses kept alive; 1 is greedy search. Default: the model's, or 5."
        assert options[f"dragoman {command}"]["beam_size"] == ("--beam-size N", described)


def test_every_command_has_plain_help():
    for command, context in make_docs.commands():
        assert isinstance(command, Command), f"make the group of `{context.command_path}` with App"
        assert isinstance(context.parent.command, Group)


def test_no_arguments_show_the_help_on_stderr(dragoman):
    code, out, err = dragoman()
    assert (code, out) == (2, "")
    assert "Score a model on sentence pairs: BLEU, chrF++, TER, perplexity," in err  # the whole line, wrapped


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("dragoman tr", ["train", "translate"]),
        ("dragoman train --resu", ["--resume"]),
        ("dragoman train --size t", ["tiny"]),
        ("dragoman train --recipe paper", ["paper-base", "paper-big"]),
        ("dragoman translate model --precision b", ["bfloat16"]),
        ("dragoman train pai", []),  # left to the shell: files
    ],
)
def test_the_shell_completes_commands_options_and_their_values(words, completions, dragoman, monkeypatch):
    for name, value in (("", "complete_bash"), ("COMP_WORDS", words), ("COMP_CWORD", str(len(words.split()) - 1))):
        monkeypatch.setenv(name or "_DRAGOMAN_COMPLETE", value)
    code, out, _ = dragoman()
    assert (code, out.split()) == (0, completions)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script_that_is_installed(dragoman, monkeypatch, tmp_path):
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    code, script, _ = dragoman("--show-completion")
    assert code == 0
    # What bash does at the Tab key: it looks up the function, sets the words, and calls it.
    session = """
        source completion.bash
        [[ $(complete -p dragoman) =~ -F\\ ([^ ]+) ]]
        try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); ${BASH_REMATCH[1]} dragoman; echo "${COMPREPLY[@]}"; }
        try dragoman eval; try dragoman data ch; try dragoman evaluate model --ens; try dragoman train --size sm
    """
    (tmp_path / "completion.bash").write_text(script)
    (tmp_path / "dragoman").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dragoman "$@"\n')
    (tmp_path / "dragoman").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    process = subprocess.run(["bash", "-c", session], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.stdout.split("\n")[:-1] == ["evaluate", "check", "--ensemble", "small"], process.stderr


def test_the_demo_prints_its_scores_as_json(dragoman, monkeypatch, tmp_path):
    class Scored:
        warnings = ()

        def to_dict(self) -> dict[str, float]:
            return {"bleu": 97.0}

    calls = []
    monkeypatch.setattr(
        "dragoman.cli.demo.run_demo", lambda path, display: calls.append((path, display.quiet)) or Scored()
    )
    code, out, _ = dragoman("demo", "--json", "--quiet", "-o", tmp_path / "new")
    assert (code, json.loads(out)) == (0, {"bleu": 97.0})
    assert calls == [(tmp_path / "new", True)]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_reader_that_leaves_early_is_no_failure(model, tmp_path):
    source = tmp_path / "many.txt"
    source.write_text("I see a cat.\n" * 2100, encoding="utf-8")
    translate = shlex.join([sys.executable, "-m", "dragoman", "translate", str(model), "-i", str(source)])
    command = f"set -o pipefail; {translate} --beam-size 1 | head -n 2"
    process = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (process.returncode, process.stdout.count("\n"), process.stderr) == (0, 2, "")


TO_NOBODY = """
import json, os, sys
import matplotlib.figure
from dragoman import Translator, cli, report
from dragoman.evaluation import evaluate

Translator.load(sys.argv[1])  # what is slow is imported once for all commands
for arguments, stream in json.load(sys.stdin):
    reading, writing = os.pipe()
    errors, error_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(error_end, 2)
        os.dup2(writing, stream)
        os.close(error_end)
        os.close(writing)
        sys.argv = ["dragoman", *arguments]
        try:
            cli.main()
        except SystemExit as exit_:
            sys.stdout.flush(), sys.stderr.flush()  # as Python does at its end, which takes long with torch
            os._exit(exit_.code)
    os.close(error_end), os.close(reading), os.close(writing)
    with open(errors) as file:
        print(json.dumps([file.read(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]))  # read until all are gone
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_every_command_stops_quietly_when_nobody_reads_its_results(model, pairs, tmp_path):
    sources, few = tmp_path / "sources.txt", tmp_path / "few.tsv"
    sources.write_text("I see a cat.\n" * 50, encoding="utf-8")
    few.write_text("".join(pairs.read_text(encoding="utf-8").splitlines(keepends=True)[:100]), encoding="utf-8")
    commands = [
        "--version", "--help", "translate --help", "doctor", "plot mask -o MASK -q", "average MODEL -o NEW --json -q",
        "translate MODEL -i SOURCES --beam-size 1 --workers 2", "score MODEL PAIRS --workers 2",
        "evaluate MODEL PAIRS --beam-size 1 -q", "inspect MODEL Hi. --json -q", "data check PAIRS",
        "compare MODEL MODEL",
    ]  # fmt: skip
    # Notes that nobody reads stop nothing: the translations are written.
    to_file = ["translate MODEL Hi. -o OUT", "evaluate MODEL PAIRS --beam-size 1 -o SCORED --json"]
    files = {"MODEL": model, "PAIRS": few, "SOURCES": sources}
    files |= {name: tmp_path / name.lower() for name in ("NEW", "OUT", "SCORED")} | {"MASK": tmp_path / "mask.png"}
    calls = [(command, 1) for command in commands] + [(command, 2) for command in to_file]
    calls = [([str(files.get(word, word)) for word in command.split()], stream) for command, stream in calls]
    command = [sys.executable, "-c", TO_NOBODY, str(model)]
    process = subprocess.run(command, input=json.dumps(calls), capture_output=True, text=True)
    answers = [json.loads(line) for line in process.stdout.split("\n") if line.startswith('["')]
    assert len(answers) == len(calls), process.stderr
    for (arguments, _), answer in zip(calls, answers, strict=True):
        warning, code = answer
        assert code == 0, arguments
        # These pairs were trained on, and `evaluate` says so on the other stream.
        assert not warning or (arguments[0] == "evaluate" and "were trained on" in warning), arguments
    assert files["OUT"].read_text(encoding="utf-8").count("\n") == 1
    assert files["SCORED"].read_text(encoding="utf-8").count("\n") == 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "threads"),
    [
        (signal.SIGTERM, 1),
        pytest.param(signal.SIGINT, 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, 1, marks=pytest.mark.slow),
    ],
)
def test_a_signal_saves_and_the_resumed_run_has_the_same_bits(
    pairs, dragoman, tmp_path, monkeypatch, request, number: int, threads: int
):
    """With two threads there is another process, which gets the signal too, as Ctrl-C sends it to both."""
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(threads)
    whole, stopped = tmp_path / "whole", tmp_path / "half a run"
    metrics = stopped / "run" / "metrics.jsonl"
    # Validating so seldom leaves steps between two checkpoints for the signal to fall on.
    more = ["training.validate_every=25", "model.dropout=0.1", f"training.max_tokens={1024 * threads}"]
    settings = ["train", pairs, *SMALL, *more, "training.max_steps=30", "--output"]
    assert dragoman(*settings, whole)[0] == 0
    command = [sys.executable, "-m", "dragoman", *map(str, settings), str(stopped)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def children() -> list[str]:
        return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()

    wait_until(lambda: metrics.exists() and len(children()) >= threads - 1, seconds=60)
    for process_id in [process.pid, *map(int, children())]:
        os.kill(process_id, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert f"dragoman train --resume {shlex.quote(str(stopped))}" in err
    code, out, err = dragoman("train", "--resume", stopped)
    assert (code, "\x1b" in out + err) == (0, False)
    digests = [hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest() for run in (whole, stopped)]
    assert digests[0] == digests[1]
    code, _, err = dragoman("train", "--resume", stopped)
    assert (code, "is finished, after 30 steps" in err) == (2, True)
