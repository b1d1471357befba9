"""Optional libraries: imported where they are needed. A missing one is reported with the command that installs it."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from dragoman.errors import ResourceError


def load(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module that the extra `extra` installs; `purpose` begins the error message if it is missing."""
    try:
        return import_module(module)
    except ImportError:
        raise _missing(extra, purpose) from None


def require(module: str, *, extra: str, purpose: str) -> None:
    """Raise `ResourceError` unless a module is installed; for libraries that are needed later or slow to import."""
    if find_spec(module) is None:
        raise _missing(extra, purpose)


def _missing(extra: str, purpose: str) -> ResourceError:
    return ResourceError(f'{purpose} needs another library; type: pip install "dragoman[{extra}]"')
