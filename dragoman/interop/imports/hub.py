"""Pretrained models from the Hugging Face Hub: this opens connections, for `dragoman import hf:NAME` alone."""

import hashlib
import os
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, UsageError
from dragoman.interop.files import INDEX, PRETRAINED, STYLE_FILE
from dragoman.system.atomic import real_path
from dragoman.system.optional import load

PREFIX = "hf:"
TEXTS = (
    "config.json", "generation_config.json", "tokenizer_config.json", "vocab.json", "target_vocab.json",
    "tokenizer.json", "source.spm", "target.spm", "sentencepiece.bpe.model", STYLE_FILE,
    "special_tokens_map.json",
)  # fmt: skip
"""Files beside the weights that an import reads."""
_CHUNK = 2**20


def parse(name: str) -> tuple[str, str]:
    """The repository and the revision, perhaps none, that a name means; raises `UsageError` for other names."""
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise UsageError(f"`{name}` names no model; write {PREFIX}OWNER/NAME, such as hf:Helsinki-NLP/opus-mt-en-fr.")
    return repository, revision


def download(name: str, *, progress: bool = True) -> Path:
    """The folder of `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION` in the cache of huggingface_hub.

    Files that are there already are not fetched again. One that breaks off goes on where it was, or is begun anew by
    the next command if the network stays away. Every file is compared with the checksum that the Hub has for it.
    Raises `DataError` for what cannot be fetched, and `UsageError` for other names.
    """
    hub = load("huggingface_hub", extra="pretrained", purpose=f"Downloading {name}")
    repository, revision = parse(name)
    if not progress:
        hub.utils.disable_progress_bars()
    try:
        info = hub.HfApi().model_info(repository, revision=revision or None, files_metadata=True)
        files = {each.rfilename: each for each in info.siblings or () if "/" not in each.rfilename}
        wanted = [each for each in TEXTS if each in files] + _weights(list(files))
        found = [Path(hub.hf_hub_download(repository, each, revision=info.sha)) for each in wanted]
    # The library has an error of its own for each of network, name and permission.
    except Exception as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(
            f"{name} cannot be downloaded: {reason}; check the name or the network, and try again."
        ) from None
    for path in found:
        if not _is_whole(path, files[path.name]):
            # What stands in the cache is a link, and a download would only link to the same content again.
            real_path(path).unlink()
            raise DataError(f"{path.name} of {name} is not the file that the Hub has, and was deleted; import again.")
    if not found:
        raise DataError(f"{name} has none of the files of a pretrained translation model.")
    return found[0].parent


def _weights(files: list[str]) -> list[str]:
    """The files of weights of the safest kind that there is."""
    for begin, end in map(os.path.splitext, PRETRAINED):
        if found := [each for each in files if each.startswith(begin) and each.endswith((end, end + INDEX))]:
            return found
    return []


def _is_whole(path: Path, known: Any) -> bool:
    """Whether a file has the checksum that the Hub knows: SHA-256 of large files, git's SHA-1 of the others."""
    if known.lfs:
        return _digest(hashlib.sha256(), path) == known.lfs.sha256
    if known.blob_id:
        return _digest(hashlib.sha1(f"blob {path.stat().st_size}\0".encode()), path) == known.blob_id
    return True


def _digest(digest: Any, path: Path) -> str:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
