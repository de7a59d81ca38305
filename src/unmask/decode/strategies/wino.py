"""Accept widely, and take back what the fuller picture no longer supports.

1. Accept all above WIDE, at most 70 % of what is hidden (no fewer than 5, no more than 20); if none
   is, the most confident.
2. Hide again what earlier steps decided and is now less probable than the threshold; the least
   probable first, and fewer than the step before accepted. So a block takes at most S steps.

Source: WINO, arXiv:2507.18578 (wide-in, narrow-out); constants are those of the authors' code.
Differs: the paper verifies a token through an extra mask token that does not see it. Our open block
has no such tokens: a token is judged by the state that predicts it while it stands there, so fewer
are taken back.
"""

import torch

from unmask.decode.strategy import Decision, Proposal, Strategy, best

WIDE = 0.6


class Wino(Strategy):
    """Remembers what it accepted at the last step."""

    revokes = True

    def select(self, proposal: Proposal) -> Decision:
        """The threshold is the narrow bound; between WIDE and it, tokens are accepted on trial."""
        is_candidate_BS, confidence_BS = proposal.is_candidate_BS, proposal.confidence_BS
        hidden_B1 = is_candidate_BS.sum(-1, keepdim=True)
        most_B1 = (hidden_B1 * 0.7).long().clamp(5, 20)
        wide_BS = best(confidence_BS, is_candidate_BS & (confidence_BS > WIDE), most_B1)
        accept_BS = wide_BS | best(confidence_BS, is_candidate_BS)
        last_B1 = (proposal.memory_BS > 0).sum(-1, keepdim=True)
        is_doubtful_BS = proposal.is_revocable_BS & (confidence_BS < self.options.threshold)
        revoke_BS = best(-confidence_BS, is_doubtful_BS, (last_B1 - 1).clamp_min(0))
        revoke_BS = revoke_BS & (accept_BS.sum(-1, keepdim=True) > 1)
        return Decision(accept_BS, revoke_BS, accept_BS.to(torch.float32))


plugin = Wino
