"""Models for the browser: a page that translates offline with onnxruntime's WebAssembly, in JavaScript of its own.

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
from dragoman.interop.exports.engine_files import SIDES
from dragoman.interop.exports.onnx_graph import LONGEST
from dragoman.interop.exports.proof import Found
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import checksum
from dragoman.system.templates import read_static, render
from dragoman.text.tokenizers import algorithms
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
CHECKSUM = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
"""SHA-512 of the package, as the registry of npm has it."""
WEB = "interop/exports/static/web"
"""Folder of the page in the package."""
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
PAGE = ("start.js", "app.js", "files.js", "search.js", "tokenizer.js", "style.css")
KINDS = ("bpe", "unigram")
"""Tokenizers that tokenizer.js has."""


def refusal(directory: ModelDirectory) -> str | None:
    """Why a browser cannot cut text as the model needs it; None if it can."""
    for tokenizer in directory.tokenizers:
        own = not isinstance(tokenizer, PretrainedTokenizer) and algorithms.identify(tokenizer.backend_copy())
        if own not in KINDS:
            return f"the page has tokenizers of Dragoman of the kinds {' and '.join(KINDS)}, and none of others"
    return None


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write the page and the model, but not the runtime, into `folder`, which exists."""
    (folder / "model").mkdir()
    onnx.write_graphs(directory, folder / "model", numbers)
    config, search = directory.model.config, directory.decoding
    about = {name: getattr(config, name) for name in ("num_heads", "d_model", "num_decoder_layers")}
    about |= {name: getattr(config, name) for name in ("pad_id", "bos_id", "eos_id")}
    about |= {"beam_size": search.beam_size, "length_penalty": search.length_penalty}
    about |= {"max_length": config.max_length or LONGEST}
    about |= {"forced": directory.target_tokenizer.begin_ids}
    about |= {"never": [config.pad_id] if config.starts_with_padding else []}
    about |= {"tokenizers": _write_tokenizers(directory, folder / "model")}
    about |= {"sums": {path.name: checksum(path.read_bytes()) for path in sorted((folder / "model").iterdir())}}
    (folder / "model" / "config.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    for name in PAGE:
        (folder / name).write_text(read_static(f"{WEB}/{name}"), encoding="utf-8")
    languages = " to ".join(code or "?" for code in directory.languages)
    title = f"Translate {languages}" if any(directory.languages) else "Translate"
    page = render(f"{WEB}/index.html", direction=title)
    (folder / "index.html").write_text(page, encoding="utf-8")


def _write_tokenizers(directory: ModelDirectory, folder: Path) -> list[str]:
    """Write the tokenizers, or one if both are the same, and return the names of the files."""
    contents = dict.fromkeys(tokenizer.backend_copy().to_str() for tokenizer in directory.tokenizers)
    names = [f"{side}_tokenizer.json" for side in SIDES] if len(contents) > 1 else ["tokenizer.json"]
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_text(content, encoding="utf-8")
    return names


def add_runtime(folder: Path, runtime: Path | None) -> None:
    """Put the files of the runtime beside the page, from a folder or, without one, from the registry of npm."""
    (folder / "runtime").mkdir()
    with TemporaryDirectory() as temporary:
        source = runtime or _fetched(Path(temporary))
        if missing := [name for name in RUNTIME if not (source / name).is_file()]:
            raise UsageError(f"{source} has no {missing[0]}; give the folder `dist` of the npm package {PACKAGE}.")
        for name in RUNTIME:
            content, path = (source / name).read_bytes(), folder / "runtime" / name
            if path.suffix == ".wasm":
                path.with_name(f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
            else:  # Some web servers do not know .mjs, and browsers refuse scripts of an unknown type.
                path.with_suffix(".js").write_bytes(content)


def _fetched(folder: Path) -> Path:
    """The runtime, downloaded and compared with its checksum."""
    npm = shutil.which("npm")
    if npm is None:
        raise ResourceError(
            f"The runtime of the page is fetched with npm, which is not installed; install it, or give the folder "
            f"`dist` of the package {PACKAGE} with --runtime."
        )
    done = subprocess.run([npm, "pack", f"{PACKAGE}@{VERSION}"], cwd=folder, capture_output=True, text=True)
    archives = list(folder.glob("*.tgz"))
    if done.returncode or not archives:
        raise DataError(f"{PACKAGE} {VERSION} cannot be fetched: {done.stderr.strip()[-300:]}; check the network.")
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
) -> Found:
    """What our search finds with the model of the page, over onnxruntime."""
    return onnx.search(folder / "model", directory, sources, beam_size=beam_size, length_penalty=length_penalty)
