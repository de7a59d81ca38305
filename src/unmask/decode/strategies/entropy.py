"""Accept the most tokens whose joint uncertainty is bounded.

Sorted by rising entropy, the longest prefix whose sum of entropies less its largest is at most
gamma: a bound on what is lost by taking them for independent.

Source: EB-Sampler, arXiv:2505.24857 (entropy-bounded unmasking).
"""

from typing import ClassVar

import torch
from torch import Tensor

from unmask.decode.strategy import Decision, Knob, Proposal, Strategy, rank


class Entropy(Strategy):
    """gamma is in nats; 0 is one token a step unless some are certain."""

    knob: ClassVar[Knob | None] = "gamma"

    def measure(self, logits_MV: Tensor, last_MV: Tensor | None) -> Tensor:
        """Entropy in nats."""
        log_MV = logits_MV.log_softmax(-1)
        return -(log_MV.exp() * log_MV.clamp_min(torch.finfo(log_MV.dtype).min)).sum(-1)

    def select(self, proposal: Proposal) -> Decision:
        """Sorted, the largest entropy of a prefix is its last."""
        place_BS = rank(-proposal.measure_BS, proposal.is_candidate_BS)
        entropy_BS = proposal.measure_BS.masked_fill(~proposal.is_candidate_BS, 0.0)
        sorted_BS = torch.zeros_like(entropy_BS).scatter(-1, place_BS, entropy_BS)
        loss_BS = (sorted_BS.cumsum(-1) - sorted_BS).gather(-1, place_BS)
        is_bounded_BS = (loss_BS <= self.options.gamma) | (place_BS == 0)
        return Decision(proposal.is_candidate_BS & is_bounded_BS)


plugin = Entropy
