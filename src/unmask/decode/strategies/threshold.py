"""Accept what is confident enough, and always the most confident.

Source: Fast-dLLM, arXiv:2505.22618, confidence-aware parallel decoding; used by Fast-dLLM v2.
"""

from unmask.decode.strategy import Decision, Proposal, Strategy, best


class Threshold(Strategy):
    """Accept p > threshold. The comparison is strict, so 1 accepts one token a step."""

    def select(self, proposal: Proposal) -> Decision:
        """Ties for the most confident go to the leftmost."""
        is_sure_BS = proposal.confidence_BS > self.options.threshold
        one_BS = best(proposal.confidence_BS, proposal.is_candidate_BS)
        return Decision(proposal.is_candidate_BS & is_sure_BS | one_BS)


plugin = Threshold
