"""No cache: every forward computes everything. The slow oracle that the others are held against."""

import torch
from torch import Tensor

from unmask.core.canvas import Canvas
from unmask.decode.policy import Spans


class NoCache:
    """Exact by construction."""

    uses_cache = False
    covers_block = True

    def plan(self, canvas: Canvas, rows_B: Tensor, is_full_B: Tensor, read_offset: int) -> Spans:
        """From the first token to the end of the open block."""
        start_B = canvas.start_N[rows_B]
        return Spans(torch.zeros_like(start_B), start_B + canvas.block_size)


plugin = NoCache
