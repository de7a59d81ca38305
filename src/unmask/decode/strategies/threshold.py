"""Accept what is confident enough, and always the most confident.

Source: Fast-dLLM, arXiv:2505.22618, confidence-aware parallel decoding; used by Fast-dLLM v2.
"""

import torch
from torch import Tensor

from unmask.decode.options import DecodeOptions
from unmask.decode.strategy import Proposal


class Threshold:
    """Accept p > threshold. The comparison is strict, so 1 accepts one token a step."""

    def __init__(self, options: DecodeOptions) -> None:
        self.threshold = options.threshold

    def select(self, proposal: Proposal) -> Tensor:
        """(B, S) bool; ties for the most confident go to the leftmost."""
        confidence_BS = proposal.confidence_BS.masked_fill(~proposal.is_candidate_BS, -1.0)
        best_BS = torch.zeros_like(proposal.is_candidate_BS)
        best_BS.scatter_(1, confidence_BS.argmax(1, keepdim=True), True)
        return proposal.is_candidate_BS & ((confidence_BS > self.threshold) | best_BS)


plugin = Threshold
