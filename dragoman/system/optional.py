"""Optional libraries: imported where they are needed; one that is missing is named with what installs it."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from dragoman.errors import ResourceError


def load(module: str, *, extra: str, purpose: str) -> ModuleType:
    """A module of a library that the extra `extra` installs; `purpose` begins the sentence for those without it."""
    try:
        return import_module(module)
    except ImportError:
        raise _missing(extra, purpose) from None


def require(module: str, *, extra: str, purpose: str) -> None:
    """The same for a library that is only needed later, and slow to import."""
    if find_spec(module) is None:
        raise _missing(extra, purpose)


def _missing(extra: str, purpose: str) -> ResourceError:
    return ResourceError(f'{purpose} needs another library; type: pip install "dragoman[{extra}]"')
