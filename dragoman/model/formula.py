"""Formulas of the model, for each of which there may be faster ways to compute the same.

`dragoman.model.fast` has such ways, and its `__init__.py` lists them; without it the formulas compute everything.
"""

import functools
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Way(NamedTuple):
    """A faster way to compute a formula."""

    takes: Callable[..., bool]
    """Whether it can compute these arguments, and is worth it."""
    compute: Callable[..., Any]


class Formula(Generic[Given, Result]):
    """A function that is computed by the first of its `ways` that takes the arguments, or else by `plain`.

    `plain` is the function as it is written; tests compare each way with it.
    """

    def __init__(self, plain: Callable[Given, Result]):
        self.plain = plain
        self.ways: tuple[Way, ...] = ()
        functools.update_wrapper(self, plain)

    def __call__(self, *arguments: Given.args, **options: Given.kwargs) -> Result:
        for way in self.ways:
            if way.takes(*arguments, **options):
                return way.compute(*arguments, **options)
        return self.plain(*arguments, **options)

    def __reduce__(self) -> str:
        """Pickled or copied by name, so that copies of a model use the same formula."""
        return self.plain.__qualname__
