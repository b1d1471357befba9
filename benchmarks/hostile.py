"""What files that strangers made to do harm cost: seconds and memory until the command refuses them.

    .venv/bin/python benchmarks/hostile.py [--only WORD] [--json]

Every command runs in a forked process that has the libraries loaded; memory is counted above its start. Exits with 1
unless each is refused in one sentence, or is harmless, within 2 s and 500 MB, and no canary was touched.
"""

import argparse
import gzip
import io
import json
import os
import pickle
import resource
import shutil
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import torch._dynamo
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from dragoman import cli
from dragoman.cli import data, interop, training, translation  # commands load their modules when they are asked for
from dragoman.config.settings import parse_settings
from dragoman.errors import DragomanError
from dragoman.interop.imports import notebook_models, weights
from dragoman.runs.plan import plan_run
from dragoman.runs.train import start_run
from dragoman.storage import validate
from dragoman.storage.weights_file import SUMS, opened
from dragoman.terminal import Display

LOADED = (data, interop, training, translation, notebook_models, weights)
SECONDS, MEGABYTES = 2.0, 500
SETTINGS = [
    "model.d_model=24", "model.d_ff=40", "model.num_heads=3", "model.num_encoder_layers=1",
    "model.num_decoder_layers=1", "tokenizer.vocab_size=400", "training.max_steps=1", "training.average=1",
]  # fmt: skip
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
NOTEBOOK = ("--style", "prenorm", "--num-heads", "2")

Attack = Callable[[Path], list[str]]
ATTACKS: dict[str, Attack] = {}


def attack(name: str) -> Callable[[Attack], Attack]:
    def keep(function: Attack) -> Attack:
        ATTACKS[name] = function
        return function

    return keep


# ---- model directories -------------------------------------------------------------------------


def model(name: str, file: str, change: Callable[[Path], object]) -> None:
    """A model directory with one changed file."""

    def prepare(folder: Path) -> list[str]:
        shutil.copytree(folder.parent / "run", folder / "model")
        change(folder / "model" / file)
        reseal(folder / "model")
        return ["translate", str(folder / "model"), "--input", os.devnull]

    ATTACKS[f"{file}: {name}"] = prepare


def reseal(folder: Path) -> None:
    """Give the weights the checksums of the files beside them, as whoever changes these would."""
    if not all(file.is_file() and not file.is_symlink() for file in folder.iterdir() if file.name != "run"):
        return
    with suppress(DragomanError, SafetensorError, ValueError, TypeError, OSError, RecursionError):
        config = json.loads((folder / "config.json").read_bytes())
        with opened(folder / WEIGHTS) as (_, header):
            begin = header.begin
        whole = (folder / WEIGHTS).read_bytes()
        sums = validate.TextFiles.read(folder, config).sums | {WEIGHTS: validate.checksum(whole[begin:])}
        save_file(load_file(folder / WEIGHTS), folder / WEIGHTS, metadata={SUMS: json.dumps(sums)})


def header(entries: object, *, length: int | None = None, content: bytes = bytes(64)) -> Callable[[Path], object]:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    size = (len(text) if length is None else length).to_bytes(8, "little")
    return lambda file: file.write_bytes(size + text + content)


def entry(**changes: Any) -> dict[str, Any]:
    return {"projection.bias": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]} | changes}


def settings(**changes: Any) -> Callable[[Path], object]:
    def change(file: Path) -> None:
        config = json.loads(file.read_bytes())
        section = config["model"] if changes.keys() <= config["model"].keys() else config
        section.update(changes)
        file.write_text(json.dumps(config))

    return change


def parts_of_tokenizer(**changes: Any) -> Callable[[Path], object]:
    return lambda file: file.write_text(json.dumps(json.loads(file.read_bytes()) | changes))


def tensors(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], object]:
    def save(file: Path) -> None:
        tensors = load_file(file)
        name = max(tensors, key=lambda tensor: tensors[tensor].numel())
        tensors[name] = change(tensors[name])
        save_file(tensors, file)

    return save


def instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda file: (file.unlink(), make(file))


WEIGHTS = "model.safetensors"
for word, change in {
    "header of 2^63 bytes": header({}, length=2**63),
    "header of 4 GB": header({}, length=2**32),
    "a million entries": header({f"w{n}": entry()["projection.bias"] for n in range(1_000_000)}),
    "nested 100,000 times": header(b"[" * 100_000),
    "shape of 2^60": header(entry(shape=[2**60])),
    "shape of 70,000 x 70,000": header(entry(shape=[70_000, 70_000])),
    "offsets behind the end": header(entry(data_offsets=[0, 2**40])),
    "offsets backwards": header(entry(data_offsets=[64, 0])),
    "overlapping": header(entry() | {"b": entry()["projection.bias"]}),
    "twice the same key": header(b'{"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},' * 2),
    "unknown number format": header(entry(dtype="F3")),
    "metadata of numbers": header({"__metadata__": {"checksums": 7}} | entry()),
    "NaN": tensors(lambda weight: weight * float("nan")),
    "eight bits": tensors(lambda weight: weight.to(torch.float8_e4m3fn)),
    "a pickle": lambda file: file.write_bytes(pickle.dumps(Touch())),
    "a pipe": instead(os.mkfifo),
    "/dev/zero": instead(lambda file: file.symlink_to("/dev/zero")),
    "a hole of 1 TB": instead(lambda file: (file.touch(), os.truncate(file, 2**40))),
}.items():
    model(word, WEIGHTS, change)
for word, change in {
    "width of 10^9": settings(d_model=10**9, d_ff=10**9),
    "10^6 layers": settings(num_encoder_layers=10**6),
    "vocabulary of 10^12": settings(source_vocab_size=10**12),
    "positions of 10^12": settings(max_positions=10**12, positions="learned"),
    "a tokenizer elsewhere": settings(source_tokenizer="../../../../etc/passwd"),
    "a beam of 10^9": settings(decoding={"beam_size": 10**9}),
    "numbers of 100,000 digits": lambda file: file.write_text('{"format": ' + "1" * 100_000 + "}"),
    "nested 100,000 times": lambda file: file.write_text("[" * 100_000),
    "300 MB": lambda file: file.write_text("[" + "1," * 150_000_000 + "1]"),
    "a pipe": instead(os.mkfifo),
    "/dev/zero": instead(lambda file: file.symlink_to("/dev/zero")),
}.items():
    model(word, "config.json", change)
for word, change in {
    "nested 100,000 times": lambda file: file.write_text("[" * 100_000),
    "31 MB of numbers": lambda file: file.write_text('{"a": [' + "1," * 15_500_000 + "1]}"),
    "61 MB": lambda file: file.write_text('{"a": [' + "1," * 30_500_000 + "1]}"),
    "a slow pattern": parts_of_tokenizer(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    ),
    "texts that grow": parts_of_tokenizer(
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 40}
    ),
    "a pattern of a gigabyte": parts_of_tokenizer(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(" * 60 + "a{999}" + "){999}" * 60},
                       "behavior": "Isolated", "invert": False}
    ),
}.items():  # fmt: skip
    model(word, "tokenizer.json", change)


# ---- weights to import -------------------------------------------------------------------------


class Touch:
    """A pickle that runs a command when it is read."""

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {CANARY}",)


CANARY = Path(tempfile.gettempdir()) / f"canary-{os.getpid()}"


def saved(name: str, value: Any) -> None:
    def prepare(folder: Path) -> list[str]:
        torch.save(value(), folder / "weights.pt")
        return ["import", str(folder / "weights.pt"), str(folder / "model"), *NOTEBOOK]

    ATTACKS[f"weights.pt: {name}"] = prepare


saved("runs a command", lambda: {"w": Touch()})
saved("40,000 x 40,000 numbers that are one", lambda: {"w": torch.zeros(1).expand(40_000, 40_000)})
saved("a million tensors that are one", lambda: dict.fromkeys(map(str, range(1_000_000)), torch.zeros(3)))
saved("nested lists", lambda: nested(90))


def nested(depth: int) -> Any:
    value: Any = [1]
    for _ in range(depth):
        value = [value] * 2
    return value


def deflated(folder: Path, *, name: str = "weights.pt") -> Path:
    """A file of torch, two gigabytes of zeros in some two megabytes."""
    plain = io.BytesIO()
    torch.save({"w": torch.zeros(1000)}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.namelist():
            with target.open(entry, "w", force_zip64=True) as file:
                file.write(source.read(entry))
                for _ in range(2_000 if entry.endswith("/data/0") else 0):
                    file.write(bytes(1_000_000))
    return folder / name


@attack("weights.pt: deflated zeros")
def _(folder: Path) -> list[str]:
    return ["import", str(deflated(folder)), str(folder / "model"), *NOTEBOOK]


@attack("weights.npz: two gigabytes of zeros")
def _(folder: Path) -> list[str]:
    with zipfile.ZipFile(folder / "weights.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        shape = io.BytesIO()
        np.lib.format.write_array_header_1_0(shape, {"descr": "<f4", "fortran_order": False, "shape": (500_000_000,)})
        with archive.open("encoder_l1_ffn_W1.npy", "w", force_zip64=True) as file:
            file.write(shape.getvalue())
            for _ in range(2_000):
                file.write(bytes(1_000_000))
    return ["import", str(folder), str(folder / "model")]


@attack("weights.npz: objects")
def _(folder: Path) -> list[str]:
    np.savez(folder / "weights.npz", **{"special:model.yml": np.array([Touch()], dtype=object)})
    return ["import", str(folder), str(folder / "model")]


def hdf5(name: str, build: Callable[[Any], object]) -> None:
    """A file of Keras, alone and in an archive."""

    def prepare(folder: Path, *, archived: bool) -> list[str]:
        file = folder / "model.weights.h5"
        with h5py.File(file, "w") as opened_file:
            build(opened_file)
        if archived:
            with zipfile.ZipFile(folder / "model.keras", "w", zipfile.ZIP_DEFLATED) as archive_:
                archive_.write(file, file.name)
            file = folder / "model.keras"
        return ["import", str(file), str(folder / "model"), "--style", "keras", "--num-heads", "2"]

    ATTACKS[f"model.weights.h5: {name}"] = partial(prepare, archived=False)
    ATTACKS[f"model.keras: {name}"] = partial(prepare, archived=True)


def groups(file: Any) -> None:
    for number in range(3_000):
        file.create_dataset(f"{number}/a", (1_000, 1_000), "f4")


def nested_groups(file: Any) -> None:
    for _ in range(2_000):
        file = file.create_group("a")


def lines(file: Any) -> None:
    file.create_dataset("a", (10**9,), h5py.string_dtype())


def half_filled(file: Any) -> None:
    """Twenty times the file in one chunk, and zeros a thousand times as many in it."""
    bomb = zlib.compress(bytes(4 * 10**8))
    dataset = file.create_dataset("a", (250_000,), "f4", chunks=(250_000,), compression="gzip")
    dataset.id.write_direct_chunk((0,), bomb)


for word, build in {
    "18,000 x 18,000 numbers that are not there": lambda file: file.create_dataset("a", (18_000, 18_000), "f4"),
    "2^40 numbers": lambda file: file.create_dataset("a", (2**40,), "f4", chunks=(2**10,)),
    "packed zeros": lambda file: file.create_dataset("a", data=np.zeros(10**8, "f4"), compression="gzip"),
    "a chunk of a gigabyte": lambda file: file.create_dataset("a", (1,), "f4", chunks=(2**28,), maxshape=(None,)),
    "a chunk that is more than it says": half_filled,
    "3,000 groups": groups,
    "2,000 groups inside of each other": nested_groups,
    "a number of a gigabyte": lambda file: file.create_dataset("a", (1,), np.dtype(("f4", (2**25,)))),
    "a billion texts": lines,
    "an unknown filter": lambda file: file.create_dataset("a", data=np.arange(10**5), scaleoffset=0),
    "a link to itself": lambda file: file.__setitem__("a", h5py.SoftLink("/a")),
    "another file": lambda file: file.create_dataset("a", (99,), "u1", external=[("/etc/passwd", 0, 99)]),
    "a layer of this file's own parts": lambda file: file.create_virtual_dataset("a", own_parts()),
}.items():
    hdf5(word, build)


def own_parts() -> Any:
    layout = h5py.VirtualLayout((10**6, 10**6), "f4")
    layout[:] = h5py.VirtualSource(".", "a", (10**6, 10**6))
    return layout


def marian(name: str, vocabulary: str) -> None:
    def prepare(folder: Path) -> list[str]:
        np.savez(folder / "model.npz", **{"special:model.yml": np.frombuffer(b"type: transformer\0", np.int8)})
        (folder / "model.vocab.yml").write_text(vocabulary)
        return ["import", str(folder), str(folder / "model")]

    ATTACKS[f"model.vocab.yml: {name}"] = prepare


marian("nested 100,000 times", "[" * 100_000)
marian("a million tokens", "".join(f"a{number}: {number}\n" for number in range(1_000_000)))


@attack("model.npz: options of a megabyte")
def _(folder: Path) -> list[str]:
    np.savez(folder / "model.npz", **{"special:model.yml": np.frombuffer(b"a: [b]\n" * 150_000, np.int8)})
    return ["import", str(folder), str(folder / "model")]


@attack("model.npz: an array that says that it is larger")
def _(folder: Path) -> list[str]:
    with zipfile.ZipFile(folder / "model.npz", "w") as archive_:
        shape = io.BytesIO()
        np.lib.format.write_array_header_1_0(shape, {"descr": "<f4", "fortran_order": False, "shape": (10**12,)})
        archive_.writestr("Wemb.npy", shape.getvalue() + bytes(64))
    return ["import", str(folder), str(folder / "model")]


# ---- sentence pairs ----------------------------------------------------------------------------


def pairs(name: str, file: str, content: Callable[[], str | bytes]) -> None:
    def prepare(folder: Path) -> list[str]:
        data = content()
        (folder / file).write_bytes(data.encode() if isinstance(data, str) else data)
        return ["data", "check", str(folder / file)]

    ATTACKS[f"{file}: {name}"] = prepare


def tmx(body: str, doctype: str = "") -> str:
    return f'<?xml version="1.0"?>{doctype}<tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>'


def xliff(body: str, doctype: str = "") -> str:
    opening = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
    return (
        f'<?xml version="1.0"?>{doctype}{opening}<file source-language="en" target-language="fr"><body>{body}</body>'
        "</file></xliff>"
    )


UNIT = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="fr"><seg>{}</seg></tuv></tu>'
PASSWORDS = '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
pairs("billion laughs", "m.tmx", lambda: tmx(UNIT.format("&l11;", "x"), f"<!DOCTYPE tmx [<!ENTITY l0 'ha'>{LAUGHS}]>"))
pairs("another file", "m.tmx", lambda: tmx(UNIT.format("&x;", "x"), PASSWORDS))
pairs(
    "a million variants", "v.tmx", lambda: tmx("<tu>" + '<tuv xml:lang="en"><seg>a</seg></tuv>' * 1_000_000 + "</tu>")
)
pairs("nested 100,000 times", "n.tmx", lambda: tmx(UNIT.format("<hi>" * 100_000 + "x" + "</hi>" * 100_000, "x")))
pairs("one text of 40 MB", "t.tmx", lambda: tmx(UNIT.format("word " * 8_000_000, "x")))
pairs("billion laughs", "m.xlf", lambda: xliff("&l11;", f"<!DOCTYPE x [<!ENTITY l0 'ha'>{LAUGHS}]>"))
pairs("a million segments", "s.xlf", lambda: xliff(
    '<trans-unit id="1"><source>a</source>' + "<target>b</target>" * 1_000_000 + "</trans-unit>"))  # fmt: skip
pairs(
    "one long message", "m.po", lambda: 'msgid ""\n' + '"word "\n' * 1_000_000 + 'msgstr ""\n' + '"mot "\n' * 1_000_000
)
pairs("one long line", "l.po", lambda: f'msgid "{"a b " * 5_000_000}"\nmsgstr "{"a b " * 5_000_000}"\n')
pairs("zeros", "z.tsv.gz", lambda: gzip.compress(bytes(1_500_000_000), 1))
pairs("one long message", "m.po.gz", lambda: gzip.compress(('msgid ""\n' + '"word "\n' * 20_000_000).encode(), 1))
pairs("one line of 40 MB", "l.jsonl", lambda: '{"en": "' + "a" * 40_000_000 + '", "fr": "b"}\n')
pairs("nested 100,000 times", "n.jsonl", lambda: "[" * 100_000 + "\n")
pairs("a pickle", "p.tsv", lambda: pickle.dumps(Touch()))
pairs("random bytes", "r.tsv", lambda: os.urandom(5_000_000))


# ---- documents ---------------------------------------------------------------------------------


def document(name: str, file: str, content: Callable[[], str | bytes]) -> None:
    def prepare(folder: Path) -> list[str]:
        data = content()
        (folder / file).write_bytes(data.encode() if isinstance(data, str) else data)
        output = str(folder / f"out-{file}")
        return ["translate", str(folder.parent / "run"), "--document", str(folder / file), "--output", output]

    ATTACKS[f"{file}: {name}"] = prepare


def archive(**parts: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, part in parts.items():
            opened.writestr(name.replace("__", "/"), part)
    return buffer.getvalue()


DOCX = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{}</w:body></w:document>'


def docx(body: str, doctype: str = "") -> bytes:
    return archive(**{"word__document.xml": (doctype + DOCX.format(body)).encode()})


document("zeros", "z.docx", lambda: archive(**{"word__document.xml": bytes(1_500_000_000)}))
document("billion laughs", "l.docx", lambda: docx("&l11;", f"<!DOCTYPE x [<!ENTITY l0 'ha'>{LAUGHS}]>"))
document("another file", "x.docx", lambda: docx("&x;", PASSWORDS))
document("nested 100,000 times", "n.docx", lambda: docx("<w:p>" * 100_000 + "</w:p>" * 100_000))
document("200,000 entries", "e.docx", lambda: archive(**{f"x{n}": b"" for n in range(200_000)}))
document("50,000 open tags", "n.html", lambda: "<b>" * 50_000 + "x")
document("80,000 marks", "m.md", lambda: "*_[`" * 20_000)
document("nested 100,000 times", "n.json", lambda: "[" * 100_000)
document("aliases", "a.yaml", lambda: "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)))  # fmt: skip
document("runs a command", "c.yaml", lambda: f"x: !!python/object/apply:os.system ['touch {CANARY}']\n")
document("billion laughs", "l.xlf", lambda: xliff("&l11;", f"<!DOCTYPE x [<!ENTITY l0 'ha'>{LAUGHS}]>"))
document("one long message", "d.po", lambda: 'msgid ""\n' + '"word "\n' * 1_000_000 + 'msgstr ""\n')
document("a pickle", "p.srt", lambda: pickle.dumps(Touch()))


# ---- what is repeated --------------------------------------------------------------------------

BOOKMARKS = "".join(f'<w:bookmarkStart w:id="{n}" w:name="b{n}"/><w:r><w:t>a b </w:t></w:r>' for n in range(800))
ENDS = "".join(f'<w:bookmarkEnd w:id="{n}"/><w:r><w:t>c d </w:t></w:r>' for n in reversed(range(800)))
document("800 bookmarks inside of each other", "b.docx", lambda: docx(f"<w:p>{BOOKMARKS}{ENDS}</w:p>"))
document(
    "codes", "x.xlf", lambda: xliff('<trans-unit id="1"><source>' + '<x id="1"/>' * 20_000 + "</source></trans-unit>")
)
for unit in ("*a ", "_a", "a ", "[", "![[", "> ", "`", "<a", "<!-- ", "| ", "{{", "$$", "&amp;", "- "):
    document(f"{unit!r} many times", "s.md", partial("a".__add__, unit * 8_000))
for unit in ("<a ", "<!-- ", "<![CDATA[", "<b>", "</b>", "&amp;", "<p", "<td>", "{% ", "<a b='"):
    document(f"{unit!r} many times", "s.html", partial("<p>a".__add__, unit * 6_000))
for unit in ("{", "[", "- ", "a: &a ", "? ", "'"):
    document(f"{unit!r} many times", "s.yaml", partial("a: ".__add__, unit * 8_000))
for unit in ("a", "a ", "\u0301", "%s", "{0} ", "a@b.c ", "日本語。", "A. "):
    document(f"{unit!r} many times", "s.srt", partial("1\n00:00:01,000 --> 00:00:02,000\n".__add__, unit * 8_000))
for unit in ('"', '""', "a,", ";", "\t"):
    pairs(f"{unit!r} many times", "s.csv", partial("en,fr\n".__add__, unit * 100_000))


# ---- how they are run --------------------------------------------------------------------------


def cost(arguments: list[str], log: Path, patience: float = 60.0) -> tuple[int | None, float, float]:
    """Exit code, None if it had to be killed, seconds, and megabytes above the start."""
    measured = log.with_suffix(".json")
    child = os.fork()
    if child == 0:
        try:
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0), os.dup2(output, 1), os.dup2(output, 2)
            sys.argv = ["dragoman", *arguments]
            before, code = peak(), 70
            try:
                cli.main()
            except SystemExit as end:
                code = int(end.code or 0)
            measured.write_text(json.dumps(peak() - before))
        finally:
            os._exit(code)
    started = time.monotonic()
    while time.monotonic() - started < patience:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            seconds = time.monotonic() - started
            return os.waitstatus_to_exitcode(status), seconds, json.loads(measured.read_text())
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None, patience, 0.0


def peak() -> float:
    """Megabytes of this process and of the largest that it waited for."""
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e3


def main() -> None:
    """Run the attacks one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only attacks with this in their name")
    parser.add_argument("--json", action="store_true", help="print all as one line of JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config, bitext = plan_run(["builtin:grammar:200"], recipe="tiny", settings=parse_settings(SETTINGS))
        if os.fork() == 0:
            start_run(bitext, config, folder / "run", listener=Display(quiet=True))
            os._exit(0)
        os.wait()
        for name, prepare in ATTACKS.items():
            if options.only not in name:
                continue
            (folder / "attack").mkdir()
            code, seconds, megabytes = cost(prepare(folder / "attack"), folder / "log")
            shutil.rmtree(folder / "attack")
            lines = (folder / "log").read_text(errors="replace").strip().splitlines()
            message = lines[-1] if lines else ""
            good = code in (0, 2, 3, 4) and seconds < SECONDS and megabytes < MEGABYTES and not CANARY.exists()
            results[name] = {"code": code, "seconds": seconds, "megabytes": megabytes, "said": message, "good": good}
            if not options.json:
                print(
                    f"{name:50} {code!s:>4} {seconds:6.2f} s {megabytes:7.0f} MB {'' if good else '<<'} {message[:90]}",
                    flush=True,
                )
    if options.json:
        print(json.dumps(results))
    sys.exit(not all(result["good"] for result in results.values()))


if __name__ == "__main__":
    main()
