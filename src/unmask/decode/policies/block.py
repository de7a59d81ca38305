"""Block cache: committed blocks are read from the cache, the open block is computed anew. Exact.

Source: Fast-dLLM v2, arXiv:2509.26328 (block-level cache).
"""

import torch
from torch import Tensor

from unmask.core.canvas import Canvas
from unmask.decode.policy import Spans


class BlockPolicy:
    """Exact: what is cached cannot change."""

    uses_cache = True
    covers_block = True

    def plan(self, canvas: Canvas, rows_B: Tensor, is_full_B: Tensor, read_offset: int) -> Spans:
        """The open block."""
        start_B = canvas.start_N[rows_B]
        return Spans(start_B, torch.full_like(start_B, canvas.block_size))


plugin = BlockPolicy
