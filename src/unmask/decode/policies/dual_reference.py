"""The reference code's sub-block cache, for comparison: refresh while the first token is hidden.

A step computes the whole block as long as the active sub-block's first token is hidden (with token
shift it is read from a state outside the sub-block), else the sub-block alone. Approximate.

Source: Fast-dLLM v2, arXiv:2509.26328, as its published code does it.
"""

import torch
from torch import Tensor

from unmask.core.canvas import Canvas
from unmask.decode.policy import Spans


class DualReference:
    """More whole-block forwards than `dual`, on fresher keys."""

    uses_cache = True
    covers_block = False

    def plan(self, canvas: Canvas, rows_B: Tensor, is_full_B: Tensor, read_offset: int) -> Spans:
        """The whole block, or the sub-block from its first token on."""
        start_B, sub_B = canvas.start_N[rows_B], canvas.sub_block_start_B(rows_B)
        is_whole_B = is_full_B | (canvas.step_N[rows_B] == 0) | canvas.is_masked_NL[rows_B, sub_B]
        width_B = torch.where(is_whole_B, canvas.block_size, canvas.sub_block_size)
        return Spans(torch.where(is_whole_B, start_B, sub_B), width_B)


plugin = DualReference
