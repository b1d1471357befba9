"""Downloads pretrained models from the Hugging Face Hub. Only `dragoman import hf:NAME` opens these connections."""

import hashlib
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, DragomanError, UsageError
from dragoman.interop.files import INDEX, PRETRAINED, STYLE_FILE
from dragoman.system.atomic import real_path, write_file
from dragoman.system.optional import load

PREFIX = "hf:"
TEXTS = (
    "config.json", "generation_config.json", "tokenizer_config.json", "vocab.json", "target_vocab.json",
    "tokenizer.json", "source.spm", "target.spm", "sentencepiece.bpe.model", STYLE_FILE,
    "special_tokens_map.json",
)  # fmt: skip
"""Names of the files beside the weights that an import reads."""
MAIN = "main"
"""The revision that a name without one means."""
_CHUNK = 2**20


def parse(name: str) -> tuple[str, str]:
    """The repository and the revision of a name `hf:OWNER/NAME@REVISION`; the revision is "" without `@`. Raises
    `UsageError` for other names."""
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise UsageError(f"`{name}` names no model; write {PREFIX}OWNER/NAME, such as hf:Helsinki-NLP/opus-mt-en-fr.")
    return repository, revision


def download(name: str, *, progress: bool = True) -> Path:
    """Download `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`, and return its folder in the cache of huggingface_hub.

    Files that are in the cache are not downloaded again. A download that breaks off goes on where it was, or is begun
    anew by the next command if the network stays away. Each file is compared with the checksum that the Hub has for it.
    With HF_HUB_OFFLINE=1 only the cache is read. Raises `DataError` for files that cannot be downloaded, and
    `UsageError` for other names.
    """
    hub = load("huggingface_hub", extra="pretrained", purpose=f"Downloading {name}")
    repository, revision = parse(name)
    constants = import_module("huggingface_hub.constants")
    if constants.HF_HUB_OFFLINE:
        return _cached(hub, Path(constants.HF_HUB_CACHE), name)
    if not progress:
        hub.utils.disable_progress_bars()
    try:
        info = hub.HfApi().model_info(repository, revision=revision or None, files_metadata=True)
        files = {file.rfilename: file for file in info.siblings or () if "/" not in file.rfilename}
        wanted = [name for name in TEXTS if name in files] + _weights_files(list(files))
        paths = [Path(hub.hf_hub_download(repository, file, revision=info.sha)) for file in wanted]
    # The library has an error of its own for each of network, name and permission.
    except Exception as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(
            f"{name} cannot be downloaded: {reason}; check the name or the network, and try again."
        ) from None
    for path in paths:
        if not _is_whole(path, files[path.name]):
            # The file in the cache is a link, and a download would only link to the same content again.
            real_path(path).unlink()
            raise DataError(f"{path.name} of {name} is not the file that the Hub has, and was deleted; import again.")
    if not paths:
        raise DataError(f"{name} has none of the files of a pretrained translation model.")
    folder = paths[0].parent
    if folder.name != revision:
        _note_version(folder.parents[1] / "refs" / (revision or MAIN), info.sha)
    return folder


def _note_version(reference: Path, version: str) -> None:
    """Have the cache answer a name with this version when there is no network, if the cache may be written."""
    with suppress(OSError, DragomanError):
        if not reference.is_file() or reference.read_text(encoding="utf-8") != version:
            reference.parent.mkdir(parents=True, exist_ok=True)
            write_file(reference, version.encode())


def _cached(hub: Any, cache: Path, name: str) -> Path:
    """The folder of a model in the cache. Each file there is compared with the checksum that it is named after."""
    repository, revision = parse(name)
    repositories = hub.scan_cache_dir(cache).repos if cache.is_dir() else ()
    models = [model for model in repositories if model.repo_type == "model" and model.repo_id == repository]
    versions = [version for model in models for version in model.revisions]
    if revision:
        versions = [
            version for version in versions if revision in version.refs or version.commit_hash.startswith(revision)
        ]
    if not versions:
        raise DataError(f"{name} is not in the cache, and HF_HUB_OFFLINE forbids to download it; leave that out once.")
    latest = max(versions, key=lambda version: (MAIN in version.refs, version.last_modified))
    folder = Path(latest.snapshot_path)
    names = [path.name for path in folder.iterdir()]
    weights = _weights_files(names)
    if not weights:
        raise DataError(f"{name} is in the cache without weights, and HF_HUB_OFFLINE forbids to download them.")
    for file in [*(text for text in TEXTS if text in names), *weights]:
        content = real_path(folder / file)
        # Without links, as on Windows, the cache does not say what a file should be.
        if content != folder / file and not _has_digest(content, content.name):
            content.unlink()
            raise DataError(f"{file} of {name} is damaged in the cache, and was deleted; import again with a network.")
    return folder


def _weights_files(files: list[str]) -> list[str]:
    """The files of weights in the safest format that the repository has; an empty list if it has none."""
    for stem, suffix in map(os.path.splitext, PRETRAINED):
        weights = [name for name in files if name.startswith(stem) and name.endswith((suffix, suffix + INDEX))]
        if weights:
            return weights
    return []


def _is_whole(path: Path, file: Any) -> bool:
    """Whether a download has the checksum of the Hub's `file`."""
    expected = file.lfs.sha256 if file.lfs else file.blob_id
    return not expected or _has_digest(path, expected)


def _has_digest(path: Path, expected: str) -> bool:
    """Whether a file has this digest in hexadecimal: SHA-256, as for large files, or git's SHA-1."""
    is_large = len(expected) == 64
    digest = hashlib.sha256() if is_large else hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == expected
