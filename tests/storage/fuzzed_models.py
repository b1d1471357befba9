"""Damages model directories at random, loads each without torch, and translates with what loads: a program.

    python -m tests.storage.fuzzed_models WHOLE SCRATCH FIRST LAST

WHOLE is a folder of undamaged model directories. Each number from FIRST to below LAST damages one of them, always in
the same way. The program prints the number before it loads the directory, and the outcome as JSON after that: "loaded",
or the kind of a `DragomanError` and its message. Any other error, or a crash, ends it.

Most damaged files have valid checksums, as those of a stranger would, so that the checksums do not hide other checks.
"""

import copy
import json
import os
import random
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dragoman import Translator
from dragoman.errors import DataError, DragomanError, UsageError
from dragoman.storage import directory
from dragoman.storage.validate import WEIGHTS, TextFiles, read_config
from dragoman.storage.weights_file import HEADER, SUMS, header_checksum
from dragoman.system.seals import checksum

MEMORY = 2**29
"""Bytes that loading and translating may take above what the program takes when it starts."""
SECONDS = 20
"""Time of a processor that a case may take; most take some milliseconds."""
DEEP = [50, 300, 900, 960, 980, *range(984, 1000), 100_000]
"""Levels of nested lists; Python reads somewhat less than a thousand, and writes fewer."""
TYPES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "I64": 8, "I32": 4, "I8": 1, "U8": 1, "BOOL": 1,
    "F8_E8M0": 1, "F4": 1, "C64": 8, "f32": 4,
}  # fmt: skip
"""Formats of tensors, known and unknown ones, and the bytes of a number."""
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    7,
    2**31,
    2**40,
    2**63,
    2**64,
    0.5,
    1e300,
    float("nan"),
    "",
    "\ud800",
    [],
    [[]],
    {},
]
SHAPES: list[Any] = [
    [0], [0, 2**62], [2**63], [2**64], [-1], [-1, -32], [2**32, 2**32], [], [1.5], ["3"], [True], [1] * 99, [2] * 70,
    [0] * 65, [10**4000] * 200, [2] * 2_000_000,
]  # fmt: skip
FLOATS = [np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e30, 1e-45, 0.0, -0.0]
Tensors = dict[str, tuple[str, list[int], bytes]]
"""Format, shape and content of each tensor by its name."""


# ---- files of weights ----------------------------------------------------------------------------


def unpacked(content: bytes) -> Tensors:
    """The tensors of an undamaged file."""
    begin = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:begin])
    entries.pop("__metadata__", None)
    body = content[begin:]
    return {name: (each["dtype"], each["shape"], body[slice(*each["data_offsets"])]) for name, each in entries.items()}


def packed(tensors: Tensors) -> tuple[dict[str, Any], bytes]:
    """Header and body of a file with these tensors, one after another."""
    header, body = {}, bytearray()
    for name, (dtype, shape, content) in tensors.items():
        begin = len(body)
        body += content
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(body)]}
    return header, bytes(body)


def file_of(text: bytes, body: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text + body


def sealed(folder: Path, header: dict[str, Any], body: bytes) -> dict[str, Any]:
    """The header with checksums of the folder as it is, so far as its config.json can be read."""
    sums = {WEIGHTS: checksum(body), HEADER: header_checksum(header)}
    try:
        config = read_config(folder)
        sums |= TextFiles.read(folder, config).sums
    except (DataError, RecursionError):
        pass
    return header | {"__metadata__": {SUMS: json.dumps(sums)}}


# ---- damages of tensors --------------------------------------------------------------------------


def change_numbers(dice: random.Random, tensors: Tensors) -> None:
    """Give a tensor numbers of other sizes, or such that are none."""
    name = dice.choice(list(tensors))
    dtype, shape, content = tensors[name]
    numbers = np.frombuffer(content, np.float32 if dtype == "F32" else np.int8).copy()
    with np.errstate(all="ignore"):
        chosen = np.array(FLOATS, np.float32).astype(numbers.dtype)
    match dice.randrange(4):
        case 0:
            numbers[:] = dice.choice(chosen)
        case 1:
            numbers[dice.randrange(len(numbers))] = dice.choice(chosen)
        case 2:
            numbers.view(np.uint8)[:] = np.frombuffer(dice.randbytes(numbers.nbytes), np.uint8)
        case 3:
            numbers[:] = [dice.choice(chosen) for _ in numbers]
    tensors[name] = dtype, shape, numbers.tobytes()


def rename(dice: random.Random, tensors: Tensors) -> None:
    """Rename, swap, drop, double or add tensors."""
    names = dice.sample(list(tensors), 2)
    match dice.randrange(5):
        case 0:
            name = dice.choice(["", "x", "a" * 9999, "\ud800", f"{names[1]}.scale"])
            tensors[name] = tensors.pop(names[0])
        case 1:
            tensors[names[0]], tensors[names[1]] = tensors[names[1]], tensors[names[0]]
        case 2:
            del tensors[names[0]]
        case 3:
            tensors[f"{names[0]}.{dice.choice(['scale', 'bias', 'x'])}"] = tensors[names[1]]
        case 4:
            tensors.clear()


def convert(dice: random.Random, tensors: Tensors) -> None:
    """Store tensors in another format, with bytes that suit it."""
    for name in dice.sample(list(tensors), dice.choice([1, len(tensors)])):
        dtype = dice.choice(list(TYPES))
        _, shape, content = tensors[name]
        size = TYPES[dtype] * int(np.prod(shape))
        tensors[name] = dtype, shape, (content * 8)[:size] if dice.random() < 0.8 else dice.randbytes(size)


def reshape(dice: random.Random, tensors: Tensors) -> None:
    """Give a tensor another shape that suits its bytes, or more bytes that suit another shape."""
    name = dice.choice(list(tensors))
    dtype, shape, content = tensors[name]
    size = int(np.prod(shape))
    options = [[size], [size, 1], [1, size], [1, *shape], shape[::-1], [*shape, 1]]
    match dice.randrange(3):
        case 0:
            tensors[name] = dtype, dice.choice(options), content
        case 1:
            tensors[name] = dtype, [2, *shape], content * 2
        case 2:
            tensors[name] = dtype, dice.choice([[0], [0, *shape], [0, 2**40]]), b""


def misuse_scales(dice: random.Random, tensors: Tensors) -> None:
    """Store a tensor as integers of eight bits with a scale, of shapes that they may have or not."""
    name = dice.choice([each for each in tensors if not each.endswith(".scale")])
    wide = dice.choice([1, 32, 48, 50_000])
    shapes: list[list[int]] = [[], [wide], [wide, 1], [1, wide], [2, 3, 2], tensors[name][1]]
    shape = dice.choice(shapes)
    scale = dice.choice([shape[:1], shape, [1], []])
    numbers = np.full(scale, dice.choice(FLOATS), np.float32)
    tensors[name] = "I8", shape, dice.randbytes(int(np.prod(shape)))
    tensors[f"{name}.scale"] = "F32", scale, numbers.tobytes()


TENSOR_DAMAGES: list[Callable[[random.Random, Tensors], None]] = [
    change_numbers, change_numbers, rename, convert, reshape, misuse_scales,
]  # fmt: skip


# ---- damages of the header, which then lies about the body ---------------------------------------


def change_header(dice: random.Random, header: dict[str, Any], size: int) -> None:
    """Let an entry of the header lie. `size` is the number of bytes of the body."""
    name, other = dice.choice(list(header)), dice.choice(list(header))
    entry = header[name] = copy.deepcopy(header[name])
    match dice.randrange(7):
        case 0:
            entry["shape"] = dice.choice([*SHAPES, *ODD])
        case 1:
            entry["shape"] = [dice.choice([0, 1, 31, 2**20, 2**62, 2**63, *entry["shape"]]) for _ in entry["shape"]]
        case 2:
            entry["dtype"] = dice.choice([*TYPES, *ODD])
        case 3:
            entry["data_offsets"] = dice.choice([header[other]["data_offsets"], [0, size], [size, 0], [0], *ODD])
        case 4:
            beyond = [-8, 0, 4, size, size + 4, 2**40, 2**62, 2**63, 2**64, dice.randrange(size + 1), *ODD]
            entry["data_offsets"][dice.randrange(2)] = dice.choice(beyond)
        case 5:
            header[name] = dice.choice(ODD)
        case 6:
            del entry[dice.choice(list(entry))]


def text_of(dice: random.Random, header: dict[str, Any]) -> bytes:
    """The header as JSON, at times with each name twice, or deep, or mangled."""
    text = json.dumps(header).encode()
    match dice.randrange(20):
        case 0:
            huge = {"dtype": "I8", "shape": [2**40], "data_offsets": [0, 2**40]}
            twice = header | {dice.choice(["x", *header]): huge}
            return text[:-1] + b"," + json.dumps(twice).encode()[1:]
        case 1:
            depth = dice.choice(DEEP)
            return text[:-1] + b',"x":' + b"[" * depth + b"]" * depth + b"}"
        case 2:
            return mangled(dice, text)
    return text


def mangled(dice: random.Random, content: bytes) -> bytes:
    """Content that is truncated, or has some bytes changed, cut out or repeated."""
    found = bytearray(content)
    for _ in range(dice.choice([1, 1, 3])):
        begin = dice.randrange(len(found) + 1)
        end = begin + dice.randrange(1, 40)
        match dice.randrange(4):
            case 0:
                del found[begin:]
            case 1:
                del found[begin:end]
            case 2:
                found[begin:begin] = found[begin:end]
            case 3:
                found[begin : begin + 1] = bytes([dice.choice([0, 1, 127, 128, 255, dice.randrange(256)])])
    return bytes(found)


# ---- damages of config.json ----------------------------------------------------------------------

SIZES = [-1, 0, 1, 2, 3, 5, 8, 16, 24, 32, 48, 64, 100, 128, 256, 16_384, 2**31, 2**32, 2**40, 2**63, 10**400]
CHOICES = {
    "norm_order": ["pre", "post"], "norm": ["layer", "rms"], "norm_gain": ["feature", "scalar"],
    "activation": ["relu", "gelu", "silu", "swiglu"], "decoder_feed_forward": ["network", "positions"],
    "positions": ["sinusoidal", "sinusoidal-concatenated", "sinusoidal-fairseq", "learned", "rotary"],
    "norm_eps": [1e-300, 1e-45, 1.0, 1e300, 10**308, 0, -1.0, float("nan"), float("inf")],
}  # fmt: skip
"""Values of the architecture that are possible, though not with each of the weights."""


def change_config(dice: random.Random, config: dict[str, Any]) -> None:
    """Let config.json describe another model, or none."""
    model = config["model"]
    name = dice.choice(list(model))
    match dice.randrange(8):
        case 0 | 1:
            sizes = [each for each in model if type(model[each]) is int]
            model[dice.choice(sizes)] = dice.choice(SIZES)
        case 2:
            name = dice.choice(list(CHOICES))
            model[name] = dice.choice(CHOICES[name])
        case 3:
            flags = [each for each in model if type(model[each]) is bool]
            model[dice.choice(flags)] ^= True
        case 4:
            model[name] = dice.choice(ODD)
        case 5:
            model.update({"d_model": 16_384, "d_ff": 131_072, "num_encoder_layers": 100, "num_decoder_layers": 100})
        case 6:
            del model[name]
        case 7:
            deep: Any = 1
            for _ in range(dice.choice(DEEP[:-1])):
                deep = [deep]
            where = dice.choice([config, config, model])
            where[dice.choice(["x", *where])] = deep


def written(config: dict[str, Any]) -> str:
    """JSON of config.json, which may be too deep for the `json` of this Python to write."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5_000)
    try:
        return json.dumps(config)
    finally:
        sys.setrecursionlimit(limit)


# ---- cases ---------------------------------------------------------------------------------------


def damage(dice: random.Random, folder: Path) -> None:
    """Damage the files of a model directory."""
    file, config_file = folder / WEIGHTS, folder / "config.json"
    content = file.read_bytes()
    if dice.random() < 0.15:  # without new checksums
        kind = dice.randrange(3)
        if kind == 0:
            length = dice.choice([0, 1, 2**23, 2**23 + 1, 2**31, 2**32, 2**63, 2**64 - 1, dice.randrange(2**64)])
            content = length.to_bytes(8, "little") + content[8:]
        elif kind == 1:
            content = content[: dice.randrange(len(content))]
        else:
            content = mangled(dice, content)
        file.write_bytes(content)
        return
    tensors, kind = unpacked(content), dice.randrange(8)
    if kind in (0, 1, 5):
        config = json.loads(config_file.read_bytes())
        change_config(dice, config)
        config_file.write_text(written(config))
    if kind in (2, 3, 5):
        for _ in range(dice.choice([1, 1, 2])):
            if len(tensors) > 1:
                dice.choice(TENSOR_DAMAGES)(dice, tensors)
    if kind in (6, 7):
        for _ in range(dice.choice([1, 3, 9])):
            change_numbers(dice, tensors)
    header, body = packed(tensors)
    if kind == 4:
        change_header(dice, header, len(body))
        if dice.random() < 0.2:
            body = mangled(dice, body)
    if dice.random() < 0.9:
        header = sealed(folder, header, body)
    if kind == 4 and dice.random() < 0.1:
        size = dice.choice([2**34, 2**40])
        header["x"] = {"dtype": "I8", "shape": [size], "data_offsets": [len(body), len(body) + size]}
    else:
        size = 0
    text = text_of(dice, header)
    file.write_bytes(file_of(text, body))
    if size:  # zeros that take no space on the disk
        os.truncate(file, 8 + len(text) + len(body) + size)


def outcome(folder: Path) -> list[str]:
    """What loading a model directory, and translating with it, comes to."""
    try:
        try:
            translator = Translator.load(folder, device="cpu", precision="int8")
        except UsageError:  # widths that do not suit it
            translator = Translator.load(folder, device="cpu", precision="float32")
        with translator, np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            translations = translator.translate(["the red house", "a cat sees two dogs"], beam_size=3, n_best=2)
            translator.translate(["old dogs"], beam_size=1, alignments=True)
            translator.translate(["old dogs"], sample=True, seed=1)
            translator.score([("the red house", "two dogs")])
        assert all(isinstance(each.text, str) for each in translations)
        return ["loaded", ""]
    except DragomanError as error:
        return [error.kind, str(error)]


def main() -> None:
    whole, folder, (first, last) = Path(sys.argv[1]), Path(sys.argv[2]), map(int, sys.argv[3:])
    directory.REPLACING = 0.0  # no wait for a model that is being replaced
    warnings.simplefilter("ignore")
    models = sorted(whole.iterdir())
    for model in models:
        assert outcome(model) == ["loaded", ""], model
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    for number in range(first, last):
        dice = random.Random(number)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(dice.choice(models), folder)
        damage(dice, folder)
        print(number, end=" ", flush=True)
        started = time.process_time()
        print(json.dumps(outcome(folder)), flush=True)
        assert time.process_time() - started < SECONDS


if __name__ == "__main__":
    main()
