"""Optional libraries: imported where they are needed. A missing one is reported with the command that installs it."""

import os
from importlib import import_module
from types import ModuleType

from dragoman.errors import ResourceError

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
        raise ResourceError(f'{purpose} needs another library; type: pip install "dragoman[{extra}]"') from None
