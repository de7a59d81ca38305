"""Sub-block cache: inside the open block too, only the active sub-block is computed anew.

The first step of a block computes it all; later steps compute the s hidden states that decide the
active sub-block, and read the rest of the block as it was. Approximate: keys and values of the
other sub-blocks are those of an earlier step.

Source: Fast-dLLM v2, arXiv:2509.26328 (sub-block DualCache). Ours: with token shift the s states
begin one before the sub-block, so its first token needs no refresh of the whole block.
"""

import torch
from torch import Tensor

from unmask.core.canvas import Canvas
from unmask.decode.policy import Spans


class DualPolicy:
    """Fewer queries a step than `block`, at some drift."""

    uses_cache = True
    covers_block = False

    def plan(self, canvas: Canvas, rows_B: Tensor, is_full_B: Tensor, read_offset: int) -> Spans:
        """The whole block at its first step and its commit, else the active sub-block."""
        start_B = canvas.start_N[rows_B]
        is_whole_B = is_full_B | (canvas.step_N[rows_B] == 0)
        sub_B = torch.maximum(start_B, canvas.sub_block_start_B(rows_B) - read_offset)
        size, sub_size = canvas.block_size, canvas.sub_block_size
        width_B = torch.where(is_whole_B, size, sub_size)
        return Spans(torch.where(is_whole_B, start_B, sub_B), width_B)


plugin = DualPolicy
