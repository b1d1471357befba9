"""Regular expressions that are compiled when they are first used."""

import re
from functools import cached_property
from typing import Any


class LazyPattern:
    """Stands for a compiled pattern, with the same methods.

    To compile the ranges of Chinese characters takes some milliseconds, and most texts never need them.
    """

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG):
        self._pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        # Kept, so that it is looked up once.
        method = self.__dict__[name] = getattr(self._compiled, name)
        return method
