"""Explore slowly until the end of the certain stretch stands still; then decode that stretch fast.

1. Slow: accept the most confident. The stretch ends at the last candidate above LOW
   (at the most confident where there is none).
2. Its end moved by at most one place since the last step, or LONGEST steps have passed: go fast.
3. Fast: inside the stretch accept all above HIGH, or else the most confident, until it is full.

Source: SlowFast sampling, arXiv:2506.10848; constants as the paper gives them. Ours: one token a
step where the paper says top-k without naming k.
"""

from typing import ClassVar

import torch
from torch import Tensor

from unmask.decode.strategy import Decision, Knob, Proposal, Scope, Strategy, best

LOW, HIGH, LONGEST = 0.1, 0.85, 8
IN_STRETCH = -1.0
"""Memory: this at places of the stretch when fast; when slow, the number of slow steps so far at
the place where the stretch ended."""


class SlowFast(Strategy):
    """Looks at the whole block, so it needs a cache policy that computes all of it."""

    knob: ClassVar[Knob | None] = None
    scope: ClassVar[Scope] = "block"

    def select(self, proposal: Proposal) -> Decision:
        """Each row is in a stage of its own."""
        is_candidate_BS, confidence_BS = proposal.is_candidate_BS, proposal.confidence_BS
        stretch_BS = is_candidate_BS & (proposal.memory_BS == IN_STRETCH)
        is_fast_B1 = stretch_BS.any(-1, keepdim=True)
        sure_BS = stretch_BS & (confidence_BS > HIGH)
        fast_BS = torch.where(
            sure_BS.any(-1, keepdim=True), sure_BS, best(confidence_BS, stretch_BS)
        )
        slow_BS = best(confidence_BS, is_candidate_BS)
        memory_BS = torch.where(is_fast_B1, proposal.memory_BS, self._explore(proposal))
        return Decision(torch.where(is_fast_B1, fast_BS, slow_BS), memory_BS=memory_BS)

    def _explore(self, proposal: Proposal) -> Tensor:
        """Memory after a slow step."""
        place_S = torch.arange(proposal.memory_BS.shape[-1])
        is_certain_BS = proposal.is_candidate_BS & (proposal.confidence_BS > LOW)
        one_BS = best(proposal.confidence_BS, proposal.is_candidate_BS)
        ends_BS = torch.where(is_certain_BS.any(-1, keepdim=True), is_certain_BS, one_BS)
        end_B1 = torch.where(ends_BS, place_S, -1).amax(-1, keepdim=True)
        slow_B1 = proposal.memory_BS.amax(-1, keepdim=True).clamp_min(0)
        last_B1 = torch.where(slow_B1 > 0, proposal.memory_BS.argmax(-1, keepdim=True), -9)
        stands_B1 = ((end_B1 - last_B1).abs() <= 1) | (slow_B1 + 1 >= LONGEST)
        marked_BS = torch.where(place_S == end_B1, slow_B1 + 1, 0.0)
        return torch.where(stands_B1, torch.where(place_S <= end_B1, IN_STRETCH, 0.0), marked_BS)


plugin = SlowFast
