"""Optional libraries: imported where they are needed. A missing one is reported with the command that installs it."""

import os
from importlib import import_module, metadata
from types import ModuleType

from dragoman.errors import ResourceError, quoted

SILENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Variables that keep libraries from reporting to their makers, if they are set before the import."""


def load(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module that the extra `extra` installs; `purpose` begins the error message if it is missing."""
    for variable, value in SILENT.items():
        os.environ.setdefault(variable, value)
    try:
        return import_module(module)
    except ImportError:
        command = quoted("pip", "install", *(requirements(extra) or [module]))
        raise ResourceError(f"{purpose} needs another library; type: {command}") from None


def requirements(extra: str) -> list[str]:
    """The packages of an extra with the versions that they need, such as `h5py>=3.11`; none if it is not known here.

    The command that installs them is right however Dragoman was installed: from a clone, a wheel or Git.
    """
    try:
        from packaging.requirements import Requirement

        every = map(Requirement, metadata.requires("dragoman") or [])
    except (ImportError, metadata.PackageNotFoundError):  # a source tree without an installation
        return []
    found = []
    for each in every:
        # A marker that holds without an extra, too, is that of a package which is always needed.
        if each.marker and each.marker.evaluate({"extra": extra}) and not each.marker.evaluate({"extra": ""}):
            each.marker = None
            found.append(str(each))
    return found
