"""Accept the k most confident: a fixed number of steps, whatever the model thinks.

Source: LLaDA, arXiv:2502.09992, low-confidence remasking with a linear schedule.
"""

from typing import ClassVar

from unmask.decode.strategy import Decision, Knob, Proposal, Strategy, best


class TopK(Strategy):
    """k tokens a step, fewer where fewer are hidden."""

    knob: ClassVar[Knob | None] = "k"

    def select(self, proposal: Proposal) -> Decision:
        """Ties go to the leftmost."""
        confidence_BS, is_candidate_BS = proposal.confidence_BS, proposal.is_candidate_BS
        return Decision(best(confidence_BS, is_candidate_BS, self.options.k))


plugin = TopK
