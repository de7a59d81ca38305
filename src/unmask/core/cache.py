"""`BlockCache`: one preallocated slab per layer, rows of any length. Knows no policy.

Keys and values are written in place at their absolute position: committed history first, the open
block right behind it. What of it a forward may see is up to its attention mask.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


def write_columns(slab: Tensor, states: Tensor, rows_B: Tensor, columns_BQ: Tensor) -> None:
    """Write (B, H, Q, D) into (N, H, max_len, D) at rows and columns."""
    slab[rows_B[:, None], :, columns_BQ] = states.transpose(1, 2)


def read_window(slab: Tensor, rows_B: Tensor, window: int, *, is_leading: bool) -> Tensor:
    """(B, H, window, D): columns [0, window) of the rows; a view if they are the leading ones."""
    if is_leading:
        return slab[: len(rows_B), :, :window]
    return slab[rows_B, :, :window]


class SlabLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer, (N, H, max_len, D) each, made when the first ones arrive."""

    def __init__(self, owner: "BlockCache") -> None:
        super().__init__()
        self.owner = owner

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate both slabs; zeros, so that a masked column never carries a NaN."""
        _, heads, _, width = key_states.shape
        shape = (self.owner.rows, heads, self.owner.max_len, width)
        self.keys = key_states.new_zeros(shape)
        self.values = value_states.new_zeros((*shape[:3], value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write (B, H, Q, D) at the owner's rows and positions; return all keys in the window."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        owner = self.owner
        write_columns(self.keys, key_states, owner.rows_B, owner.columns_BQ)
        write_columns(self.values, value_states, owner.rows_B, owner.columns_BQ)
        return self._window(self.keys), self._window(self.values)

    def _window(self, slab: Tensor) -> Tensor:
        owner = self.owner
        return read_window(slab, owner.rows_B, owner.window, is_leading=owner.rows_are_leading)

    def get_seq_length(self) -> int:
        """0: positions are always passed to the model, never counted by the cache."""
        return 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Number of keys the next forward sees, and their offset."""
        return self.owner.window, 0

    def get_max_length(self) -> int:
        """Columns of the slab."""
        return self.owner.max_len


class BlockCache(Cache):  # type: ignore[misc]
    """The slabs of all layers.

    Args:
        layers: number of attention layers of the model.
        rows: how many sequences fit side by side.
        max_len: how many tokens each may hold, the open block included.
    """

    def __init__(self, layers: int, rows: int, max_len: int) -> None:
        self.rows, self.max_len = rows, max_len
        super().__init__(layers=[SlabLayer(self) for _ in range(layers)])

    def aim(self, rows_B: Tensor, columns_BQ: Tensor, window: int, device: torch.device) -> None:
        """Say where the next forward writes, and how many columns it sees.

        Args:
            rows_B: slab rows, int64 on the CPU.
            columns_BQ: absolute positions, int64 on the CPU.
            window: columns [0, window) are returned as keys.
            device: where the model computes.
        """
        assert window <= self.max_len, f"window {window} exceeds the slab of {self.max_len}"
        self.rows_are_leading = bool((rows_B == torch.arange(len(rows_B))).all())
        self.rows_B, self.columns_BQ = rows_B.to(device), columns_BQ.to(device)
        self.window = window

    def move_row(self, source: int, target: int) -> None:
        """Copy row `source` over row `target`, so that a finished row leaves no hole."""
        for layer in self.layers:
            if layer.is_initialized:
                layer.keys[target] = layer.keys[source]
                layer.values[target] = layer.values[source]
