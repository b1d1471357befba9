"""Formulas of the model for which there may be faster ways to compute the same.

`dragoman.model.fast` has such ways, and its `__init__.py` lists them; without it the formulas compute everything.
"""

import functools
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Way(NamedTuple):
    """A faster way: whether it takes some arguments, and what it makes of them."""

    takes: Callable[..., bool]
    compute: Callable[..., Any]


class Formula(Generic[Given, Result]):
    """A function that is computed by the first of its `ways` that takes the arguments, or else as it is written.

    `plain` is the function as it is written, with which tests compare each way.
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
        """Copies of a model, and models that are pickled, compute by the formula of this name."""
        return self.plain.__qualname__
