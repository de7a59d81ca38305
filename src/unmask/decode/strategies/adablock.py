"""Decode up to the end of a line rather than to a fixed place.

1. No stretch is open: it ends at the most confident proposed line end, if that is above LINE_END;
   else after as many tokens as a sub-block holds.
2. In the stretch accept above the threshold, and always the most confident, until it is full.

Source: AdaBlock-dLLM, arXiv:2509.26432; LINE_END is the authors' value for Dream, which reads with
token shift too. Ours: blocks stay on the trained grid, the stretch is a sub-block of any length.
"""

from typing import ClassVar

import torch
from torch import Tensor

from unmask.decode.strategy import Decision, Proposal, Scope, Strategy, best

LINE_END = 0.5


class AdaBlock(Strategy):
    """Looks at the whole block, so it needs a cache policy that computes all of it."""

    scope: ClassVar[Scope] = "block"

    def select(self, proposal: Proposal) -> Decision:
        """Remembers the open stretch."""
        stretch_BS = proposal.is_candidate_BS & (proposal.memory_BS > 0)
        is_open_B1 = stretch_BS.any(-1, keepdim=True)
        stretch_BS = torch.where(is_open_B1, stretch_BS, self._new_stretch(proposal))
        sure_BS = stretch_BS & (proposal.confidence_BS > self.options.threshold)
        accept_BS = sure_BS | best(proposal.confidence_BS, stretch_BS)
        return Decision(accept_BS, memory_BS=stretch_BS.to(torch.float32))

    def _new_stretch(self, proposal: Proposal) -> Tensor:
        is_candidate_BS = proposal.is_candidate_BS
        place_S = torch.arange(is_candidate_BS.shape[-1])
        ends = torch.tensor(sorted(self.delimiter_token_ids), dtype=torch.long)
        is_line_end_BS = is_candidate_BS & torch.isin(proposal.tokens_BS, ends)
        is_line_end_BS &= proposal.confidence_BS > LINE_END
        first_B1 = is_candidate_BS.int().argmax(-1, keepdim=True)
        size = self.options.sub_block_size or is_candidate_BS.shape[-1]
        line_BS = best(proposal.confidence_BS, is_line_end_BS)
        end_B1 = torch.where(
            line_BS.any(-1, keepdim=True), line_BS.int().argmax(-1, keepdim=True),
            first_B1 + size - 1,
        )  # fmt: skip
        return is_candidate_BS & (place_S <= end_B1)


plugin = AdaBlock
