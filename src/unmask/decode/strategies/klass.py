"""Accept what is confident and has stopped moving.

1. A prediction is stable at a step if its distribution moved by less than KL_BOUND since the last.
2. Accept what is more confident than the threshold and was stable STEPS times in a row.
3. Nothing is: accept the most confident.

Source: KLASS, arXiv:2511.05664 (KL-adaptive stability sampling); constants are the defaults of the
authors' code.
"""

import torch
from torch import Tensor

from unmask.decode.strategy import Decision, Proposal, Strategy, best

KL_BOUND = 0.01
STEPS = 2


class Klass(Strategy):
    """Remembers for how many steps each position has been stable."""

    keeps_logits = True

    def measure(self, logits_MV: Tensor, last_MV: Tensor | None) -> Tensor:
        """KL(now ‖ the step before) in nats; infinite where there was no step before."""
        assert last_MV is not None, "the engine keeps logits for a strategy that asks"
        now_MV = logits_MV.log_softmax(-1)
        change_MV = now_MV - last_MV.log_softmax(-1)
        change_MV = change_MV.masked_fill(now_MV == float("-inf"), 0.0)  # forbidden tokens
        return (now_MV.exp() * change_MV).sum(-1).nan_to_num(nan=float("inf"))

    def select(self, proposal: Proposal) -> Decision:
        """Confident, stable, or else the best."""
        is_candidate_BS = proposal.is_candidate_BS
        is_stable_BS = is_candidate_BS & (proposal.measure_BS < KL_BOUND)
        stable_BS = torch.where(is_stable_BS, proposal.memory_BS + 1, 0.0)
        is_sure_BS = proposal.confidence_BS > self.options.threshold
        ready_BS = is_candidate_BS & is_sure_BS & (stable_BS >= STEPS)
        one_BS = best(proposal.confidence_BS, is_candidate_BS)
        accept_BS = torch.where(ready_BS.any(-1, keepdim=True), ready_BS, one_BS)
        return Decision(accept_BS, memory_BS=stable_BS)


plugin = Klass
