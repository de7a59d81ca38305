"""Decoder layers on a CPU through torch.compile: one is compiled, all layers like it run that code.

1. A layer gets its slabs and where to write as arguments: nothing compiled knows which layer it is.
2. Sizes are dynamic: one row or several, one query or several, all rows or some of them make
   variants of their own. They are compiled when first met, and kept on disk by torch.
3. A forward that makes the slabs, or has another cache, is not compiled.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.fx.experimental._config
from torch import Tensor, nn

from unmask.core.cache import BlockCache, read_window, write_columns
from unmask.errors import ModelError

VARIANTS = 64
"""Most variants to compile, over all kinds of layers; more is an error."""


class _Slot:
    """What a compiled layer sees of a cache."""

    def __init__(self, keys: Tensor, values: Tensor, where: tuple[Any, ...]) -> None:
        self.keys, self.values, self.where = keys, values, where

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the states, return all keys and values in the window."""
        rows_B, columns_BQ, window, is_leading = self.where
        for slab, states in ((self.keys, key_states), (self.values, value_states)):
            write_columns(slab, states, rows_B, columns_BQ)
        keys = read_window(self.keys, rows_B, window, is_leading=is_leading)
        return keys, read_window(self.values, rows_B, window, is_leading=is_leading)


def _run_layer(
    layer: nn.Module, hidden: Tensor, keys: Tensor, values: Tensor, where: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:  # fmt: skip
    return type(layer).forward(layer, hidden, cache=_Slot(keys, values, where), **options)


def compile_layers(layers: Sequence[nn.Module]) -> None:
    """From now on the layers run compiled when they are given a `BlockCache`."""
    # Sizes that happen to be equal, rows and queries say, are not the same size the next time.
    torch.fx.experimental._config.use_duck_shape = False
    torch._dynamo.config.recompile_limit = VARIANTS
    options: dict[str, Any] = {"cpp_wrapper": True}  # calls of kernels in C++ too
    run = torch.compile(_run_layer, dynamic=True, fullgraph=True, options=options)
    for index, layer in enumerate(layers):
        layer.forward = partial(_forward, layer, index, run)


def _forward(
    layer: nn.Module, index: int, run: Callable[..., Any], hidden: Tensor, *args: Any,
    cache: Any = None, **options: Any,
) -> Any:  # fmt: skip
    if args:
        raise ModelError(f"--compile does not support {type(layer).__name__}; leave it out")
    if not isinstance(cache, BlockCache) or not cache.layers[index].is_initialized:
        return type(layer).forward(layer, hidden, cache=cache, **options)
    slab = cache.layers[index]
    where = (cache.rows_B, cache.columns_BQ, cache.window, cache.rows_are_leading)
    return run(layer, hidden, slab.keys, slab.values, where, options)
