"""Kills and damages runs and models, or leaves them without a disk, and looks at what is left. Needs Linux.

    .venv/bin/python benchmarks/reliability.py kills [--number 1000]
    .venv/bin/python benchmarks/reliability.py workers [--number 50]
    .venv/bin/python benchmarks/reliability.py steps [--every 1]
    .venv/bin/python benchmarks/reliability.py errors [--every 1]
    .venv/bin/python benchmarks/reliability.py disk [--every 64]
    .venv/bin/python benchmarks/reliability.py damage [--number 2000]

Each command trains a small model again and again in forked processes, and compares with the run that nothing happened
to: `kills` sends SIGKILL at random moments, `workers` sends it to a worker; `steps` ends the process before each of its
calls of the system on files, and in the middle of each write, and `errors` lets them fail with EIO; `disk` gives it
disks of 64 KiB, 128 KiB ...; `damage` flips bits and cuts files of finished runs, prepared pairs, what a teacher has
made, and memories. Prints one line of JSON, and
exits with 1 unless every run ended with the same bits, nothing was unreadable, and nothing was left behind.
"""

import argparse
import builtins
import ctypes
import errno
import hashlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch._dynamo  # which optimizers import: loaded once, not in every process
from torch import Tensor

from dragoman.cli import explain
from dragoman.config.settings import parse_settings
from dragoman.data.builtin.grammar import generate
from dragoman.errors import DataError, ResourceError
from dragoman.runs.plan import plan_resume, plan_run
from dragoman.runs.prepared import prepare_folder
from dragoman.runs.synthetic import run as teaching
from dragoman.runs.synthetic.request import SyntheticRunRequest
from dragoman.runs.train import resume_run, start_run
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.memory import Memory
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.seals import check_seal
from dragoman.terminal import Display
from dragoman.training import executors

EVERY = 4
"""Steps between two checkpoints."""
SETTINGS = [
    "model.d_model=24", "model.d_ff=40", "model.num_heads=3", "model.num_encoder_layers=1",
    "model.num_decoder_layers=1", "tokenizer.vocab_size=400", "training.max_tokens=512",
    f"training.validate_every={EVERY}", "training.validate_sentences=5", "decoding.beam_size=2",
    "training.max_steps=18", "training.warmup=3", "training.log_every=1", "data.held_out=5", "training.average=3",
    'data.valid=["builtin:grammar:7:test"]', 'data.test=["builtin:grammar:7:test"]',
]  # fmt: skip
COMPARED = ("event", "step", "loss", "gradient_norm", "valid_loss", "valid_bleu", "better")
PATIENCE = 60.0
"""Seconds after which a process that should have ended counts as stuck."""


class Lab:
    """Runs of one small model in forked processes, in a folder of its own."""

    def __init__(self, folder: Path, *settings: str):
        self.settings, self.folder = [*SETTINGS, *settings], folder
        self.run = RunDirectory(folder / "run")
        started = time.monotonic()
        code = self.wait(self.fork(self.train))
        assert code == 0, f"the run that nothing happens to failed with {code}; see {folder / 'log'}"
        self.seconds = time.monotonic() - started
        self.weights, self.metrics = self.result()
        self.shared_memory = set(os.listdir("/dev/shm"))
        self.counts: Counter[str] = Counter()

    def train(self) -> None:
        """Begin a run, or go on with it, as the command does."""
        display = Display(quiet=True)
        if self.run.config.exists():
            resume_run(self.run.path, plan_resume(self.run.path, {}), listener=display)
        else:
            config, pairs = plan_run(["builtin:grammar:200"], recipe="tiny", settings=parse_settings(self.settings))
            start_run(pairs, config, self.run.path, listener=display)

    def fork(self, action: Callable[[], object]) -> int:
        """Number of a new process, which is the first of its session."""
        child = os.fork()
        if child:
            return child
        code = 70
        try:
            os.setsid()
            log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1), os.dup2(log, 2)
            try:
                action()
                code = 0
            except Exception as error:
                code = explain(error).exit_code  # raises what is a mistake of ours
                print(repr(error), file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def wait(self, child: int, seconds: float = PATIENCE) -> int | None:
        """The exit code of a process, negative for a signal; None if it does not end in time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        return None

    def result(self) -> tuple[str, list[dict[str, Any]]]:
        """The SHA-256 of the weights, and all that was measured but times."""
        weights = hashlib.sha256((self.run.path / "model.safetensors").read_bytes()).hexdigest()
        events = [event for event in read_metrics(self.run.metrics) if event["event"] in ("step", "validation")]
        measured = [{name: event.get(name) for name in COMPARED} for event in events]
        # A validation whose model could not be written is repeated.
        return weights, [event for before, event in zip([None, *measured], measured, strict=False) if event != before]

    def clear(self) -> None:
        shutil.rmtree(self.run.path, ignore_errors=True)

    def look_around(self, child: int) -> None:
        """Count what a process that ended has left unreadable or behind, and how many steps it has lost."""
        until = time.monotonic() + 5
        while (left := members(child)) and time.monotonic() < until:
            time.sleep(0.01)
        self.counts["processes left"] += len(left)
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.counts["shared memory left"] += len(set(os.listdir("/dev/shm")) - self.shared_memory)
        if not self.run.config.exists():
            return
        warnings: list[str] = []
        latest = Checkpoints(self.run.checkpoints, warn=warnings.append).load_latest()
        self.counts["unreadable checkpoints"] += len(warnings)
        steps = [event["step"] for event in read_metrics(self.run.metrics)]
        lost = max(steps, default=0) - (latest[1]["step"] if latest else 0)
        self.counts["more than one interval lost"] += lost > EVERY
        if (self.run.path / "config.json").exists():
            try:
                ModelDirectory.load(self.run.path)
            except DataError:
                self.counts["unreadable models"] += 1

    def finish(self) -> None:
        """Go on with the run until it ends, and compare."""
        if self.ended():
            self.compare()
            return
        child = self.fork(self.train)
        if self.wait(child) != 0:
            self.counts["not finished"] += 1
            print((self.folder / "log").read_text(), file=sys.stderr)
        else:
            self.look_around(child)
            self.compare()

    def ended(self) -> bool:
        return [event["event"] for event in read_metrics(self.run.metrics)[-1:]] == ["end"]

    def compare(self) -> None:
        """Count what differs from the run that nothing happened to."""
        self.counts["runs"] += 1
        self.counts["not finished"] += not self.ended()
        weights, metrics = self.result()
        self.counts["other weights"] += weights != self.weights
        self.counts["other metrics"] += metrics != self.metrics
        for expected, actual in zip_longest(self.metrics, metrics):
            if expected != actual:
                print("wanted", expected, "had", actual, file=sys.stderr)
        left = [path for path in self.run.path.rglob("*") if path.suffix in (".tmp", ".old", ".lock")]
        self.counts["files left"] += len(left)


def members(session: int) -> list[int]:
    """The living processes of a session."""
    processes = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                processes.append(int(entry.name))
    return processes


def kills(lab: Lab, number: int, dice: random.Random) -> None:
    """SIGKILL at random moments; a run that ended before is compared, and another one begun."""
    lab.clear()
    while lab.counts["kills"] < number:
        child = lab.fork(lab.train)
        code = lab.wait(child, dice.uniform(0, lab.seconds))
        if code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lab.counts["kills"] += 1
        elif code:
            lab.counts["not finished"] += 1
            print(code, (lab.folder / "log").read_text(), file=sys.stderr)
        lab.look_around(child)
        if code is not None or lab.ended():
            lab.compare()
            lab.clear()
    lab.finish()


def workers(lab: Lab, number: int, dice: random.Random) -> None:
    """SIGKILL of one of the processes that compute for a run; it has to end, and to be resumed."""
    lab.clear()
    while lab.counts["kills"] < number:
        child = lab.fork(lab.train)
        code = lab.wait(child, dice.uniform(0, lab.seconds))
        helpers: list[int] = []
        while code is None and not helpers:
            helpers = [process for process in members(child) if process != child]
            code = lab.wait(child, 0.01)
        if code is None:
            with suppress(ProcessLookupError):
                os.kill(dice.choice(helpers), signal.SIGKILL)
                lab.counts["kills"] += 1
            code = lab.wait(child)
            if code is None:
                lab.counts["stuck"] += 1
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            lab.counts[f"exit code {code}"] += 1
            lab.look_around(child)
        if code == 0:
            lab.look_around(child)
            lab.compare()
            lab.clear()
        elif code != 4:
            lab.counts["not finished"] += 1
    lab.finish()


def before_call(number: int, folder: Path, fault: Callable[[], object]) -> Callable[[], int]:
    """Call `fault` once, before system call `number` on files of a folder. Returns a function that counts the calls."""
    calls, opened, synced = [0], builtins.open, os.fsync

    def tick() -> None:
        calls[0] += 1
        if calls[0] == number:
            fault()

    class Torn(io.BufferedWriter):
        """A file that is written in two halves, with a call between them."""

        def write(self, data: Any) -> int:
            half = len(data) // 2
            super().write(data[:half])
            self.flush()
            tick()
            super().write(data[half:])
            return len(data)

    def torn(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if mode != "wb" or not str(path).startswith(str(folder)):
            return opened(path, mode, *args, **options)
        return Torn(io.FileIO(path, mode))

    def heard(event: str, args: tuple) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if (writes or event.startswith(("os.", "shutil."))) and args and str(args[0]).startswith(str(folder)):
            tick()

    builtins.open = io.open = torn  # pathlib uses the second
    os.fsync = lambda descriptor: (tick(), synced(descriptor))[1]
    sys.addaudithook(heard)
    return lambda: calls[0]


def each_call(lab: Lab, every: int, fault: Callable[[], object]) -> None:
    """Train once for each call on the run's files, with `fault` before that call; then resume."""
    counted = lab.folder / "calls"

    def attempt(number: int) -> None:
        count = before_call(number, lab.run.path, fault)
        lab.train()
        counted.write_text(str(count()))

    lab.clear()
    assert lab.wait(lab.fork(partial(attempt, 0))) == 0
    for number in range(1, int(counted.read_text()) + 1, every):
        lab.clear()
        child = lab.fork(partial(attempt, number))
        lab.counts[f"exit code {lab.wait(child)}"] += 1
        lab.look_around(child)
        lab.finish()


def steps(lab: Lab, every: int) -> None:
    """The process ends before each of its calls on files."""
    each_call(lab, every, lambda: os._exit(9))


def errors(lab: Lab, every: int) -> None:
    """Each call on files fails once."""

    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    each_call(lab, every, fail)


def disk(lab: Lab, every: int) -> None:
    """The run is on disks of more and more KiB, until one has room for all; each then grows, and the run goes on."""
    counts_file = lab.folder / "found.json"
    libc = ctypes.CDLL(None, use_errno=True)
    place = lab.run.path.parent / "disk"
    place.mkdir()

    def mount(size: str, flags: int = 0) -> None:
        if libc.mount(b"tmpfs", str(place).encode(), b"tmpfs", flags, f"size={size}".encode()):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(place))

    def attempt() -> None:
        alone, of_a_user = 0x00020000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
        if libc.unshare(alone) and libc.unshare(alone | of_a_user):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        libc.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE: nobody else sees the disk
        mount(f"{size}k")
        lab.run = RunDirectory(place / "run")
        child = lab.fork(lab.train)
        code = lab.wait(child)
        log = (lab.folder / "log").read_text()
        lab.counts[f"exit code {code}"] += 1
        lab.counts["without a word"] += code == 0 and "Warning: No" not in log and "not written" not in log
        lab.look_around(child)
        lab.counts.pop("more than one interval lost", 0)  # which a full disk costs
        mount("64m", 32)  # MS_REMOUNT
        lab.finish()
        counts_file.write_text(json.dumps(lab.counts))

    size, silent = every, 0
    while not silent:
        counts_file.unlink(missing_ok=True)
        if lab.wait(lab.fork(attempt), 2 * PATIENCE) != 0:
            raise SystemExit(f"No disk can be made here: {(lab.folder / 'log').read_text()}")
        counts = Counter(json.loads(counts_file.read_text()))
        silent = counts.pop("without a word", 0)
        lab.counts = counts
        lab.counts["disks"] += 1
        size += every


def damage(lab: Lab, number: int, dice: random.Random) -> None:
    """Files of a run with one wrong bit, and files that are cut: seen, or what is read is the same."""
    warn: list[str] = []
    checkpoints = Checkpoints(lab.run.checkpoints, warn=warn.append)
    last = checkpoints.steps()[-1]
    readers: dict[str, tuple[Path, Callable[[], object]]] = {
        "checkpoint": (checkpoints.folder / f"step_{last:08d}", lambda: content(checkpoints.load(last))),
        "data": (lab.run.data, lambda: check_seal(lab.run.data)),
        "model": (lab.run.path, lambda: model_content(ModelDirectory.load(lab.run.path))),
        "prepared": prepared(lab),
        "made by a teacher": made_by_teacher(lab),
        "memory": kept(lab),
    }
    for name, (folder, read) in readers.items():
        spared = ("README.md", "report.html", "config.yaml") if name != "prepared" else ()
        files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name not in spared]
        files = [file for file in files if "run" not in file.relative_to(folder).parts]
        intact = read()
        # A run on made pairs takes long to begin, so it is begun less often.
        for content_of, wrong in damages(files, number // 10 if name == "made by a teacher" else number, dice):
            content_of.write_bytes(wrong)
            try:
                value = read()
                # A memory may lose entries, but has no wrong ones.
                whole = value == intact or (name == "memory" and value < intact)
                lab.counts[f"{name}: {'harmless' if value == intact else 'seen' if whole else 'WRONG'}"] += 1
            except (DataError, ResourceError):
                lab.counts[f"{name}: seen"] += 1
        assert read() == intact


Reader = tuple[Path, Callable[[], Any]]
"""A folder whose files are damaged, and a function that reads it."""


def prepared(lab: Lab) -> Reader:
    """A prepared folder, and all that a run reads of it before it trains."""
    folder = lab.folder / "prepared"
    settings = [setting for setting in SETTINGS if setting.startswith(("tokenizer.", "data.held_out"))]
    prepare_folder(["builtin:grammar:200"], folder, recipe=None, settings=parse_settings(settings))

    def read() -> str:
        config, pairs = plan_run([str(folder)], recipe="tiny", settings={})
        pairs.check()
        return config.to_yaml()

    return folder, read


def made_by_teacher(lab: Lab) -> Reader:
    """The files of a distillation whose run begins to train, and the pairs and settings of this run."""
    path, pairs = lab.folder / "student", lab.folder / "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in generate(60)), encoding="utf-8")
    options = {"teachers": [str(lab.run.path)], "choose": "first", "references": 0.0, "languages": (None, None)}
    settings = parse_settings(setting for setting in SETTINGS if not setting.startswith("data.valid"))
    request = SyntheticRunRequest("distill", [str(pairs)], "tiny", settings, options | {"soft_targets": None}, {})
    request.write(path)

    def read() -> str:
        contents = []

        def begun(pairs: Any, config: Any, *_: Any, **__: Any) -> None:
            contents.append(f"{config.to_yaml()} {[*pairs]}")
            raise Begun

        with patch.object(teaching, "start_run", begun), suppress(Begun):
            teaching.run_synthetic(path, listener=Display(quiet=True), started=time.monotonic())
        return contents[0]

    read()
    return RunDirectory(path).synthetic, read


class Begun(Exception):
    """Raised when a run would begin to train."""


def kept(lab: Lab) -> Reader:
    """A translation memory, and its entries by all ways to them."""
    folder = lab.folder / "memories"
    folder.mkdir()
    languages, texts = ("en", "fr"), [source for source, _ in generate(40)]
    memory = Memory(folder / "memory")
    for text in texts:
        memory.add(languages, text, text.upper())
    memory.close()

    def read() -> set[tuple[str, str]]:
        opened = Memory(folder / "memory")
        try:
            entries = {(entry.source, entry.target) for entry in opened.pairs()}
            entries |= {(text, answer) for text in texts if (answer := opened.find(languages, text)) is not None}
            similar = (entry for text in texts[:5] for entry in opened.similar(languages, text))
            return entries | {(entry.source, entry.target) for entry in similar}
        finally:
            opened.close()
            for log in folder.glob("memory-*"):
                log.unlink()

    return folder, read


def damages(files: list[Path], number: int, dice: random.Random) -> Iterator[tuple[Path, bytes]]:
    """`number` wrong bits and half as many cuts, in turn in each of the files, which are repaired afterwards."""
    for count in range(number * 3 // 2):
        file = files[count % len(files)]
        whole = file.read_bytes()
        place = dice.randrange(len(whole))
        wrong = bytes([whole[place] ^ 1 << dice.randrange(8)])
        yield file, whole[:place] if count % 3 == 2 else whole[:place] + wrong + whole[place + 1 :]
        file.write_bytes(whole)


def content(checkpoint: tuple[dict[str, dict[str, Tensor]], dict[str, Any]]) -> object:
    groups, state = checkpoint
    return {
        group: {name: digest(tensor) for name, tensor in tensors.items()} for group, tensors in groups.items()
    }, state


def model_content(model: ModelDirectory) -> object:
    weights = {name: digest(tensor) for name, tensor in model.model.named_parameters()}
    sides = [tokenizer.to_json() for tokenizer in model.tokenizers]
    return weights, sides, model.languages, model.decoding, model.style, model.model.config


def digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


BAD = ("unreadable", "more than one", "not finished", "other", "left", "stuck", "WRONG")
"""Words in the names of counts that must be 0."""


def main() -> None:
    """Read the arguments, run one of the attacks and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", choices=["kills", "workers", "steps", "errors", "disk", "damage"])
    parser.add_argument("--number", type=int, help="how many kills or wrong bits")
    parser.add_argument("--every", type=int, help="every which call, or how many KiB")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    attack, dice, started = options.attack, random.Random(options.seed), time.monotonic()
    torch.set_num_threads(1)
    extra: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        if attack == "workers":
            torch.set_num_threads(2)
            executors.TOKENS_PER_COPY = 256
        if attack == "disk":
            extra = ["model.d_model=96", "training.average=1"]
        lab = Lab(Path(folder), *extra)
        if attack in ("kills", "workers"):
            globals()[attack](lab, options.number or {"kills": 1000, "workers": 50}[attack], dice)
        elif attack == "damage":
            damage(lab, options.number or 2000, dice)
        else:
            globals()[attack](lab, options.every or {"disk": 64}.get(attack, 1))
    print(json.dumps({"attack": attack, "seconds": round(time.monotonic() - started, 1), **lab.counts}))
    sys.exit(any(count and any(word in name for word in BAD) for name, count in lab.counts.items()))


if __name__ == "__main__":
    main()
