"""Nothing phones home, and neither do the libraries that we load: no name is looked up, no address is called."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.system.optional import SILENT
from tests.report.models import small_model

pytest.importorskip("onnxruntime")
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
    """A function that runs a command, and returns whom it called."""

    def run(*command: object, stdin: str = "") -> list[str]:
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        left_out = {*SILENT, "CI", "OMP_NUM_THREADS"}  # of one thread, `doctor` would say that it is too few
        known = {name: value for name, value in os.environ.items() if name not in left_out}
        environment = known | {"LD_PRELOAD": str(spy), "SPY": str(log), "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, *map(str, command)], env=environment, input=stdin, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return log.read_text().split("\n")[:-1] if log.exists() else []

    return run


def test_the_spy_sees_what_calls(called):
    program = "import socket\ntry: socket.create_connection(('example.invalid', 80))\nexcept OSError: pass"
    assert called("-c", program) == ["example.invalid"]


def test_no_export_calls_anybody(called, tmp_path):
    small_model().save(tmp_path / "model")
    for target in ("onnx", "ctranslate2"):
        assert called("-m", "dragoman", "export", tmp_path / "model", tmp_path / target, "--to", target) == []
        script = tmp_path / target / "translate.py"
        assert called(script, stdin="The red house.\n") == []


def test_no_other_command_calls_anybody(called, tmp_path):
    model, pairs = tmp_path / "model", "builtin:grammar:211"
    small = ["size=tiny", "training.max_steps=2", "tokenizer.vocab_size=400"]
    assert called("-m", "dragoman", "train", pairs, "-o", model, *small) == []
    for command in (
        ["translate", model, "The red house."],
        ["evaluate", model, pairs],
        ["inspect", model, "The red house.", "-o", tmp_path / "page.html"],
        ["data", "check", pairs],
        ["doctor"],
    ):
        assert called("-m", "dragoman", *command) == [], command
