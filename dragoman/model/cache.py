"""Keys and values that decoding has computed, so that each step computes those of its new tokens alone."""

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.kernels import Keys


class KeyValueCache:
    """The keys and values that self-attention has seen, for rows that are decoded step by step."""

    def __init__(self):
        self.length = 0
        # (capacity, rows, heads, width): a new position is one piece of memory, and so are those up to any position.
        self._key: Tensor | None = None
        self._value: Tensor | None = None

    def append(self, key: Keys, value: Keys) -> tuple[Tensor, Tensor]:
        """Add new positions; return all of them."""
        start, self.length = self.length, self.length + key.size(2)
        if self._key is None or self.length > self._key.size(0):
            # Doubling: appending one position at a time copies each old one about once.
            capacity = max(16, 2 * self.length)
            self._key, self._value = (
                self._with_room(old, new, capacity) for old, new in ((self._key, key), (self._value, value))
            )
        self._key[start : self.length] = key.permute(2, 0, 1, 3)
        self._value[start : self.length] = value.permute(2, 0, 1, 3)
        return self._key[: self.length].permute(1, 2, 0, 3), self._value[: self.length].permute(1, 2, 0, 3)

    @staticmethod
    def _with_room(old: Tensor | None, new: Keys, capacity: int) -> Tensor:
        rows, heads, _, width = new.shape
        grown = new.new_empty(capacity, rows, heads, width)
        if old is not None:
            grown[: len(old)] = old
        return grown

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep these rows, in this order; a row may be kept several times."""
        if self._key is not None:
            self._key, self._value = (self._kept(store, rows) for store in (self._key, self._value))

    def _kept(self, store: Tensor, rows: Tensor) -> Tensor:
        kept = store.new_empty(len(store), len(rows), *store.shape[2:])
        torch.index_select(store[: self.length], 1, rows, out=kept[: self.length])
        return kept


class MemoryCache:
    """The keys and values of a memory, which do not change while the target is decoded."""

    def __init__(self):
        self.contents: tuple[Tensor, Tensor] | None = None

    def fill(self, key: Keys, value: Keys) -> tuple[Tensor, Tensor]:
        """Store both as contiguous tensors, which the products of later steps read without a copy; return them."""
        self.contents = key.contiguous(), value.contiguous()
        return self.contents

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep these rows, in this order."""
        if self.contents is not None:
            key, value = self.contents
            self.contents = key.index_select(0, rows), value.index_select(0, rows)


class LayerCache:
    """The caches of both attentions of one decoder layer."""

    def __init__(self):
        self.self_attention, self.cross_attention = KeyValueCache(), MemoryCache()


class DecoderCache:
    """What decoding has computed so far: for each layer the keys and values of the target and of the memory."""

    def __init__(self, num_layers: int):
        self.layers = [LayerCache() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.layers[0].self_attention.length

    def reorder(self, rows: Int[Tensor, " kept"], memory_rows: Int[Tensor, " groups"] | None = None) -> None:
        """Keep these target rows and, where given, these rows of the memory."""
        for layer in self.layers:
            layer.self_attention.reorder(rows)
            if memory_rows is not None:
                layer.cross_attention.reorder(memory_rows)
