"""Shapes of arrays in annotations, such as `Float[np.ndarray, "rows vocab"]`, as jaxtyping has them.

Where jaxtyping is not loaded, they mean the array alone: it would take a tenth of the time and of the memory that
translating a sentence takes. Tests load it first, and check shapes with it.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Int64, UInt64
else:

    class Bool:
        """An array of truth values."""

        def __class_getitem__(cls, array_and_shape: tuple[Any, str]) -> Any:
            return array_and_shape[0]

    class Float(Bool):
        """An array of numbers."""

    class Int(Bool):
        """An array of whole numbers."""

    class Int64(Bool):
        """An array of whole numbers of 64 bits."""

    class UInt64(Bool):
        """An array of whole numbers of 64 bits, without a sign."""


__all__ = ["Bool", "Float", "Int", "Int64", "UInt64"]
