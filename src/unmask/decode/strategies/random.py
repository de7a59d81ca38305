"""Accept k candidates drawn at random: the order a model is trained on, and a baseline.

Source: MDLM, arXiv:2406.07524, ancestral sampling unmasks positions independently of confidence.
"""

from typing import ClassVar

import torch

from unmask.core.sampling import uniform
from unmask.decode.strategy import Decision, Knob, Proposal, Strategy, best

SALT = 0x5DEECE66D
"""Or the order would be drawn with the numbers that draw the tokens."""


class Random(Strategy):
    """Numbers are a hash of seed, position and step, so the batch does not matter."""

    knob: ClassVar[Knob | None] = "k"

    def select(self, proposal: Proposal) -> Decision:
        """Draw without looking at confidence."""
        shape = proposal.positions_BS.shape
        words = (proposal.seed_B[:, None] ^ SALT, proposal.positions_BS, proposal.step_B[:, None])
        seed, position, step = (torch.broadcast_to(word, shape).flatten() for word in words)
        draw_BS = uniform(seed, position, step, 1).view(shape)
        return Decision(best(draw_BS, proposal.is_candidate_BS, self.options.k))


plugin = Random
