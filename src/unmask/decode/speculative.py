"""Speculative mode: the model drafts tokens as a denoiser and verifies them as the AR model it is.

One cycle is two forwards and never makes less than AR would:
1. [last token | c masks]: the token's own state says the next token exactly, as in AR mode, and
   commits it; the masks say c drafts of those after it.
2. [that token, c drafts], all clean: each state says exactly what comes next. The drafts that agree
   are kept, and one token more: the first that a draft missed.

So n good drafts make n + 2 tokens. What is kept is what AR mode would have said, token for token:
greedy, and when drawing too, because a place draws with the same random numbers in both
(`core.sampling`). Without drafts a cycle is one round of AR mode.

Needs a model whose committed text is causal. Two-forward cycle: ours; drafting and verifying with
one model: self-speculative decoding, arXiv:2309.08168.
"""

from time import perf_counter

import torch
from torch import Tensor

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.sampling import sample
from unmask.decode.autoregressive import ar_config
from unmask.decode.draft_length import DraftLength
from unmask.decode.engine import Engine, Sequence
from unmask.decode.options import DecodeOptions
from unmask.decode.policies.block import BlockPolicy
from unmask.decode.propose import make_warmth
from unmask.decode.strategy import make_strategy
from unmask.errors import ModelError


class SpeculativeEngine(Engine):
    """Decodes requests to their end, faster than AR mode where drafts hold.

    Args:
        backbone, config: the model, causal in what is committed.
        draft_length: how many tokens to draft.
        rows, max_len: as in `Engine`.
    """

    def __init__(
        self,
        backbone: Backbone,
        config: DiffusionConfig,
        draft_length: DraftLength,
        *,
        rows: int,
        max_len: int,
    ) -> None:
        super().__init__(
            backbone,
            ar_config(config.embedding_rows, config.mask_token_id),
            BlockPolicy(),
            make_strategy(DecodeOptions()),
            rows=rows,
            max_len=max_len + draft_length.longest,
        )
        self.draft_length = draft_length

    @torch.inference_mode()
    def step(self) -> list[Sequence]:
        """One cycle over all active rows; returns the sequences that it finished."""
        if self._admit_waiting():
            done = self._retire()
            if done:
                return done
        rows_B = torch.arange(self.canvas.active)
        count = self.draft_length.choose(len(rows_B), self._most_useful(rows_B))
        self._draft(rows_B, count)
        rows_B = rows_B[~self.canvas.is_finished_B(rows_B)]
        if count and len(rows_B):
            self._verify(rows_B, count)
        return self._retire()

    def _most_useful(self, rows_B: Tensor) -> int:
        """Drafts past the answer's end, or past the last position, are for nothing."""
        canvas = self.canvas
        start_B, end_B = canvas.start_N[rows_B], canvas.end_N[rows_B]
        room = int((self.forward.backbone.max_positions - 1 - start_B).min())
        return max(0, min(int((end_B - start_B).max()) - 2, room))

    def _draft(self, rows_B: Tensor, count: int) -> None:
        """Commit the last token, decide the next one, draft `count` more."""
        tokens_BQ, confidence_BQ = self._read(rows_B, count, kind=1 if count else 2, masks=count)
        self._keep(rows_B, tokens_BQ, confidence_BQ, torch.zeros(len(rows_B), dtype=torch.long))
        positions_BK = self.canvas.start_N[rows_B, None] + 1 + torch.arange(count)
        self.canvas.tokens_NL[rows_B[:, None], positions_BK] = tokens_BQ[:, 1:]

    def _verify(self, rows_B: Tensor, count: int) -> None:
        """Commit the last token and the drafts that hold, decide one more."""
        positions_BK = self.canvas.start_N[rows_B, None] + 1 + torch.arange(count)
        drafts_BK = self.canvas.tokens_NL[rows_B[:, None], positions_BK]
        tokens_BQ, confidence_BQ = self._read(rows_B, count, kind=2)
        held_B = (drafts_BK == tokens_BQ[:, :-1]).long().cumprod(1).sum(1)
        self.draft_length.saw_drafts(held_B.tolist(), count)
        self.canvas.tokens_NL[rows_B[:, None], positions_BK] = self.canvas.mask_token_id
        self._keep(rows_B, tokens_BQ, confidence_BQ, held_B)

    def _read(
        self, rows_B: Tensor, count: int, *, kind: int, masks: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Tokens and confidence, (B, 1 + count), of the places behind the last token and on."""
        canvas, started = self.canvas, perf_counter()
        first_B, width = canvas.start_N[rows_B], 1 + count
        canvas.forwards_N3[rows_B, kind] += 1
        hidden_BQE = self.forward.hidden_BQE(rows_B, first_B, width, first_B + width, masks=masks)
        logits_MV = self.forward.backbone.logits(hidden_BQE.flatten(0, 1))
        positions_BQ = first_B[:, None] + 1 + torch.arange(width)
        rows_M = rows_B.repeat_interleave(width)
        warmth = make_warmth(canvas, rows_M, positions_BQ.flatten(), logits_MV.device)
        table = torch.stack([each.double() for each in sample(logits_MV, warmth)]).cpu()
        if bool(table[1].isnan().any()):
            raise ModelError(self.forward.backbone.explain_nan())
        self.draft_length.saw_forward(len(rows_B), width, perf_counter() - started)
        tokens_M, confidence_M = table
        return tokens_M.long().view(-1, width), confidence_M.float().view(-1, width)

    def _keep(
        self, rows_B: Tensor, tokens_BQ: Tensor, confidence_BQ: Tensor, held_B: Tensor
    ) -> None:
        """Fix 1 + held tokens behind the last one; all but the newest are committed with it."""
        canvas = self.canvas
        b, q = (torch.arange(tokens_BQ.shape[1]) <= held_B[:, None]).nonzero(as_tuple=True)
        rows_M = rows_B[b]
        canvas.settle(rows_M, canvas.start_N[rows_M] + 1 + q, tokens_BQ[b, q], confidence_BQ[b, q])
        canvas.commit(rows_B, 1 + held_B)
        self._ask_stops(rows_B)
