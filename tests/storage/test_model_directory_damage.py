"""A damaged model directory is refused in one sentence, and without asking for much memory or reading a pickle."""

import io
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from dragoman.errors import UnverifiedModel
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.storage.models import IDS, Bomb, random_model

Damage = Callable[[Path], object]


def set_config(**changes) -> Damage:
    """Changes keys of config.json; None deletes one."""

    def damage(path: Path) -> None:
        values = json.loads((path / "config.json").read_text()) | changes
        values = {key: value for key, value in values.items() if value is not None}
        (path / "config.json").write_text(json.dumps(values))

    return damage


def set_model(**changes) -> Damage:
    """Changes keys of the model's part of config.json; None deletes one."""

    def damage(path: Path) -> None:
        values = json.loads((path / "config.json").read_text())["model"] | changes
        set_config(model={key: value for key, value in values.items() if value is not None})(path)

    return damage


def rewrite(name: str, data: bytes | Callable[[bytes], bytes]) -> Damage:
    """Replaces a file, or changes its bytes."""

    def damage(path: Path) -> None:
        old = (path / name).read_bytes()
        (path / name).write_bytes(data(old) if callable(data) else data)

    return damage


def change_weights(change: Callable[[dict[str, Tensor]], object]) -> Damage:
    """Changes the tensors of model.safetensors."""

    def damage(path: Path) -> None:
        tensors = safetensors.torch.load_file(path / "model.safetensors")
        change(tensors)
        safetensors.torch.save_file(tensors, path / "model.safetensors")

    return damage


def remove(name: str) -> Damage:
    return lambda path: (path / name).unlink()


def make_folder(name: str) -> Damage:
    return lambda path: ((path / name).unlink(), (path / name).mkdir())


def change_tensor(change: Callable[[Tensor], Tensor]) -> Damage:
    """Changes one of the tensors."""
    name = "encoder.layers.0.feed_forward.inner.weight"
    return change_weights(lambda tensors: tensors.update({name: change(tensors[name])}))


def strange_weights(**changes) -> bytes:
    """A safetensors file of one strange tensor."""
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} | changes
    text = json.dumps({"projection.bias": entry}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(4)


HUGE = {"d_model": 16_384, "d_ff": 131_072, "num_encoder_layers": 100, "num_decoder_layers": 100}
WEIGHTS = "model.safetensors"
FAULTY = r"model\.safetensors (cannot be read|is cut short or damaged|is damaged)"
REFUSED: dict[str, tuple[Damage, str]] = {
    "no such folder": (shutil.rmtree, "does not exist"),
    "a file": (lambda path: (shutil.rmtree(path), path.write_text("{}")), "is a file"),
    "an empty folder": (lambda path: (shutil.rmtree(path), path.mkdir()), "no config.json"),
    "no config.json": (remove("config.json"), "no config.json"),
    "config.json is a folder": (make_folder("config.json"), "config.json"),
    "config.json is empty": (rewrite("config.json", b""), "cannot be read as JSON"),
    "config.json is cut": (rewrite("config.json", lambda old: old[:-7]), "cannot be read as JSON"),
    "config.json is no text": (rewrite("config.json", b"\xff\xfe\xfd"), "cannot be read as JSON"),
    "config.json is deep": (rewrite("config.json", b"[" * 100_003), "cannot be read as JSON"),
    "config.json has a long number": (
        rewrite("config.json", b"7" * 5003),
        "cannot be read as JSON",
    ),
    "config.json is a list": (rewrite("config.json", b"[]"), r"it is \[\], not an object"),
    "format 2": (set_config(format=2), "format 2"),
    "no format": (set_config(format=None), "names no format"),
    "no model": (set_config(model=None), "model"),
    "model is a list": (set_config(model=["d_model"]), "model"),
    "model is a text": (set_config(model="d_model"), "model"),
    "model is a number": (set_config(model=7), "model"),
    "unknown key": (set_model(d_modle=22), "unknown key 'd_modle'"),
    "no vocabulary": (set_model(source_vocab_size=None), "lacks 'source_vocab_size'"),
    "d_model 10**9": (set_model(d_model=10**9), "`d_model` is 1000000000"),
    "d_model 10**99": (set_model(d_model=10**99), "`d_model`"),
    "d_ff 10**9": (set_model(d_ff=10**9), "`d_ff`"),
    "10**9 layers": (set_model(num_decoder_layers=10**9), "`num_decoder_layers`"),
    "10**9 positions": (set_model(max_positions=10**9), "`max_positions`"),
    "10**9 tokens": (set_model(target_vocab_size=10**9), "`target_vocab_size`"),
    "d_model 0": (set_model(d_model=0), "`d_model`"),
    "d_model -22": (set_model(d_model=-22), "`d_model`"),
    "d_model true": (set_model(d_model=True), "`d_model`"),
    "d_model 22.0": (set_model(d_model=22.0), "`d_model`"),
    "d_model a list": (set_model(d_model=[22]), "`d_model`"),
    "norm_eps NaN": (set_model(norm_eps=float("nan")), "`norm_eps`"),
    "norm unknown": (set_model(norm="batch"), "`norm`"),
    "norm a list": (set_model(norm=["rms"]), "`norm`"),
    "dropout 2": (set_model(dropout=2), "`dropout`"),
    "bos_id beyond the vocabulary": (set_model(bos_id=10**9), "`bos_id`"),
    "eos_id beyond the vocabulary": (set_model(eos_id=269), "`eos_id`"),
    "pad_id beyond the vocabulary": (set_model(pad_id=10**9), "`pad_id`"),
    # Each size is possible, but not with these weights: no memory may be asked for.
    "all sizes huge": (set_model(**HUGE), ""),
    "d_ff huge": (set_model(d_ff=131_072, num_encoder_layers=100), ""),
    "tokenizer elsewhere": (
        set_config(source_tokenizer="../twin/source_tokenizer.json"),
        "same folder",
    ),
    "tokenizer at a root": (set_config(target_tokenizer="/etc/passwd"), "same folder"),
    "tokenizer is ..": (set_config(target_tokenizer=".."), ""),
    "tokenizer is nothing": (set_config(target_tokenizer=""), ""),
    "tokenizer is not named": (set_config(source_tokenizer=None), ""),
    "tokenizer is a number": (set_config(source_tokenizer=7), "same folder"),
    "tokenizer has a NUL": (set_config(source_tokenizer="a\0b"), ""),
    "tokenizer has a long name": (set_config(source_tokenizer="a" * 307), ""),
    "tokenizer absent": (remove("source_tokenizer.json"), "source_tokenizer.json is missing"),
    "tokenizer garbage": (rewrite("target_tokenizer.json", b"garbage"), "target_tokenizer.json"),
    "tokenizer of another size": (
        set_config(source_tokenizer="target_tokenizer.json"),
        "source tokenizer in .* has 269 entries, but the model 263",
    ),
    "languages are numbers": (set_config(source_language=7), "source_language"),
    "weights absent": (remove(WEIGHTS), r"is missing; copy the whole folder again"),
    "weights are a folder": (make_folder(WEIGHTS), r"is no file; copy the whole folder again"),
    "weights empty": (rewrite(WEIGHTS, b""), FAULTY),
    "weights garbage": (rewrite(WEIGHTS, random.Random(5).randbytes(1009)), FAULTY),
    "weights without an end": (rewrite(WEIGHTS, lambda old: old[:-1]), FAULTY),
    "weights half": (rewrite(WEIGHTS, lambda old: old[: len(old) // 2]), FAULTY),
    "weights cut in the header": (rewrite(WEIGHTS, lambda old: old[:101]), FAULTY),
    "weights longer": (rewrite(WEIGHTS, lambda old: old + b"\0"), FAULTY),
    "weights with a huge header": (rewrite(WEIGHTS, b"\xff" * 8 + b"{}"), FAULTY),
    "weights with no tensors": (rewrite(WEIGHTS, b"\2" + bytes(7) + b"{}"), "lacks the weights"),
    "weights of a huge shape": (rewrite(WEIGHTS, strange_weights(shape=[2**60])), FAULTY),
    "weights of a long type": (rewrite(WEIGHTS, strange_weights(dtype="F4", shape=[8])), ""),
    "weights of a small type": (rewrite(WEIGHTS, strange_weights(dtype="F8_E8M0", shape=[4])), ""),
    "weights of eight bits": (change_tensor(lambda w: w.to(torch.float8_e4m3fn)), "no finite numbers"),
    "weights missing": (change_weights(lambda tensors: tensors.popitem()), "lacks the weights"),
    "weights extra": (
        change_weights(lambda t: t.update(bias=torch.zeros(3))),
        "has the weights 'bias'",
    ),
    "weights turned": (change_tensor(lambda w: w.T.contiguous()), r"shape \(22, 31\).*\(31, 22\)"),
    "weights flat": (change_tensor(torch.flatten), r"shape \(682,\)"),
    "weights NaN": (change_tensor(lambda w: w * float("nan")), "feed_forward.inner.weight"),
    "weights infinite": (change_tensor(lambda w: w / 0), "feed_forward.inner.weight"),
    "weights whole numbers": (change_tensor(lambda w: w.long()), "feed_forward.inner.weight"),
    "weights complex": (change_tensor(lambda w: w + 1j), "feed_forward.inner.weight"),
    "weights a pickle": (rewrite(WEIGHTS, b"bomb"), FAULTY),
    "weights a torch pickle": (rewrite(WEIGHTS, b"torch bomb"), FAULTY),
    "config.json a pickle": (rewrite("config.json", b"bomb"), "cannot be read as JSON"),
    "tokenizer a pickle": (rewrite("source_tokenizer.json", b"bomb"), "source_tokenizer.json"),
}

# Without the type checks of these tests, and with room for 1 GiB more.
LOAD = """
import json, resource, sys, warnings
from pathlib import Path
from dragoman.storage.model_directory import ModelDirectory
from dragoman.errors import DataError, UnverifiedModel

warnings.simplefilter("error")
warnings.simplefilter("ignore", UnverifiedModel)
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30,) * 2)
for path in json.load(sys.stdin):
    try:
        ModelDirectory.load(Path(path))
        result = ["loaded", ""]
    except BaseException as error:
        result = [type(error).__name__, str(error)]
    print(json.dumps(result), flush=True)
"""


@pytest.fixture(scope="module")
def refusals(
    tokenizers: tuple[Tokenizer, Tokenizer], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, str, str]]:
    """For each damage the directory, the class and the message of the error."""
    root = tmp_path_factory.mktemp("models")
    whole = root / "twin"
    ModelDirectory(random_model(*tokenizers), *tokenizers).save(whole)
    change_weights(lambda t: None)(whole)  # a stranger can leave out the checksums, or compute them
    zipped = io.BytesIO()
    torch.save({"bias": Bomb(root / "canary")}, zipped)
    bombs = {b"bomb": pickle.dumps(Bomb(root / "canary")), b"torch bomb": zipped.getvalue()}
    paths = {"a long name": root / ("a" * 307), "a name with a NUL": root / "a\0b", "whole": whole}
    for number, (name, (damage, _)) in enumerate(REFUSED.items()):
        paths[name] = root / f"model-{number}"
        shutil.copytree(whole, paths[name])
        damage(paths[name])
        for file in paths[name].glob("*.*") if paths[name].is_dir() else ():
            if file.is_file() and file.read_bytes() in bombs:
                file.write_bytes(bombs[file.read_bytes()])
    names = json.dumps(list(map(str, paths.values())))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", LOAD]
    process = subprocess.run(command, input=names, env=environment, capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in process.stdout.split("\n") if line]
    assert not (root / "canary").exists()
    pickle.loads(bombs[b"bomb"])
    assert (root / "canary").exists(), "the bomb would not have gone off"
    return {name: (path, *result) for (name, path), result in zip(paths.items(), results, strict=True)}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by /proc")
@pytest.mark.parametrize("name", [*REFUSED, "a long name", "a name with a NUL"])
def test_a_damaged_model_directory_is_a_data_error(refusals: dict[str, tuple[Path, str, str]], name: str) -> None:
    path, error, message = refusals[name]
    assert error == "DataError", f"{error}: {message}"
    assert str(path).replace("\0", r"\x00") in message
    assert "\n" not in message
    assert len(message) < 400 + len(str(path))
    if name in REFUSED:
        assert re.search(REFUSED[name][1], message), message


@pytest.mark.slow
def test_an_undamaged_model_directory_is_loaded(
    refusals: dict[str, tuple[Path, str, str]],
) -> None:
    assert refusals["whole"][1:] == ("loaded", "")


def test_weights_in_half_precision_are_taken(tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path) -> None:
    model = random_model(*tokenizers)
    ModelDirectory(model, *tokenizers).save(tmp_path)
    change_weights(lambda t: t.update({name: t[name].bfloat16() for name in t}))(tmp_path)
    with pytest.warns(UnverifiedModel):
        loaded = ModelDirectory.load(tmp_path).model
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    torch.testing.assert_close(loaded(*IDS), model(*IDS), atol=0.1, rtol=0)
