"""Optional libraries: imported where they are needed; one that is missing is named with what installs it."""

from importlib import import_module
from types import ModuleType

from dragoman.errors import ResourceError


def load(module: str, *, extra: str, purpose: str) -> ModuleType:
    """A module of a library that the extra `extra` installs; `purpose` begins the sentence for those without it."""
    try:
        return import_module(module)
    except ImportError:
        raise ResourceError(f'{purpose} needs another library; type: pip install "dragoman[{extra}]"') from None
