"""A run as a whole: its settings, the files that it writes, its warnings, and the scores of the demo."""

import json
import math
import signal
import subprocess
import sys
import time

import pytest
import torch
import yaml

from dragoman.config.run import RunConfig
from dragoman.config.settings import parse_settings
from dragoman.data.batching import TokenStore
from dragoman.data.bitext import Bitext, CleanedBitext
from dragoman.data.preparation import PreparedData
from dragoman.errors import DataError, Interrupted, UsageError
from dragoman.runs import train as run
from dragoman.runs.plan import plan_resume, plan_run
from dragoman.storage.metrics_log import MetricsFile, read_metrics
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.terminal import Display
from dragoman.training.trainer import Trainer
from tests.small import MODEL_SETTINGS, plan, train_run

SMALL = [
    *MODEL_SETTINGS, "tokenizer.vocab_size=400", "training.max_tokens=512",
    "training.validate_every=7", "training.validate_sentences=5", "decoding.beam_size=1",
    "training.max_steps=14", "training.warmup=3", "data.held_out=5",
]  # fmt: skip


def small_run(*settings: str, held_out: int = 7) -> tuple[RunConfig, CleanedBitext]:
    parts = [f"data.{part}=[builtin:grammar:{held_out}:test]" for part in ("valid", "test")]
    return plan("builtin:grammar:200", settings=[*parts, *SMALL, *settings])


@pytest.mark.slow
def test_a_model_knows_how_long_its_sentences_may_be(tmp_path):
    config, bitext = small_run("training.max_steps=1", "training.average=1")
    run.start_run(bitext, config, tmp_path / "run", listener=Display(quiet=True))
    kept = ModelDirectory.load(tmp_path / "run")
    sources = [source for source, _ in Bitext.open("builtin:grammar:7:test")]
    longest = max(map(len, kept.source_tokenizer.encode_batch(sources)))
    assert kept.decoding.max_source_length == max(32, longest * 3 // 2)
    data = PreparedData.open(tmp_path / "run/run/data", config)
    source, target = (TokenStore(tmp_path / f"run/run/data/train-{side}").lengths for side in ("source", "target"))
    assert data.train_tokens == (source.sum(), target.sum())
    assert kept.decoding.min_ratio == pytest.approx(target.sum() / source.sum(), abs=1e-3)
    average, usual = source.mean(), target.sum() / source.sum()
    least = kept.decoding.min_ratio * average - kept.decoding.min_slack * math.sqrt(average)
    assert least == pytest.approx(0.6 * usual * average, rel=0.01), "an average source has 0.6 of the usual length"


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path):
    with pytest.raises(UsageError, match="no run"):
        run.resume_run(tmp_path, plan_resume(tmp_path, {}), listener=Display(quiet=True))


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGUSR1])
def test_a_second_signal_stops_at_once_and_says_which_it_was(first: int):
    with run.stop_signals(lambda: None) as signals:
        signal.raise_signal(first)
        assert signals == [first]
        with pytest.raises(KeyboardInterrupt, match=str(int(signal.SIGTERM))):
            signal.raise_signal(signal.SIGTERM)


def test_metrics_after_the_checkpoint_are_forgotten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        for step in range(1, 41):
            metrics.write("step", {"step": step})
        metrics.write("validation", {"step": 40})
    with path.open("a") as file:
        file.write('{"event": "step", "st')  # a crash in the middle of a line
    assert [event["step"] for event in read_metrics(path)] == [1, 10, 20, 30, 40, 40]
    with MetricsFile(path) as metrics:
        metrics.forget_after(25)
        metrics.write("step", {"step": 30})
    assert [event["step"] for event in read_metrics(path)] == [1, 10, 20, 30]


def test_metrics_that_cannot_be_written_anew_stay_as_they_are(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        metrics.write("validation", {"step": 40})

        def fail(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("os.replace", fail)
            with pytest.raises(OSError, match="No space"):
                metrics.forget_after(25)
        metrics.write("validation", {"step": 50})
    assert [event["step"] for event in read_metrics(path)] == [40, 50]


def test_what_is_no_event_is_left_out_as_is_a_line_that_a_full_disk_cut_inside_a_character(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        b'[1, 2]\n{"step": 3}\n{"event": "end", "step": 1}\n' + '{"event": "validation", "text": "й'.encode()[:-1]
    )
    assert read_metrics(path) == [{"event": "end", "step": 1}]


def test_an_average_outlives_a_resume_of_its_step_and_no_other(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        metrics.write("validation", {"step": 8})
        metrics.write("average", {"step": 8, "steps": [4, 8], "better": True})
        metrics.write("end", {"step": 8})
        metrics.forget_after(8)
        assert [event["event"] for event in read_metrics(path)] == ["validation", "average"]
        metrics.forget_after(4)
    assert read_metrics(path) == []


@pytest.mark.slow
def test_a_full_disk_costs_the_curves_and_not_the_training(tmp_path, monkeypatch, capsys):
    write = MetricsFile.write

    def full(file, event, values):
        if 3 < values["step"] < 12:
            raise OSError(28, "No space left on device")
        write(file, event, values)

    monkeypatch.setattr(MetricsFile, "write", full)
    config, bitext = small_run("training.log_every=1")
    run.start_run(bitext, config, tmp_path / "model", listener=Display(quiet=True))
    events = read_metrics(RunDirectory(tmp_path / "model").metrics)
    assert [e["step"] for e in events if e["event"] == "step"] == [1, 2, 3, 12, 13, 14]
    assert capsys.readouterr().err.count("The curves lack what comes now: no space left on device") == 1


@pytest.mark.slow
def test_settings_that_a_resumed_run_refuses_are_not_written(tmp_path):
    config, bitext = small_run()
    run.start_run(bitext, config, tmp_path / "model", listener=Display(quiet=True))
    kept = RunDirectory(tmp_path / "model").config.read_bytes()
    too_short = ["training.schedule=linear", "training.max_steps=", "training.max_epochs=1", "training.warmup=99999"]
    for settings in (["training.optimizer=sgd", "training.max_steps=15"], too_short):
        with pytest.raises(UsageError):
            run.resume_run(
                tmp_path / "model",
                plan_resume(tmp_path / "model", parse_settings(settings)),
                listener=Display(quiet=True),
            )
        assert RunDirectory(tmp_path / "model").config.read_bytes() == kept
    run.resume_run(
        tmp_path / "model",
        plan_resume(tmp_path / "model", parse_settings(["training.max_steps=15"])),
        listener=Display(quiet=True),
    )
    assert RunDirectory(tmp_path / "model").config.read_bytes() != kept


@pytest.mark.slow
def test_damaged_data_of_a_run_is_refused_and_another_number_of_threads_is_told(tmp_path, capsys):
    config, bitext = small_run("training.max_steps=7")
    run.start_run(bitext, config, tmp_path / "model", listener=Display(quiet=True))

    def go_on() -> None:
        longer = plan_resume(tmp_path / "model", parse_settings(["training.max_steps=8"]))
        run.resume_run(tmp_path / "model", longer, listener=Display(quiet=True))

    files = sorted(RunDirectory(tmp_path / "model").data.iterdir())
    assert len(files) > 5
    for file in files:
        whole = file.read_bytes()
        for content in (whole[:-1], whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:]):
            file.write_bytes(content)
            with pytest.raises(DataError, match="is damaged"):
                go_on()
        file.write_bytes(whole)
    capsys.readouterr()
    threads = torch.get_num_threads()
    torch.set_num_threads(3 - min(2, threads))
    try:
        go_on()
    finally:
        torch.set_num_threads(threads)
    assert "will not have the same bits" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_held_out_sentences_longer_than_all_positions_do_not_end_a_run(tmp_path):
    settings = ["model.positions=learned", "model.max_positions=17", "data.max_length=16"]
    config, bitext = small_run(*settings, held_out=101)
    run.start_run(bitext, config, tmp_path / "model", listener=Display(quiet=True))
    directory = RunDirectory(tmp_path / "model")
    dropped = json.loads((directory.data / "about.json").read_bytes())["dropped"]
    (left_out,) = [n for reason, n in dropped.items() if "model.max_positions = 17" in reason]
    assert left_out + len(directory.pairs("valid")) + len(directory.pairs("test")) == 202


@pytest.mark.slow
def test_accuracy_of_both_sets_is_measured_where_wanted_and_changes_nothing(tmp_path):
    losses = []
    for name, settings in (("plain", []), ("measured", ["training.accuracy=true"])):
        config, bitext = small_run(*settings, "training.log_every=1", "model.dropout=0.1")
        evaluation = run.start_run(bitext, config, tmp_path / name, listener=Display(quiet=True))
        events = list(read_metrics(RunDirectory(tmp_path / name).metrics))
        losses.append([event["loss"] for event in events if event["event"] == "step"])
    assert losses[0] == losses[1]
    validations = [event for event in events if event["event"] == "validation"]
    kept = [event for event in validations if event["better"]][-1]
    # It validates and tests on the same pairs.
    assert kept["valid_accuracy"] == pytest.approx(evaluation.tokens.token_accuracy)
    assert validations[0]["train_accuracy"] < validations[-1]["train_accuracy"] < 1
    assert all(event["train_accuracy"] != event["valid_accuracy"] for event in validations)


def test_metrics_of_every_step_are_kept_where_wanted(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path, every=3) as metrics:
        for step in range(1, 11):
            metrics.write("step", {"step": step})
    assert [event["step"] for event in read_metrics(path)] == [1, 3, 6, 9]


@pytest.mark.slow
def test_a_run_that_goes_back_says_so_and_its_files_forget_what_was_undone(tmp_path, monkeypatch, capsys):
    step = Trainer.train_step

    def spoiled(trainer):
        compute, progress = trainer.executor.loss, trainer.progress
        with monkeypatch.context() as patch:
            if progress.step + 1 in (9, 10, 11) and not progress.roll_backs:
                patch.setattr(trainer.executor, "loss", lambda *a, **o: (math.nan, compute(*a, **o)[1]))
            return step(trainer)

    monkeypatch.setattr(Trainer, "train_step", spoiled)
    config, bitext = small_run("training.tensorboard=true")
    run.start_run(bitext, config, tmp_path / "model", listener=Display(quiet=True))
    directory = RunDirectory(tmp_path / "model")
    events = read_metrics(directory.metrics)
    assert [e["step"] for e in events if e["event"] == "step"] == [1, 10]
    assert [(e["step"], e["bad_step"]) for e in events if e["event"] == "roll_back"] == [(7, 11)]
    assert [e["step"] for e in events if e["event"] == "validation"] == [7, 14]
    assert [e["step"] for e in events if e["event"] == "warning"] == [7]  # those of steps 9 to 11 are undone
    said = " ".join(capsys.readouterr().err.split())
    for text in ("Step 9 was skipped", "Going back to step 7", "3 steps skipped"):
        assert text in said
    assert list(directory.tensorboard.iterdir())
    assert json.loads(directory.evaluation.read_bytes())["sentences"] == 7


def test_a_training_begins_with_warnings_of_few_minutes_few_pairs_and_a_test_that_leaks(tmp_path, capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_fit", stop)
    pairs = [f"{source}\t{target}\n" for source, target in Bitext.open("builtin:grammar:120")]
    parts = {"train": pairs[:80], "valid": pairs[80:100], "test": pairs[97:]}
    for name, lines in parts.items():
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    settings = [f"data.{name}=[{tmp_path / name}.tsv]" for name in ("valid", "test")]
    settings += [
        "model.d_model=16",
        "model.d_ff=16",
        "model.num_heads=2",
        "tokenizer.vocab_size=300",
        "training.max_minutes=1",
    ]
    config, bitext = plan_run([str(tmp_path / "train.tsv")], recipe=None, settings=parse_settings(settings))
    with pytest.raises(Interrupted, match=r"Stopped at once; no step is saved yet\. Begin again with:  .* --resume "):
        run.start_run(bitext, config, tmp_path / "run", listener=Display(quiet=True), started=time.monotonic() - 45)
    minutes, few, leak = capsys.readouterr().err.split("\n")[:-1]
    assert minutes == "Warning: Preparing the pairs took most of the time, 0.8 minutes; give more: --max-minutes."
    assert few.startswith("Warning: 80 pairs to train on are too few for a translator")
    assert leak.startswith("Warning: 3 of the 23 test sentences are also in the validation data")
    (RunDirectory(tmp_path / "run").checkpoints / "step_00000007").mkdir(parents=True)
    with pytest.raises(Interrupted, match=r"Stopped at once; the last checkpoint is safe\. Go on with:  .* --resume "):
        run.resume_run(tmp_path / "run", config, listener=Display(quiet=True))


@pytest.mark.slow
def test_the_demo_translates_combinations_it_never_saw(tmp_path):
    dragoman, model = [sys.executable, "-m", "dragoman"], str(tmp_path / "demo")
    subprocess.run([*dragoman, "demo", "--output", model, "--quiet"], check=True)
    command = [*dragoman, "evaluate", model, "builtin:grammar:500:test", "--json"]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert figures["bleu"] >= 90
    # Terms that it never saw take the place of the nouns, and nothing else changes.
    text = "The little girl does not like the old umbrella. The cat sees the big dog."
    (tmp_path / "terms.tsv").write_text("girl\tZyx\numbrella\tAcme Cloud\ndog\tPinscher\n", encoding="utf-8")
    outputs = [
        subprocess.run([*dragoman, "translate", model, text, *more], check=True, capture_output=True, text=True).stdout
        for more in ([], ["--glossary", str(tmp_path / "terms.tsv")])
    ]
    usual = {"fille": "Zyx", "parapluie": "Acme Cloud", "chien": "Pinscher"}
    assert outputs[0].count(".") == 2
    for noun, term in usual.items():
        outputs[0] = outputs[0].replace(noun, term)
    assert outputs[1] == outputs[0]


@pytest.mark.slow
def test_the_speed_is_measured_where_time_decides_and_what_follows_from_it_is_kept(tmp_path, monkeypatch):
    measured = []

    def throughput(model, batches, config, *, ranks):
        measured.append(config.max_tokens)
        for weight in model.parameters():
            weight.data.zero_()
        return 1e6

    monkeypatch.setattr(run, "measure_throughput", throughput)
    settings = [*MODEL_SETTINGS, "data.held_out=7", "tokenizer.vocab_size=300", "training.max_steps=3"]
    by_time = [*settings, "training.max_minutes=30"]
    train_run(tmp_path / "by-time", "builtin:grammar:90", settings=by_time, recipe=None)
    assert measured == [2048]
    config = RunConfig.validate(yaml.safe_load((tmp_path / "by-time/run/config.yaml").read_text()))
    assert config.chosen[1].startswith("For 30 minutes and 3 steps at 1,000,000 tokens a second, about ")
    same = [f"training.{name}={getattr(config.training, name)}" for name in ("label_smoothing", "r_drop", "max_tokens")]
    same += [f"training.learning_rate={config.training.learning_rate}", f"model.dropout={config.model['dropout']}"]
    train_run(tmp_path / "given", "builtin:grammar:90", settings=[*by_time, *same], recipe=None)
    train_run(tmp_path / "by-steps", "builtin:grammar:90", settings=settings, recipe=None)
    assert len(measured) == 1  # where all is given, or steps decide, nothing needs it
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("by-time", "given")]
    assert weights[0] == weights[1]
