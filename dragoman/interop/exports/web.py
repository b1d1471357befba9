"""Export to the browser: a page that translates offline with onnxruntime's WebAssembly, in JavaScript of its own.

The runtime is fetched with the npm client, in one version whose checksum is known, unless a folder has it. The page
decompresses it, because most web servers would send it as it is.
"""

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.errors import DataError, ResourceError, UsageError
from dragoman.interop.exports import onnx
from dragoman.interop.exports.engine_files import LONGEST
from dragoman.interop.exports.proof import EngineTranslation
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.seals import checksum
from dragoman.system.templates import read_static, render
from dragoman.text.tokenizers import algorithms
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
CHECKSUM = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
"""SHA-512 of the package, as the registry of npm has it."""
WEB = "interop/exports/static/web"
"""Folder of the page in the package."""
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
"""Files of the runtime that the page loads."""
PAGE = ("start.js", "app.js", "files.js", "search.js", "tokenizer.js", "style.css")
"""Files of the page beside index.html."""
KINDS = ("bpe", "unigram")
"""Kinds of tokenizers that tokenizer.js implements."""


def refusal(directory: ModelDirectory) -> str | None:
    """Why a browser cannot cut text as the model needs it; None if it can."""
    for tokenizer in directory.tokenizers:
        is_pretrained = isinstance(tokenizer, PretrainedTokenizer)
        if is_pretrained or algorithms.identify(tokenizer.backend_copy()) not in KINDS:
            return f"the page has tokenizers of Dragoman of the kinds {' and '.join(KINDS)}, and none of others"
        if tokenizer.symbols:
            return f"the page cuts text without `tokenizer.symbols`, and this model has {tokenizer.symbols[0]!r}"
    return None


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write the page and the model, but not the runtime, into `folder`, which exists."""
    (folder / "model").mkdir()
    onnx.write_graphs(directory, folder / "model", numbers)
    config, search = directory.model.config, directory.decoding
    about = {
        "num_heads": config.num_heads,
        "d_model": config.d_model,
        "num_decoder_layers": config.num_decoder_layers,
        "pad_id": config.pad_id,
        "bos_id": config.bos_id,
        "eos_id": config.eos_id,
        "beam_size": search.beam_size,
        "length_penalty": search.length_penalty,
        "min_ratio": search.min_ratio or 0.0,
        "min_slack": search.min_slack or 0.0,
        "max_ratio": search.max_ratio,
        "max_extra": search.max_extra,
        "aligned_token": config.aligned_token,
        "max_length": config.max_length or LONGEST,
        "forced": directory.target_tokenizer.begin_ids,
        "never": [config.pad_id] if config.never_pads else [],
        "tokenizers": _write_tokenizers(directory, folder / "model"),
    }
    # Last, when all other files are there.
    about["sums"] = {path.name: checksum(path.read_bytes()) for path in sorted((folder / "model").iterdir())}
    (folder / "model" / "config.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    for name in PAGE:
        (folder / name).write_text(read_static(f"{WEB}/{name}"), encoding="utf-8")
    languages = " to ".join(code or "?" for code in directory.languages)
    title = f"Translate {languages}" if any(directory.languages) else "Translate"
    page = render(f"{WEB}/index.html", direction=title)
    (folder / "index.html").write_text(page, encoding="utf-8")


def _write_tokenizers(directory: ModelDirectory, folder: Path) -> list[str]:
    """Write the tokenizers, or one if both are the same, and return the names of the files."""
    source, target = (tokenizer.backend_copy().to_str() for tokenizer in directory.tokenizers)
    if source == target:
        files = {"tokenizer.json": source}
    else:
        files = {"source_tokenizer.json": source, "target_tokenizer.json": target}
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return list(files)


def add_runtime(folder: Path, runtime: Path | None) -> None:
    """Put the files of the runtime beside the page, from a folder or, without one, from the registry of npm."""
    (folder / "runtime").mkdir()
    with TemporaryDirectory() as temporary:
        source = runtime or _downloaded(Path(temporary))
        for name in RUNTIME:
            if not (source / name).is_file():
                raise UsageError(f"{source} has no {name}; give the folder `dist` of the npm package {PACKAGE}.")
        for name in RUNTIME:
            content = (source / name).read_bytes()
            path = folder / "runtime" / name
            if path.suffix == ".wasm":
                path.with_name(f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
            else:  # Some web servers do not know .mjs, and browsers refuse scripts of an unknown type.
                path.with_suffix(".js").write_bytes(content)


def _downloaded(folder: Path) -> Path:
    """`folder` with the files of the runtime, whose package npm has downloaded. Its checksum is compared before it is
    opened."""
    npm = shutil.which("npm")
    if npm is None:
        raise ResourceError(
            f"The runtime of the page is fetched with npm, which is not installed; install it, or give the folder "
            f"`dist` of the package {PACKAGE} with --runtime."
        )
    command = subprocess.run([npm, "pack", f"{PACKAGE}@{VERSION}"], cwd=folder, capture_output=True, text=True)
    archives = list(folder.glob("*.tgz"))
    if command.returncode or not archives:
        raise DataError(f"{PACKAGE} {VERSION} cannot be fetched: {command.stderr.strip()[-300:]}; check the network.")
    digest = base64.b64encode(hashlib.sha512(archives[0].read_bytes()).digest()).decode()
    if digest != CHECKSUM:
        raise DataError(f"{PACKAGE} {VERSION} from npm is not the package that is known: its checksum differs.")
    with tarfile.open(archives[0]) as archive:
        for name in RUNTIME:
            member = archive.extractfile(f"package/dist/{name}")
            if member is None:
                raise DataError(f"{PACKAGE} {VERSION} has no {name}.")
            (folder / name).write_bytes(member.read())
    return folder


def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> list[EngineTranslation]:
    """Translate with the model of the page, onnxruntime and our search."""
    return onnx.search(folder / "model", directory, sources, beam_size=beam_size, length_penalty=length_penalty)
