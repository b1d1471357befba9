"""What several test files share."""

import gc
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import jaxtyping
import pytest

if TYPE_CHECKING:
    from dragoman.data.readers.types import PairReader

# Before torch is imported, and for the commands that tests start: tests run in a process a core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Where a test has two threads all the same, one that waits must not keep a core from the other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Tests of properties draw the same cases each time: a change is judged by itself, not by luck. Others are drawn by
# `make test ARGS="--hypothesis-profile=search"`.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile("repeatable")

# Where there are tensors and arrays, annotations are checked on every call that the tests of these folders make, shapes
# included. An int may stand for a float. `Self` is not checked: beartype knows it only on classes that it decorates.
CHECKED = ("model", "training", "decoding", "evaluation", "report", "data.batching", "data_check")
CHECKING = {"model", "training", "decoding", "evaluation", "report", "data", "data_check"}
"""Folders of tests that check annotations. Other tests run whole programs, which checks make several times slower."""
LONG = {
    "test_cli", "test_exporting", "test_checkpoints", "test_finetuning", "test_languages", "test_pretrained",
    "test_docs", "test_train", "test_openapi", "test_translator", "test_parallel", "test_resuming", "test_copies",
    "test_api", "test_listener",
}  # fmt: skip
BEARTYPE = """beartype.beartype(conf=beartype.BeartypeConf(
    is_pep484_tower=True, hint_overrides=beartype.FrozenDict({beartype.typing.Self: object})
))"""
jaxtyping.install_import_hook([f"dragoman.{name}" for name in CHECKED], BEARTYPE)


@pytest.hookimpl(tryfirst=True)  # before the slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first: at the end, one process would wait for the other.

    The first case of a test that is marked `first_is_quick` is quick; all others are slow.
    """
    items.sort(key=lambda item: item.path.stem not in LONG)
    begun: set[str] = set()
    for item in items:
        function = item.nodeid.partition("[")[0]
        if item.get_closest_marker("first_is_quick") and function in begun:
            item.add_marker("slow")
        if not item.get_closest_marker("slow"):
            begun.add(function)


@pytest.fixture(scope="session", autouse=True)
def little_is_searched_for_garbage() -> Iterator[None]:
    """Trainings and servers often search for garbage: not among all modules and tests that are loaded by now.

    Who starts workers would have everything searched again from then on.
    """
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def annotations_are_checked_by_the_tests_of_some_folders(request: pytest.FixtureRequest) -> Iterator[None]:
    """As users run it elsewhere, and quicker."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    # Fixtures of a module whose tests do not check annotations need no checks either.
    is_unchecked = any("annotations_unchecked" in mark.args for mark in request.node.iter_markers("usefixtures"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", is_unchecked or folder not in CHECKING)
        yield


@pytest.fixture
def annotations_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users run it: checked annotations would refuse a wrong type before the package can."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def with_reports() -> None:
    """Runs of this test write their report."""


@pytest.fixture(autouse=True)
def no_reports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process write no report unless a test asks: to draw one takes longer than to train a tiny model."""
    if "with_reports" not in request.fixturenames:
        monkeypatch.setattr("dragoman.report.run.write_report", lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def built_in_pairs_are_made_once() -> Iterator[None]:
    """Most tests read the same few hundred pairs of the grammar, some of them many times; it gives the same each time.

    The tests of the grammar itself call it without this reader.
    """
    from dragoman.data.readers import registry

    opened = registry.open_builtin

    @cache
    def entries(source: str) -> list[tuple[int, tuple[str, str]]]:
        return list(opened(source)[1].read())

    def open_builtin(source: str) -> "tuple[str, PairReader]":
        name, reader = opened(source)
        few = re.fullmatch(r"builtin:grammar:\d{1,3}(:\w+)?", source)
        return name, reader._replace(read=lambda: iter(entries(source))) if few else reader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "open_builtin", open_builtin)
        yield


@pytest.fixture(scope="session", autouse=True)
def float32_on_every_processor() -> Iterator[None]:
    """Models that do not suit eight bits translate in float32, as tests expect, also where bfloat16 is quick."""
    from dragoman.decoding import precision  # only now, as below

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision, "_is_quick_with_bfloat16", lambda: False)
        yield


@pytest.fixture
def dragoman(capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """A function that runs a command in this process: exit code, stdout and stderr."""
    from dragoman import cli  # only now: annotations are checked in what is imported after this file

    def run(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dragoman", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin.encode()))))
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code, *capfd.readouterr()

    return run


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of a server that stands in for S3, with a bucket `pairs`."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("localhost", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket."""
    import s3fs

    keys = {"AWS_ENDPOINT_URL": s3, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in (keys | {"AWS_DEFAULT_REGION": "us-east-1"}).items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("pairs")
    yield "s3://pairs"
    s3fs.S3FileSystem().rm("pairs", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()
