"""Optional libraries: imported where they are needed. A missing one is reported with the command that installs it."""

from importlib import import_module
from types import ModuleType

from dragoman.errors import ResourceError


def load(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module that the extra `extra` installs; `purpose` begins the error message if it is missing."""
    try:
        return import_module(module)
    except ImportError:
        raise ResourceError(f'{purpose} needs another library; type: pip install "dragoman[{extra}]"') from None
