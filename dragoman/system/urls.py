"""Files at URLs, such as s3://bucket/pairs.tsv.gz, through the library `fsspec`, which comes with torch."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from dragoman.errors import DataError, DragomanError, ResourceError, redacted

_URL = re.compile(r"\w[\w+.-]+:(//|:)")  # also zip://pairs.tsv::s3://bucket/pairs.zip
TAGS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")
"""Names in file systems for the hash of a content, or the time of its last change."""
_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL's name for a certificate that nobody trusted has signed."""
LIBRARIES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs",
             "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp", "sftp": "paramiko", "ssh": "paramiko"}  # fmt: skip


def is_url(text: str) -> bool:
    """Whether a name is a URL, and not a path of this machine."""
    return bool(_URL.match(text))


def as_typed(path: Path) -> str:
    """The text of a path; a URL that was made one, which has lost a slash, gets it back."""
    url = re.sub(r":/(?!/)", "://", str(path))  # of a chain, such as zip://a.tsv::s3://b/c.zip, each
    return url if is_url(url) else str(path)


def name_of(url: str) -> str:
    """The name of the file at a URL, without folders."""
    parts = redacted(url).split("::")
    for part in parts:
        if "://" in part:
            return PurePosixPath(part.partition("://")[2]).name
    return ""


@contextmanager
def reaching(url: str, verb: str = "read") -> Iterator[None]:
    """Turns errors of the `with` block into ours. `verb` says what is done to the URL: "read" or "written".

    Raises `DataError` if the file is missing or forbidden, and `ResourceError` for failures of network or libraries.
    """
    try:
        yield
    except DragomanError:
        raise
    except ImportError as error:
        package = LIBRARIES.get(url.partition(":")[0])
        remedy = f"type: pip install {package}" if package else str(error)
        raise ResourceError(f"{url} needs another library; {remedy}") from None
    except Exception as error:  # each file system has errors of its own for the network and for keys
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        error = _cause(error)
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, FileNotFoundError):
            raise DataError(f"{url} cannot be {verb}: it is not there ({reason}); check its name.") from None
        if getattr(error, "status", None) in (401, 403):
            raise DataError(f"{url} may not be {verb} ({reason}); its server asks for rights.") from None
        if isinstance(error, PermissionError) or "redential" in f"{type(error).__name__}{reason}":
            remedy = "check your keys (for s3:// as `aws` finds them: AWS_PROFILE, or AWS_ACCESS_KEY_ID) and rights"
            raise DataError(f"{url} may not be {verb} ({reason}); {remedy}.") from None
        if _CERTIFICATE in reason:
            remedy = (
                "the certificate of the server is not trusted here. If it is your company's, name the file of its "
                "authority in SSL_CERT_FILE"
            )
            raise ResourceError(f"{url} cannot be {verb}: {reason}; {remedy}.") from None
        raise ResourceError(f"{url} cannot be {verb}: {reason}; check the network and the URL.") from None


def _cause(error: Exception) -> Exception:
    """What made a file system say that a file is not there: itself, or an error of the network or the server.

    That of http:// says so of whatever happens when it asks for the size of a file.
    """
    cause = error.__cause__
    is_network = isinstance(cause, OSError) or getattr(cause, "status", None) not in (None, 404, 410)
    return cause if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) and is_network else error


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL (of `fsspec`), with an empty cache, and the path in it."""
    with reaching(url):
        from fsspec.core import url_to_fs  # slow to import

        files, path = url_to_fs(url)
        files.invalidate_cache()
        files.auto_mkdir = True  # for file://, since only a disk needs folders
        return files, path.rstrip("/")


def stamp(url: str) -> tuple[int, str]:
    """The size of the file at a URL, and a hash or time that tells its versions apart, if the file system has one."""
    files, path = file_system(url)
    with reaching(url):
        info = files.info(path)
    if info["type"] == "directory":
        raise DataError(f"{url} is a folder; name a file in it, such as {url.rstrip('/')}/train.tsv.")
    versions = [str(info[tag]) for tag in TAGS if info.get(tag)]
    return info["size"] or 0, versions[0] if versions else ""


def file_stamp(file: str | Path) -> tuple[int, int | str]:
    """Size of a file and the time of its last change, or the version of one at a URL. Zeros if there is no file."""
    if isinstance(file, str) and is_url(file):
        return stamp(file)
    with suppress(OSError):
        status = os.stat(file)
        return status.st_size, status.st_mtime_ns
    return 0, 0
