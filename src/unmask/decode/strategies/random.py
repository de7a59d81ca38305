"""Accept k candidates drawn at random: the order a model is trained on, and a baseline.

Source: MDLM, arXiv:2406.07524, ancestral sampling unmasks positions independently of confidence.
"""

import torch

from unmask.core.sampling import uniform
from unmask.decode.strategy import Decision, Proposal, Strategy, best


class Random(Strategy):
    """Numbers are a hash of seed, position and step, so the batch does not matter."""

    def select(self, proposal: Proposal) -> Decision:
        """Draw without looking at confidence."""
        shape = proposal.positions_BS.shape
        words = (proposal.seed_B[:, None], proposal.positions_BS, proposal.step_B[:, None])
        seed, position, step = (torch.broadcast_to(word, shape).flatten() for word in words)
        draw_BS = uniform(seed, position, step, 1).view(shape)
        return Decision(best(draw_BS, proposal.is_candidate_BS, self.options.k))


plugin = Random
