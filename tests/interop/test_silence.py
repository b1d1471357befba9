"""Nothing phones home, and neither do the libraries that we load: no name is looked up, no address is called."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import typer

import dragoman.cli  # which registers all commands
from dragoman.cli.options import app
from dragoman.interop.exports.exporting import TARGETS
from dragoman.interop.exports.web import RUNTIME
from dragoman.system.optional import SILENT
from tests.report.models import small_model

pytest.importorskip("onnxruntime")
ROOT = str(Path(dragoman.__file__).parents[1])
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs LD_PRELOAD and a C compiler"),
]
SPY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void tell(const char *what) {
    FILE *file = fopen(getenv("SPY"), "a");
    if (file) { fprintf(file, "%s\n", what); fclose(file); }
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    if (name && strcmp(name, "localhost") && strcmp(name, "127.0.0.1")) {
        tell(name);
        return EAI_FAIL;
    }
    int (*own)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        dlsym(RTLD_NEXT, "getaddrinfo");
    return own(name, service, hints, found);
}

int connect(int descriptor, const struct sockaddr *address, socklen_t length) {
    if (address->sa_family != AF_UNIX) tell("connect");
    int (*own)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    return own(descriptor, address, length);
}
"""


@pytest.fixture(scope="module")
def spy(tmp_path_factory) -> Path:
    """A library that writes down who is called, and answers no question for a name."""
    folder = tmp_path_factory.mktemp("spy")
    (folder / "spy.c").write_text(SPY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "spy.so", folder / "spy.c", "-ldl"], check=True)
    return folder / "spy.so"


@pytest.fixture
def called(spy, tmp_path):
    """A function that runs a command with a temporary folder of its own, and returns whom it called and what it left
    there. With `served`, the command is a server, which is asked for a translation and then ended."""

    def run(*command: object, stdin: str = "", served: bool = False) -> list[str]:
        log, temporary = tmp_path / "log", tmp_path / "temporary"
        log.unlink(missing_ok=True)
        temporary.mkdir(exist_ok=True)
        left_out = {*SILENT, "CI", "OMP_NUM_THREADS"}  # of one thread, `doctor` would say that it is too few
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment |= {"LD_PRELOAD": str(spy), "SPY": str(log), "TMPDIR": str(temporary), "PYTHONPATH": ROOT}
        options = {"env": environment, "text": True, "stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, **options)
        if served:
            line = next(line for line in iter(process.stderr.readline, "") if "Ctrl-C ends" in line)
            port = re.search(r":(\d+);", line)[1]
            body = json.dumps({"q": "The red house.", "source": "en", "target": "fr"}).encode()
            head = {"Content-Type": "application/json"}
            urlopen(Request(f"http://127.0.0.1:{port}/translate", body, head)).read()
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(stdin)
        assert process.returncode == 0, errors
        calls = log.read_text().split("\n")[:-1] if log.exists() else []
        # PyTorch makes an empty folder for what it might compile.
        return calls + [path.name for path in temporary.iterdir() if not path.name.startswith("torchinductor_")]

    return run


def test_the_spy_sees_what_calls(called):
    program = "import socket\ntry: socket.create_connection(('example.invalid', 80))\nexcept OSError: pass"
    assert called("-c", program) == ["example.invalid"]


@pytest.mark.parametrize("target", list(TARGETS))
def test_no_export_calls_anybody(called, tmp_path, target):
    choices = {"norm_order": "post", "positions": "sinusoidal-concatenated", "share_embeddings": True}
    small_model(**(choices if target == "transformers" else {})).save(tmp_path / "model")
    out, sentences = tmp_path / "out", tmp_path / "sentences"
    sentences.write_text("The red house.\nThe old cat sleeps.\n", encoding="utf-8")
    export = ["export", tmp_path / "model", out, "--to", target, "--sentences", sentences]
    if target == "web":  # the command is told where its runtime is, which it would fetch with npm
        for name in RUNTIME:
            (tmp_path / name).write_bytes(b"runtime")
        export += ["--runtime", tmp_path]
    assert called("-m", "dragoman", *export) == []
    for script in out.glob("*.py"):
        assert called(script, stdin="The red house.\n") == []
    if target == "transformers":
        assert called("-m", "dragoman", "import", out, tmp_path / "back") == []


PAIRS = "builtin:grammar:211"
SMALL = ["size=tiny", "training.max_steps=4", "training.validate_every=2", "tokenizer.vocab_size=400"]
COMMANDS = {
    "train": ["train", PAIRS, "-o", "run", "training.average=2", "training.tensorboard=true", *SMALL],
    "average": ["average", "run", "--last", 2, "-o", "averaged"],
    "distill": ["distill", "run", "student", "--data", PAIRS, *SMALL],
    "compare": ["compare", "run", "student"],
    "translate": ["translate", "run", "The red house."],
    "score": ["score", "run", PAIRS],
    "evaluate": ["evaluate", "run", PAIRS],
    "inspect": ["inspect", "run", "The red house.", "-o", "page.html"],
    "tokenize": ["tokenize", "run", "The red house."],
    "doctor": ["doctor"],
    "plot mask": ["plot", "mask", "-o", "mask.svg"],
    "plot positions": ["plot", "positions", "-o", "positions.svg"],
    "plot schedules": ["plot", "schedules", "-o", "schedules.svg"],
    "plot split": ["plot", "split", "run", "-o", "split.svg"],
    "plot curves": ["plot", "curves", "run", "-o", "curves.svg"],
    "plot attention": ["plot", "attention", "run", "I see a cat.", "-o", "attention.svg"],
    "data check": ["data", "check", PAIRS],
    "data prepare": ["data", "prepare", PAIRS, "-o", "prepared", "tokenizer.vocab_size=400"],
    "data memory": ["data", "memory", PAIRS, "-o", "memory.db", "data.languages=[en,fr]"],
    "calibrate": ["calibrate", "run", PAIRS],
    "demo": ["demo", "-o", "demo"],
}
"""Each command, in an order in which one finds what another one has written; those of models of others are above."""


def test_no_other_command_calls_anybody(called, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS.values():
        assert called("-m", "dragoman", *command) == [], command
    assert called("-m", "dragoman", "serve", "run:en,fr", "--port", 0, served=True) == []


def test_all_commands_are_tried():
    assert {*COMMANDS, "serve", "export", "import"} == set(commands())


def commands(group: Any = None, name: str = "") -> Iterator[str]:
    """The names of all commands."""
    for word, command in (group or typer.main.get_command(app)).commands.items():
        inner = f"{name} {word}".strip()
        yield from commands(command, inner) if hasattr(command, "commands") else [inner]
