"""From hidden states to accepted tokens: head, sampling, strategy. One host sync a step.

1. Candidates: hidden tokens in the strategy's scope whose hidden state was just computed.
2. The head runs at them (and at what may be revoked), nowhere else.
3. Sample; confidence in float32; the strategy's own measure.
4. One copy to the host; the strategy decides; the canvas is told.
"""

import torch
from torch import Tensor

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.canvas import Canvas
from unmask.core.sampling import Warmth, confidence, sample
from unmask.decode.strategy import Proposal, Strategy
from unmask.errors import ModelError


class Proposer:
    """Decides what it can from each forward."""

    def __init__(
        self, backbone: Backbone, config: DiffusionConfig, canvas: Canvas, strategy: Strategy
    ) -> None:
        self.backbone, self.config, self.canvas = backbone, config, canvas
        self.strategy = strategy
        self._last_NSV: Tensor | None = None

    def decide(
        self, rows_B: Tensor, first_B: Tensor, hidden_BQE: Tensor, is_step_B: Tensor
    ) -> Tensor:
        """Accept tokens from the hidden states of [first, first + Q).

        Args:
            rows_B: canvas rows.
            first_B: where each row's hidden states start.
            hidden_BQE: they themselves.
            is_step_B: the forward was a denoising step, so that the strategy's memory moves on.

        Returns:
            (B,) bool: rows where something was accepted.
        """
        canvas = self.canvas
        positions_BS = canvas.block_positions_BS(rows_B)
        read_BS = positions_BS - self.config.read_offset - first_B[:, None]
        is_at_hand_BS = (read_BS >= 0) & (read_BS < hidden_BQE.shape[1])
        is_candidate_BS = self._candidates_BS(rows_B, positions_BS) & is_at_hand_BS
        is_revocable_BS = torch.zeros_like(is_candidate_BS)
        if self.strategy.revokes:
            is_revocable_BS = self._revocable_BS(rows_B, positions_BS) & is_at_hand_BS
        has_candidate_B = is_candidate_BS.any(-1)
        if not bool(has_candidate_B.any()):
            return has_candidate_B
        b, s = (is_candidate_BS | is_revocable_BS).nonzero(as_tuple=True)
        logits_MV = self.backbone.logits(hidden_BQE[b, read_BS[b, s]])
        columns = self._draw(logits_MV, rows_B[b], s, positions_BS[b, s], is_revocable_BS[b, s])
        tokens_BS, confidence_BS, measure_BS = (
            torch.zeros(read_BS.shape, dtype=column.dtype).index_put((b, s), column)
            for column in columns
        )
        proposal = Proposal(
            tokens_BS=tokens_BS, confidence_BS=confidence_BS, measure_BS=measure_BS,
            is_candidate_BS=is_candidate_BS, is_revocable_BS=is_revocable_BS,
            memory_BS=canvas.memory_NS[rows_B], positions_BS=positions_BS,
            step_B=canvas.step_N[rows_B], seed_B=canvas.seed_N[rows_B],
        )  # fmt: skip
        self._carry_out(rows_B, proposal, is_step_B & has_candidate_B)
        return has_candidate_B

    def _carry_out(self, rows_B: Tensor, proposal: Proposal, moves_B: Tensor) -> None:
        canvas, decision = self.canvas, self.strategy.select(proposal)
        if decision.memory_BS is not None:
            canvas.memory_NS[rows_B[moves_B]] = decision.memory_BS[moves_B]
        if decision.revoke_BS is not None:
            canvas.revoke(rows_B, decision.revoke_BS)
        accept_BS = decision.accept_BS
        if self.config.carries_start:  # a block's first token: its state is at hand only now
            is_first_BS = proposal.positions_BS == canvas.start_N[rows_B, None]
            accept_BS = accept_BS | (proposal.is_candidate_BS & is_first_BS)
        canvas.accept(rows_B, accept_BS, proposal.tokens_BS, proposal.confidence_BS)

    def _candidates_BS(self, rows_B: Tensor, positions_BS: Tensor) -> Tensor:
        """What may be decided now: of the leftmost unfinished sub-block, or of the whole block."""
        todo_BS = self.canvas.todo_BS(rows_B)
        if self.strategy.scope == "block":
            return todo_BS
        past_B = self.canvas.sub_block_start_B(rows_B) + self.canvas.sub_block_size
        return todo_BS & (positions_BS < past_B[:, None])

    def _revocable_BS(self, rows_B: Tensor, positions_BS: Tensor) -> Tensor:
        """Decided by denoising, in the active sub-block, in a row whose end is still open."""
        canvas = self.canvas
        start_B = canvas.sub_block_start_B(rows_B)
        first_B1 = torch.maximum(start_B, canvas.prompt_N[rows_B])[:, None]
        past_B1 = torch.minimum(start_B + canvas.sub_block_size, canvas.end_N[rows_B])[:, None]
        is_decided_BS = ~canvas.is_masked_NL[rows_B[:, None], positions_BS]
        is_decided_BS &= (positions_BS >= first_B1) & (positions_BS < past_B1)
        if self.config.carries_start:  # the block's first token was read from a clean state
            is_decided_BS &= positions_BS != canvas.start_N[rows_B, None]
        return is_decided_BS & ~canvas.is_stopped_N[rows_B, None]

    def _draw(
        self, logits_MV: Tensor, rows_M: Tensor, s_M: Tensor, positions_M: Tensor,
        stands_M: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Tokens, confidence and measure on the host; where a token stands, it is the token."""
        drawn_M, confidence_M = sample(
            logits_MV, make_warmth(self.canvas, rows_M, positions_M, logits_MV.device)
        )
        if self.strategy.revokes:
            standing_M = self.canvas.tokens_NL[rows_M, positions_M].to(drawn_M.device)
            drawn_M = torch.where(stands_M.to(drawn_M.device), standing_M, drawn_M)
            confidence_M = confidence(logits_MV, drawn_M)
        measure_M = self.strategy.measure(logits_MV, self._last(logits_MV, rows_M, s_M))
        columns = [drawn_M, confidence_M, *([] if measure_M is None else [measure_M])]
        table = torch.stack([column.double() for column in columns]).cpu()  # the one sync
        if bool(table[1].isnan().any()):
            raise ModelError(self.backbone.explain_nan())
        measure_M = torch.zeros(len(rows_M)) if measure_M is None else table[2].float()
        return table[0].long(), table[1].float(), measure_M

    def _last(self, logits_MV: Tensor, rows_M: Tensor, s_M: Tensor) -> Tensor | None:
        """Logits of the step before at these places; those of now are kept in their stead."""
        if not self.strategy.keeps_logits:
            return None
        if self._last_NSV is None:
            rows, size = self.canvas.memory_NS.shape
            self._last_NSV = logits_MV.new_full((rows, size, logits_MV.shape[1]), float("nan"))
        self._last_NSV[rows_M[self.canvas.step_N[rows_M] == 0]] = float("nan")
        last_MV = self._last_NSV[rows_M, s_M]
        self._last_NSV[rows_M, s_M] = logits_MV
        return last_MV

    def move_row(self, source: int, target: int) -> None:
        """Row `source` is now called `target`."""
        if self._last_NSV is not None:
            self._last_NSV[target] = self._last_NSV[source]


def make_warmth(
    canvas: Canvas, rows_M: Tensor, positions_M: Tensor, device: torch.device
) -> Warmth | None:
    """How these positions draw; None where all take the most probable token."""
    if not bool((canvas.temperature_N[rows_M] > 0).any()):
        return None
    top_p_M = canvas.top_p_N[rows_M]
    return Warmth(
        canvas.temperature_N[rows_M].to(device),
        top_p_M.to(device) if bool((top_p_M < 1).any()) else None,
        canvas.seed_N[rows_M].to(device),
        positions_M.to(device),
        canvas.step_N[rows_M].to(device),
    )
