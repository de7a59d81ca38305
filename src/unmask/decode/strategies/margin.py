"""Accept where the best token leads the second by enough, and always the clearest lead.

Source: Kim et al., arXiv:2502.06768 (top probability margin).
"""

from torch import Tensor

from unmask.decode.strategy import Decision, Proposal, Strategy, best, top_two


class Margin(Strategy):
    """Accept p1 - p2 > threshold."""

    def measure(self, logits_MV: Tensor, last_MV: Tensor | None) -> Tensor:
        """Lead of the most probable token over the second, in probability."""
        first_M, second_M = top_two(logits_MV)
        total_M = logits_MV.logsumexp(-1)
        return (first_M - total_M).exp() - (second_M - total_M).exp()

    def select(self, proposal: Proposal) -> Decision:
        """Ties for the clearest lead go to the leftmost."""
        is_clear_BS = proposal.measure_BS > self.options.threshold
        one_BS = best(proposal.measure_BS, proposal.is_candidate_BS)
        return Decision(proposal.is_candidate_BS & is_clear_BS | one_BS)


plugin = Margin
