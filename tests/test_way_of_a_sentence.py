"""The files that a sentence passes on its way to the loss, and to its translation; `pytest -s` prints them.

A file is entered when one of its functions is given the sentence or returns it: as text, as token ids, or as tensors
while a function that was given its ids is running.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

import dragoman
from dragoman import Translator
from dragoman.config.settings import parse_settings
from dragoman.runs.plan import plan_run
from dragoman.runs.train import start_run
from dragoman.terminal import Display
from tests.small import MODEL_SETTINGS

PACKAGE = str(Path(dragoman.__file__).parent) + "/"
MARK = "zyzzyva"  # often enough in the pair below to be a token of its own
PAIR = f"{MARK} {MARK} {MARK} is here", f"{MARK} {MARK} {MARK} ici"


class Follower:
    """Lists the files that the sentence enters; the id of its marked token is learned from the tokenizer."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.id: int | None = None
        self.inside: set[int] = set()  # frames that were given the ids

    def __call__(self, frame: FrameType, event: str, returned: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            given = [frame.f_locals.get(name) for name in code.co_varnames[: _parameters(code)]]
            if any(map(self._has_id, given)):
                self.inside.add(id(frame))
            entered = any(map(_has_text, given)) or (self.inside and any(map(_has_tensor, given)))
            entered = entered or id(frame) in self.inside
        else:
            self.inside.discard(id(frame))
            entered = _has_text(returned) or self._has_id(returned)
            if code.co_name == "encode_batch" and self.id is None:
                self.id = frame.f_locals["self"].encode(MARK)[-1]
        if entered:
            self.files.add(code.co_filename.removeprefix(PACKAGE))

    def _has_id(self, value: Any) -> bool:
        if self.id is None:
            return False
        if isinstance(value, torch.Tensor | np.ndarray):
            return str(value.dtype).removeprefix("torch.") in ("int64", "uint32") and bool((value == self.id).any())
        if type(value).__name__ in ("Batch", "Sentence"):
            return any(map(self._has_id, vars(value).values()))
        return isinstance(value, list | tuple) and any(
            e == self.id if type(e) is int else self._has_id(e) for e in value[:50]
        )


def _parameters(code: Any) -> int:
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)


def _has_text(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_text, value[:50]))
    return isinstance(value, str) and MARK in value


def _has_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor | np.ndarray) or (isinstance(value, tuple) and any(map(_has_tensor, value)))


@contextmanager
def following() -> Iterator[Follower]:
    follower = Follower()
    before = sys.getprofile()
    sys.setprofile(follower)
    try:
        yield follower
    finally:
        sys.setprofile(before)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A run, and the files that a training sentence entered until its loss was there."""
    folder = tmp_path_factory.mktemp("run")
    lines = [f"the number {n} house\tla maison numéro {n}" for n in range(60)]
    lines.insert(40, "\t".join(PAIR))
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = [
        "tokenizer.vocab_size=1000", "training.max_steps=1", "training.average=1", "decoding.beam_size=1",
        "data.held_out=3", *MODEL_SETTINGS,
    ]  # fmt: skip
    with following() as follower, pytest.MonkeyPatch.context() as patch:
        config, bitext = plan_run([str(folder / "pairs.tsv")], recipe="tiny", settings=parse_settings(settings))
        patch.setattr(torch.nn.utils, "clip_grad_norm_", _then_stop(torch.nn.utils.clip_grad_norm_))
        start_run(bitext, config, folder / "model", listener=Display(quiet=True))
    return folder / "model", follower.files


def _then_stop(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which ends the following: what comes after it is not on the way."""

    def stop(*arguments: Any, **options: Any) -> Any:
        sys.setprofile(None)
        return function(*arguments, **options)

    return stop


def test_from_a_file_to_the_loss(trained):
    _, files = trained
    print("\n".join(["From a file to the loss:", *sorted(files)]))
    assert {
        "data/readers/tsv.py",
        "text/tokenizers/tokenizer.py",
        "data/encoding.py",
        "training/trainer.py",
        "model/attention.py",
        "model/fast/loss.py",
    } <= files


def test_from_a_text_to_its_translation(trained):
    translator = Translator.load(trained[0])
    translator.translate(["The house."])  # which looks at the vocabulary for the first time
    with following() as follower:
        translator.translate([PAIR[0]])
    files = follower.files
    print("\n".join(["From a text to its translation:", *sorted(files)]))
    assert {
        "decoding/translator.py",
        "text/tokenizers/tokenizer.py",
        "decoding/search.py",
        "engine/log_probs.py",
    } <= files
    assert not any(name.startswith("model/") for name in files - {"model/config.py"})
