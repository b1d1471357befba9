"""What is written is read back, whatever happens meanwhile; what is damaged is refused."""

import builtins
import errno
import hashlib
import io
import json
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from dragoman.errors import DataError, ResourceError, UnverifiedModel
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.model_directory import ModelDirectory, copy_weights
from dragoman.system.atomic import new_file, new_folder, write_file, write_files, write_output
from dragoman.text.tokenizers.tokenizer import Tokenizer

# Crashes happen in forked children, which start no threads.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("annotations_unchecked"),
]

# ---- model directories -----------------------------------------------------------------------

LAYERS = {"num_encoder_layers": 2, "num_decoder_layers": 3}
SIZES = {"d_model": 22, "d_ff": 31, "num_heads": 1, **LAYERS}
VARIANTS = {
    "default": {},
    "untied": {"tie_projection": False},
    "bias": {"projection_bias": True},
    "gate": {"activation": "swiglu"},
    "post": {"norm_order": "post"},
    "rms": {"norm": "rms"},
    "scalar": {"norm_gain": "scalar"},
    "learned": {"positions": "learned", "max_positions": 37},
    "rotary": {"positions": "rotary", "activation": "gelu"},
    "marian": {"positions": "sinusoidal-concatenated", "norm_eps": 1e-6, "scale_embeddings": False},
}
IDS = torch.tensor([[5, 7, 11, 3], [13, 3, 0, 0]]), torch.tensor([[2, 17, 19], [2, 23, 29]])


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    """Of 263 and 269 entries."""
    texts = ["The cat and the dog sleep.", "Le chat et le chien dorment."]
    found = tuple(Tokenizer.train(texts, vocab_size=size) for size in (263, 269))
    assert [tokenizer.vocab_size for tokenizer in found] == [263, 269]
    return found


def random_model(source: Tokenizer, target: Tokenizer, **choices) -> Transformer:
    torch.manual_seed(3)
    vocabularies = {"source_vocab_size": source.vocab_size, "target_vocab_size": target.vocab_size}
    model = Transformer(TransformerConfig(**{**vocabularies, **SIZES, **choices}))
    with torch.no_grad():  # gains and biases that are not all alike
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def test_a_model_that_is_replaced_while_it_is_read_is_read_whole(
    tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path
) -> None:
    source, target = tokenizers
    sides = [ModelDirectory(random_model(*each), *each) for each in ((source, target), (target, source))]
    wanted = [side.model(*IDS) for side in sides]
    sides[0].save(tmp_path)
    ended = threading.Event()

    def replace() -> None:
        while not ended.is_set():
            for side in sides[::-1]:
                side.save(tmp_path)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(5):
            found = ModelDirectory.load(tmp_path).model(*IDS)
            assert any(found.shape == each.shape and torch.equal(found, each) for each in wanted)
    finally:
        ended.set()
        writer.join()


@pytest.mark.parametrize("has_lock", [True, False])
def test_what_a_killed_process_left_is_deleted_and_what_another_one_writes_is_not(
    tmp_path: Path, has_lock: bool
) -> None:
    """Also where each process has the same number, as in containers."""
    (tmp_path / ".a.bin.0a1b2c3d.tmp").write_bytes(b"half")
    (tmp_path / ".folder.0a1b2c3d.tmp").mkdir()
    if has_lock:
        (tmp_path / ".a.bin.0a1b2c3d.lock").touch()
        (tmp_path / ".folder.0a1b2c3d.lock").touch()
    with new_folder(tmp_path / "folder") as other, new_file(tmp_path / "a.bin") as file:
        file.write(b"of the other")
        assert in_child(lambda: write_file(tmp_path / "a.bin", b"whole")) == 0
        assert (tmp_path / "a.bin").read_bytes() == b"whole"
        with new_folder(tmp_path / "folder"):
            pass
        (other / "x").touch()
    assert {path.name for path in tmp_path.iterdir()} == {"a.bin", "folder"}
    assert (tmp_path / "a.bin").read_bytes() == b"of the other"
    assert (tmp_path / "folder/x").exists()


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_what_is_replaced_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"old")
    (tmp_path / "secret").chmod(0o640)
    with new_file(tmp_path / "secret") as file:
        (temporary,) = tmp_path.glob(".secret.*.tmp")
        assert temporary.stat().st_mode & 0o777 == 0o640
        file.write(b"new")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o640
    write_files({tmp_path / "secret": b"newer", tmp_path / ("x" * 250): b"a long name"})
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / ("x" * 250)).read_bytes() == b"a long name"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_directory_gives_back_the_model(
    tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path, variant: str
) -> None:
    source, target = tokenizers
    model = random_model(source, target, **VARIANTS[variant])
    ModelDirectory(model, source, target, "en", "fr").save(tmp_path / "a" / "model")
    loaded = ModelDirectory.load(tmp_path / "a" / "model")
    assert torch.equal(loaded.model(*IDS), model(*IDS))
    assert loaded.model.config == model.config
    assert not loaded.model.training
    assert loaded.source_tokenizer.to_json() == source.to_json()
    assert loaded.target_tokenizer.to_json() == target.to_json()
    assert (loaded.source_language, loaded.target_language) == ("en", "fr")


@pytest.mark.parametrize(
    ("choices", "tables"),
    [
        ({"share_embeddings": True}, 1),
        ({"share_embeddings": True, "tie_projection": False}, 2),
        ({"tie_projection": True}, 2),
        ({"tie_projection": False}, 3),
    ],
)
def test_shared_things_are_stored_once_and_shared_again(
    tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path, choices: dict[str, bool], tables: int
) -> None:
    shared = tokenizers[0]
    model = random_model(shared, shared, **choices)
    ModelDirectory(model, shared, shared).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    stored = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert sum(263 in tensor.shape for tensor in stored.values()) == tables
    loaded = ModelDirectory.load(tmp_path)
    assert torch.equal(loaded.model(*IDS), model(*IDS))
    assert loaded.source_tokenizer is loaded.target_tokenizer
    assert loaded.source_language is None
    assert len(list(loaded.model.parameters())) == len(list(model.parameters()))


def test_a_model_directory_is_replaced(tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path) -> None:
    source, target = tokenizers
    ModelDirectory(random_model(source, target), source, target).save(tmp_path)
    other = random_model(target, target, norm="rms")
    ModelDirectory(other, target, target).save(tmp_path)
    assert torch.equal(ModelDirectory.load(tmp_path).model(*IDS), other(*IDS))
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


# ---- what is refused -------------------------------------------------------------------------


class Bomb:
    """Makes a file where it is unpickled."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.canary),)


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
    asked = json.dumps(list(map(str, paths.values())))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", LOAD]
    done = subprocess.run(command, input=asked, env=environment, capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert not (root / "canary").exists()
    pickle.loads(bombs[b"bomb"])
    assert (root / "canary").exists(), "the bomb would not have gone off"
    return {name: (path, *result) for (name, path), result in zip(paths.items(), results, strict=True)}


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


def test_refused_weights_change_nothing(tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
    model = random_model(*tokenizers)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    wrong = {name: parameter + 1 for name, parameter in before.items()}
    wrong["decoder.norm.gain"] = torch.ones(23)
    with pytest.raises(DataError, match=r"here.* 'decoder.norm.gain' of shape \(23,\)"):
        copy_weights(wrong, model, origin=Path("here"))
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


# ---- checkpoints: what is written is read back -----------------------------------------------


def groups_of(step: int) -> dict[str, dict[str, Tensor]]:
    """Two groups that say which step they are of."""
    weights = torch.full((13, 7), float(step))
    moments = {"0.step": torch.tensor(float(step)), "0.exp_avg": torch.full((5,), step / 2)}
    return {"model": {"a.weight": weights, "bias": torch.arange(11.0)}, "optimizer": moments}


def save(checkpoints: Checkpoints, step: int, mark: int | None = None) -> None:
    """`mark` tells several checkpoints of one step apart."""
    mark = step if mark is None else mark
    checkpoints.save(step, groups_of(mark), {"mark": mark, "seconds": 0.1})


def mark_of(loaded: tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None) -> int | None:
    """Which checkpoint this is; fails if it is not all of it, bit for bit."""
    if loaded is None:
        return None
    groups, state = loaded
    expected = groups_of(state["mark"])
    assert state == {"mark": state["mark"], "seconds": 0.1}
    assert {name: group.keys() for name, group in groups.items()} == {
        name: group.keys() for name, group in expected.items()
    }
    for name, group in expected.items():
        for key, value in group.items():
            assert torch.equal(groups[name][key], value)
    return state["mark"]


class Log(list[str]):
    """Collects warnings."""

    def __call__(self, message: str) -> None:
        self.append(message)


@pytest.fixture
def warned() -> Log:
    return Log()


@pytest.fixture
def checkpoints(tmp_path: Path, warned: Log) -> Checkpoints:
    return Checkpoints(tmp_path / "run" / "checkpoints", warn=warned)


def test_a_checkpoint_is_read_back_to_the_bit(checkpoints: Checkpoints, warned: Log) -> None:
    groups = {
        "model": {"half": torch.randn(5, 3).bfloat16(), "turned": torch.randn(3, 7).T},
        "optimizer": {"0.step": torch.tensor(17), "1.flag": torch.tensor([True, False])},
        "nothing": {},
    }
    state = {"best_bleu": -float("inf"), "seconds": 0.1 + 0.2, "position": {"epoch": 2**53 + 1}}
    checkpoints.save(7, groups, state)
    for loaded, read in (checkpoints.load(7), checkpoints.load_latest()):
        assert read == state
        assert loaded.keys() == groups.keys()
        for name, group in groups.items():
            assert loaded[name].keys() == group.keys()
            for key, value in group.items():
                assert loaded[name][key].dtype == value.dtype
                assert torch.equal(loaded[name][key], value)
    assert warned == []


def test_no_checkpoints_are_none(checkpoints: Checkpoints, warned: Log) -> None:
    assert checkpoints.steps() == []
    assert checkpoints.load_latest() is None
    checkpoints.prune(set())
    with pytest.raises(DataError, match="step_00000007"):
        checkpoints.load(7)
    assert warned == []


def test_steps_are_in_order_of_number(checkpoints: Checkpoints) -> None:
    for step in (9, 100, 10, 123_456_789, 11):
        save(checkpoints, step)
    assert checkpoints.steps() == [9, 10, 11, 100, 123_456_789]
    assert mark_of(checkpoints.load_latest()) == 123_456_789
    checkpoints.prune({10, 100, 5})
    assert checkpoints.steps() == [10, 100]
    assert mark_of(checkpoints.load_latest()) == 100


def test_a_step_saved_again_is_replaced(checkpoints: Checkpoints) -> None:
    save(checkpoints, 5)
    save(checkpoints, 5, mark=6)
    assert checkpoints.steps() == [5]
    assert mark_of(checkpoints.load_latest()) == 6


def test_strangers_in_the_folder_are_left_alone(checkpoints: Checkpoints, warned: Log) -> None:
    save(checkpoints, 3)
    (checkpoints.folder / "step_00000009").write_text("a file")
    (checkpoints.folder / "step_old").mkdir()
    (checkpoints.folder / "notes").mkdir()
    assert checkpoints.steps() == [3]
    save(checkpoints, 5)
    checkpoints.prune({5})
    names = {path.name for path in checkpoints.folder.iterdir()}
    assert names == {"step_00000005", "step_00000009", "step_old", "notes"}
    assert mark_of(checkpoints.load_latest()) == 5
    assert warned == []


def test_leftovers_are_ignored_and_then_removed(checkpoints: Checkpoints, warned: Log) -> None:
    save(checkpoints, 3)
    for name in ("step_00000005.123.tmp", f"step_00000007.{os.getpid()}.tmp"):
        shutil.copytree(checkpoints.folder / "step_00000003", checkpoints.folder / name)
    assert checkpoints.steps() == [3]
    assert mark_of(checkpoints.load_latest()) == 3
    save(checkpoints, 7)
    names = {path.name for path in checkpoints.folder.iterdir()}
    assert names == {"step_00000003", "step_00000007"}
    assert mark_of(checkpoints.load_latest()) == 7
    assert warned == []


# ---- damage ----------------------------------------------------------------------------------


def falls_back(checkpoints: Checkpoints, warned: Log) -> bool:
    """Whether step 5 is refused and step 3 given, with a warning that names step 5."""
    warned.clear()
    with pytest.raises(DataError, match=r"step_00000005 is damaged"):
        checkpoints.load(5)
    assert mark_of(checkpoints.load_latest()) == 3
    assert len(warned) == 1
    return "step_00000005" in warned[0]


@pytest.fixture
def two(checkpoints: Checkpoints) -> list[Path]:
    """Steps 3 and 5 are saved; the files of step 5."""
    save(checkpoints, 3)
    save(checkpoints, 5)
    files = sorted((checkpoints.folder / "step_00000005").iterdir())
    assert [file.name for file in files] == [
        "manifest.json",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]
    return files


def test_a_wrong_byte_anywhere_is_seen(checkpoints: Checkpoints, two: list[Path], warned: Log) -> None:
    dice = random.Random(7)
    for file in two:
        whole = file.read_bytes()
        middle = dice.sample(range(1, len(whole) - 1), min(14, len(whole) - 2))
        for place in [0, *middle, len(whole) - 1]:
            for flip in (0x01, 0xFF):  # to another letter or digit, and to no text at all
                damaged = bytearray(whole)
                damaged[place] ^= flip
                file.write_bytes(damaged)
                assert falls_back(checkpoints, warned), f"{file.name}, byte {place}"
        file.write_bytes(whole)
    assert mark_of(checkpoints.load_latest()) == 5


def test_a_missing_or_cut_file_is_seen(checkpoints: Checkpoints, two: list[Path], warned: Log) -> None:
    for file in two:
        whole = file.read_bytes()
        for length in (0, 1, 8, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:length])
            assert falls_back(checkpoints, warned), f"{file.name} cut to {length}"
        file.write_bytes(whole + b"\0")
        assert falls_back(checkpoints, warned)
        file.unlink()
        assert falls_back(checkpoints, warned), f"no {file.name}"
        file.mkdir()
        assert falls_back(checkpoints, warned), f"{file.name} is a folder"
        file.rmdir()
        file.write_bytes(whole)
    assert mark_of(checkpoints.load_latest()) == 5


STRANGE = [b"[]", b"7", b"null", b"{}", b'{"state.json": 7}', b"\xff", b"[" * 10_007]


@pytest.mark.parametrize("text", STRANGE)
def test_a_strange_manifest_is_damage(checkpoints: Checkpoints, two: list[Path], warned: Log, text: bytes) -> None:
    two[0].write_bytes(text)
    assert falls_back(checkpoints, warned)


def test_a_file_that_the_manifest_does_not_know_is_not_read(checkpoints: Checkpoints, two: list[Path]) -> None:
    (two[0].parent / "stray.safetensors").write_bytes(b"garbage")
    try:
        assert mark_of(checkpoints.load(5)) == 5
    except DataError:
        return


@pytest.mark.parametrize("number", [1, 2, 3])
def test_damage_is_told_by_name(checkpoints: Checkpoints, two: list[Path], number: int) -> None:
    file = two[number]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match=file.name):
        checkpoints.load(5)
    file.unlink()
    with pytest.raises(DataError, match=file.name):
        checkpoints.load(5)


def test_if_all_are_damaged_each_is_told(checkpoints: Checkpoints, two: list[Path], warned: Log) -> None:
    for file in checkpoints.folder.glob("*/state.json"):
        file.write_bytes(b"")
    assert checkpoints.load_latest() is None
    assert len(warned) == 2
    assert "step_00000005" in warned[0]
    assert "step_00000003" in warned[1]


def test_no_pickle_is_read(checkpoints: Checkpoints, two: list[Path], tmp_path: Path) -> None:
    # Even one that the manifest vouches for.
    data = pickle.dumps(Bomb(tmp_path / "canary"))
    two[1].write_bytes(data)
    manifest = json.loads(two[0].read_bytes())
    manifest[two[1].name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    two[0].write_text(json.dumps(manifest))
    with pytest.raises(DataError):
        checkpoints.load(5)
    assert not (tmp_path / "canary").exists()


# ---- crashes ---------------------------------------------------------------------------------


def in_child(action: Callable[[], object]) -> int:
    """Exit code of a forked child: 0, 1 if `action` raised, 9 if it died on the way."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class TornWriter(io.BufferedWriter):
    """A file that is written in two halves, with a system call between them."""

    between: Callable[[], object]

    def write(self, data: bytes) -> int:
        half = len(data) // 2
        super().write(data[:half])
        self.flush()
        type(self).between()
        super().write(data[half:])
        return len(data)


def interrupt_before(call: int, how: Callable[[], object]) -> None:
    """Let `how` happen just before that system call on files; for a child, since it is for good."""
    left = iter(range(call))
    opened, synced = builtins.open, os.fsync

    def tick() -> None:
        if next(left, None) is None:
            how()

    def torn(path, mode: str = "r", *args, **options):
        if mode != "wb":
            return opened(path, mode, *args, **options)
        return TornWriter(io.FileIO(path, mode))

    TornWriter.between = staticmethod(tick)
    builtins.open = io.open = torn  # pathlib uses the second
    os.fsync = lambda descriptor: (tick(), synced(descriptor))
    sys.addaudithook(lambda event, _: tick() if event.startswith(("open", "os.", "shutil.")) else None)


def each_crash(action: Callable[[], object], prepare: Callable[[], object]) -> Iterator[int]:
    """Exit codes of children that die before the first system call of `action`, the second ..."""

    def attempt(call: int) -> None:
        interrupt_before(call, lambda: os._exit(9))
        action()

    call, code = 0, 9
    while code == 9:
        prepare()
        code = in_child(partial(attempt, call))
        yield code
        call += 1
    assert code == 0
    assert call > 4, "nothing was interrupted"


posix = pytest.mark.skipif(os.name != "posix", reason="forks")


@posix
@pytest.mark.parametrize("before", [(), (2, 3)])
def test_a_crash_at_any_moment_of_a_save_loses_nothing(
    checkpoints: Checkpoints, warned: Log, before: tuple[int, ...]
) -> None:
    def prepare() -> None:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)
        for step in before:
            save(checkpoints, step)

    outcomes = []
    for code in each_crash(lambda: save(checkpoints, 5), prepare):
        found = mark_of(checkpoints.load_latest())
        assert found == 5 or found == (before[-1] if before else None)
        assert code == 9 or found == 5
        outcomes.append(found)
        save(checkpoints, 7)  # a crash is in nobody's way
        assert mark_of(checkpoints.load_latest()) == 7
        assert not list(checkpoints.folder.glob("*.tmp"))
    assert outcomes == sorted(outcomes, key=lambda found: found == 5)
    assert len(outcomes) > 20
    assert warned == []


@pytest.mark.slow
@posix
def test_a_crash_while_a_step_is_saved_again_loses_nothing(checkpoints: Checkpoints) -> None:
    # A resumed run that has nothing left to do saves its last step once more.
    def prepare() -> None:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)
        save(checkpoints, 5)

    lost = [
        call
        for call, _ in enumerate(each_crash(lambda: save(checkpoints, 5, mark=6), prepare))
        if mark_of(checkpoints.load_latest()) not in (5, 6)
    ]
    assert lost == []


@posix
def test_a_crash_at_any_moment_of_pruning_spares_what_is_kept(checkpoints: Checkpoints) -> None:
    def prepare() -> None:
        for step in (2, 3, 5):
            save(checkpoints, step)

    for _ in each_crash(lambda: checkpoints.prune({3, 5}), prepare):
        assert mark_of(checkpoints.load(3)) == 3
        assert mark_of(checkpoints.load_latest()) == 5


@posix
@pytest.mark.parametrize("old", [b"old" * 1009, None])
def test_a_crash_leaves_the_old_file_or_the_new_one(tmp_path: Path, old: bytes | None) -> None:
    path, new = tmp_path / "model.safetensors", b"new!" * 2003
    seen = set()

    def prepare() -> None:
        for each in tmp_path.iterdir():
            each.unlink()
        if old:
            path.write_bytes(old)

    for code in each_crash(lambda: write_file(path, new), prepare):
        found = path.read_bytes() if path.exists() else None
        assert found == new or (found == old and code == 9)
        seen.add(found)
    assert seen == {old, new}


@pytest.mark.slow
@posix
def test_an_error_at_any_moment_of_a_save_loses_nothing(checkpoints: Checkpoints) -> None:
    failed: list[bool] = []

    def fail() -> None:
        if not failed:
            failed.append(True)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def attempt(call: int) -> None:
        interrupt_before(call, fail)
        save(checkpoints, 5)
        os._exit(2 if failed else 0)  # 2: failed where it does not matter

    call, code = 0, 1
    while code:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)
        save(checkpoints, 3)
        code = in_child(partial(attempt, call))
        assert mark_of(checkpoints.load_latest()) in ((3, 5) if code == 1 else (5,))
        save(checkpoints, 7)
        assert mark_of(checkpoints.load_latest()) == 7
        call += 1
    assert call > 20


@posix
def test_an_error_leaves_no_half_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")

    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for moment in ("fsync", "replace"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, moment, lambda *_: fail())
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                write_file(path, b"new")
        assert [each.name for each in tmp_path.iterdir()] == ["model.safetensors"]
        assert path.read_bytes() == b"old"


@posix
def test_killed_at_random_a_run_loses_nothing_it_was_told_is_saved(checkpoints: Checkpoints, warned: Log) -> None:
    dice = random.Random(11)
    step = 1
    save(checkpoints, step)
    for _ in range(8):
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                while True:
                    step += 1
                    save(checkpoints, step)
                    os.write(tell, step.to_bytes(4, "big"))
                    checkpoints.prune(set(checkpoints.steps()[-2:]))
            finally:
                os._exit(1)
        os.close(tell)
        with os.fdopen(told, "rb", buffering=0) as pipe:
            saved = pipe.read(4)
            time.sleep(dice.uniform(0.0, 0.1))
            os.kill(child, signal.SIGKILL)
            saved += pipe.readall()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        last = int.from_bytes(saved[-4:], "big")
        found = mark_of(checkpoints.load_latest())
        assert found in (last, last + 1)
        step = found
    assert step > 8
    assert warned == []


@posix
def test_everything_is_on_the_disk_before_it_has_its_name(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, moved = set(), []
    fsync, rename = os.fsync, os.rename

    def record_sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def record_rename(source: Path, target: Path) -> None:
        parts = [source, *Path(source).iterdir()]
        assert {part.stat().st_ino for part in map(Path, parts)} <= synced
        synced.clear()
        moved.append(Path(target).name)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "rename", record_rename)
    save(checkpoints, 5)
    assert moved == ["step_00000005"]
    assert synced == {checkpoints.folder.stat().st_ino}


# ---- full disks ------------------------------------------------------------------------------


def disk_with(monkeypatch: pytest.MonkeyPatch, free: Callable[[], float]) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=int(free())))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.1])
def test_a_full_disk_is_told_before_anything_is_written(
    checkpoints: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    file, size = tmp_path / "model.safetensors", 30_000_000
    file.write_bytes(b"old")
    save(checkpoints, 3)
    disk_with(monkeypatch, lambda: share * size)
    big = {"model": {"weight": torch.zeros(size // 4)}}
    for folder, attempt in (
        (tmp_path, lambda: write_file(file, bytes(size))),
        (checkpoints.folder, lambda: checkpoints.save(5, big, {})),
    ):
        with pytest.raises(ResourceError) as caught:
            attempt()
        message = str(caught.value)
        assert str(folder) in message
        needed, free = (float(number) for number in re.findall(r"([\d.]+) MB", message))
        assert free == pytest.approx(share * 30, abs=0.5)
        assert 30 <= needed <= 37
        assert free < needed, "a message that contradicts itself"
    assert file.read_bytes() == b"old"
    assert checkpoints.steps() == [3]
    assert mark_of(checkpoints.load_latest()) == 3
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")]


def test_a_link_in_a_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    link.symlink_to("file")
    write_file(link, b"new")
    assert (link.is_symlink(), link.read_bytes(), file.read_bytes()) == (False, b"new", b"old")


@posix
def test_a_link_that_the_user_names_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    file.write_bytes(b"old")
    link.symlink_to("file")
    write_output(link, b"new")
    assert (link.is_symlink(), file.read_bytes()) == (True, b"new")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, b"news")
    assert os.read(reader, 7) == b"news"
    os.close(reader)
    assert pipe.is_fifo()
    assert {each.name for each in tmp_path.iterdir()} == {"file", "link", "pipe"}


def test_small_files_have_a_size_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_with(monkeypatch, lambda: 0)
    with pytest.raises(ResourceError) as caught:
        write_file(tmp_path / "config.json", bytes(3001))
    assert " 0 MB are to be written" not in str(caught.value)


def test_leftovers_make_room_for_what_is_saved(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    # The half checkpoint of a killed run fills the disk: it must go before anyone asks for room.
    save(checkpoints, 3)
    leftover = checkpoints.folder / "step_00000005.123.tmp"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(bytes(100_003))
    disk_with(
        monkeypatch,
        lambda: 100_003 - sum(f.stat().st_size for f in leftover.glob("*")),
    )
    save(checkpoints, 5)
    assert mark_of(checkpoints.load_latest()) == 5


@posix
def test_a_disk_that_is_full_at_any_byte_keeps_the_old(checkpoints: Checkpoints, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"old")
    save(checkpoints, 3)
    big = {"model": {"weight": torch.zeros(70_001)}}

    def attempt(limit: int) -> None:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for action in (
            lambda: checkpoints.save(5, big, {}),
            lambda: write_file(file, bytes(280_004)),
        ):
            with pytest.raises((OSError, ResourceError)):
                action()
        assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]

    for limit in (0, 1, *range(4099, 280_004, 65_537)):
        assert in_child(partial(attempt, limit)) == 0
        assert file.read_bytes() == b"old"
        assert checkpoints.steps() == [3]
        assert mark_of(checkpoints.load_latest()) == 3
    save(checkpoints, 5)
    assert mark_of(checkpoints.load_latest()) == 5
    assert not list(checkpoints.folder.glob("*.tmp"))
