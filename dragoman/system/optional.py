"""Import of optional libraries. A missing one is reported with the command that installs it."""

import os
import re
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from dragoman.errors import ResourceError, quoted

if TYPE_CHECKING:
    from packaging.markers import Marker

SILENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Variables that keep libraries from reporting to their makers, if they are set before the import."""


def settle_matplotlib() -> None:
    """Give matplotlib a temporary folder of its own if this user has no home to write to; before it is imported.

    Without a home, as in containers, it would fail, or warn of a folder that it makes itself.
    """
    import atexit
    import logging
    import shutil
    import tempfile

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~")
    if "MPLCONFIGDIR" not in os.environ and not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        folder = tempfile.mkdtemp(prefix="dragoman-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["MPLCONFIGDIR"] = folder


def is_installed(module: str) -> bool:
    """Whether a library is installed; it is not imported."""
    return find_spec(module) is not None


def load(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module that the extra `extra` installs; `purpose` begins the error message if it is missing."""
    for variable, value in SILENT.items():
        os.environ.setdefault(variable, value)
    try:
        return import_module(module)
    except ImportError:
        raise _missing(module, extra, purpose) from None


def require(module: str, *, extra: str, purpose: str) -> None:
    """Raise what `load` raises unless a module is installed; it is not imported."""
    if not is_installed(module):
        raise _missing(module, extra, purpose)


def _missing(module: str, extra: str, purpose: str) -> ResourceError:
    command = quoted("pip", "install", *(requirements(extra) or _always_needed(module) or [module]))
    return ResourceError(f"{purpose} needs another library; type: {command}")


def requirements(extra: str) -> list[str]:
    """The packages of an extra with the versions that they need, such as `h5py>=3.11`; none if it is not known here.

    The command that installs them is right however Dragoman was installed: from a clone, a wheel or Git.
    """
    # A package whose marker holds without the extra, too, is always needed.
    return [
        package
        for package, marker in _packages()
        if marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})
    ]


def _always_needed(module: str) -> list[str]:
    """The package of a module that everybody should have, with its version; none if there is none of this name."""
    names = {module.replace(".", "-"), module.split(".")[0]}
    return [
        package
        for package, marker in _packages()
        if re.split(r"[<>=\[]", package)[0].replace(".", "-") in names
        and (not marker or marker.evaluate({"extra": ""}))
    ]


def _packages() -> list[tuple[str, "Marker | None"]]:
    """The packages that this installation names, with their versions and the conditions under which each is needed."""
    from importlib import metadata

    try:
        from packaging.requirements import Requirement

        lines = metadata.requires("dragoman") or []
    except (ImportError, metadata.PackageNotFoundError):  # a source tree without an installation
        return []
    packages = []
    for requirement in map(Requirement, lines):
        marker, requirement.marker = requirement.marker, None
        packages.append((str(requirement), marker))
    return packages
