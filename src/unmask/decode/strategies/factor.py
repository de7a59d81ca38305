"""Accept the most tokens for which deciding them together is provably safe.

Sorted by falling confidence c_1 ≥ c_2 ≥ …, the first n are accepted, n the largest with
(n + 1)(1 - c_n) < factor; the first always.

Source: Fast-dLLM, arXiv:2505.22618, factor-based parallel decoding.
"""

from typing import ClassVar

from unmask.decode.strategy import Decision, Knob, Proposal, Strategy, rank


class Factor(Strategy):
    """More confident everywhere means more at once."""

    knob: ClassVar[Knob | None] = "factor"

    def select(self, proposal: Proposal) -> Decision:
        """The condition holds for a prefix: c_n falls as n + 1 grows."""
        place_BS = rank(proposal.confidence_BS, proposal.is_candidate_BS)
        risk_BS = (place_BS + 2) * (1 - proposal.confidence_BS)
        is_safe_BS = (risk_BS < self.options.factor) | (place_BS == 0)
        return Decision(proposal.is_candidate_BS & is_safe_BS)


plugin = Factor
