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
        """From the first token to the last that is seen."""
        until_B = canvas.seen_until_B(rows_B)
        return Spans(torch.zeros_like(until_B), until_B)


plugin = NoCache
