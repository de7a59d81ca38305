"""Accept one token at a time until the model has made up its mind; then everything at once.

The mind is made up when the lead of the best logit over the second, on average over the hidden
tokens of the block, reaches a bar that falls as the block fills up.

Source: Prophet, arXiv:2508.19982 (early commit decoding); bars and their steps are the defaults of
the authors' code. Ours: the block is the answer region, and progress is the share of it decided.
"""

from typing import ClassVar

import torch
from torch import Tensor

from unmask.decode.strategy import Decision, Knob, Proposal, Scope, Strategy, best, top_two

BARS = ((0.33, 7.5), (0.67, 5.0), (float("inf"), 2.5))
"""(progress below, lead in logits)."""


class Prophet(Strategy):
    """Looks at the whole block, so it needs a cache policy that computes all of it."""

    knob: ClassVar[Knob | None] = None
    scope: ClassVar[Scope] = "block"

    def measure(self, logits_MV: Tensor, last_MV: Tensor | None) -> Tensor:
        """Lead of the best logit over the second; at most 1e4, so that a mean stays finite."""
        first_M, second_M = top_two(logits_MV)
        return (first_M - second_M).clamp_max(1e4)

    def select(self, proposal: Proposal) -> Decision:
        """All or one."""
        is_candidate_BS = proposal.is_candidate_BS
        hidden_B1 = is_candidate_BS.sum(-1, keepdim=True)
        progress_B1 = 1 - hidden_B1 / is_candidate_BS.shape[-1]
        bar_B1 = torch.full_like(progress_B1, BARS[-1][1])
        for below, bar in reversed(BARS[:-1]):
            bar_B1 = torch.where(progress_B1 < below, bar, bar_B1)
        lead_B1 = (proposal.measure_BS * is_candidate_BS).sum(-1, keepdim=True) / hidden_B1
        one_BS = best(proposal.confidence_BS, is_candidate_BS)
        return Decision(torch.where(lead_B1 >= bar_B1, is_candidate_BS, one_BS))


plugin = Prophet
