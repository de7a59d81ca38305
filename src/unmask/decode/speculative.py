"""Speculative mode: the model drafts tokens as a denoiser and verifies them as the AR model it is.

One cycle is two forwards and never makes less than AR would:
1. [last token | c masks]: the token's own state says the next token exactly, as in AR mode, and
   commits it; the masks say c drafts of those after it.
2. [that token, c drafts], all clean: each state says exactly what comes next. The drafts that agree
   are kept, and one token more: the first that a draft missed.

So n good drafts make n + 2 tokens. Where drafts hold often, forward 2 has masks behind it as well:
[that token, c drafts | c masks]. If all drafts hold, those masks have drafted what comes next, and
the next cycle goes without forward 1; if not, they were for nothing.

What is kept is what AR mode would have said, token for token: greedy, and when drawing too, because
a place draws with the same random numbers in both (`core.sampling`). Without drafts a cycle is one
round of AR mode. Needs a model whose committed text is causal.

Drafting and verifying with one model: self-speculative decoding, arXiv:2309.08168. Both in one
forward: TiDAR, arXiv:2511.08923, which drafts behind every draft; behind the last alone: ours.
"""

from time import perf_counter

import torch
from torch import Tensor

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.sampling import sample
from unmask.decode.autoregressive import ar_config
from unmask.decode.draft_length import DraftLength
from unmask.decode.engine import Engine, Sequence, Snapshot
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
            max_len=max_len + 2 * draft_length.longest,
        )
        self.draft_length = draft_length

    @torch.inference_mode()
    def step(self) -> list[Sequence]:
        """One cycle over all active rows; returns the sequences that it finished."""
        if self._admit_waiting():
            done = self._retire()
            if done:
                return done
        canvas = self.canvas
        rows_B = torch.arange(canvas.active)
        draft = self.draft_length.choose(len(rows_B), self._most_useful(rows_B))
        lacking_B = rows_B[canvas.drafts_N[rows_B] == 0]
        if len(lacking_B):
            self._draft(lacking_B, draft.count)
        rows_B = rows_B[(canvas.drafts_N[rows_B] > 0) & ~canvas.is_finished_B(rows_B)]
        for drafts in torch.unique(canvas.drafts_N[rows_B]).tolist():
            group_B = rows_B[canvas.drafts_N[rows_B] == drafts]
            more = min(draft.count, self._most_useful(group_B) - drafts)
            self._verify(group_B, drafts, max(0, more) if draft.is_chained else 0)
        return self._retire()

    def snapshot(self, row: int) -> Snapshot:
        """The new tokens of an active row, drafts shown as they stand."""
        canvas = self.canvas
        prompt, start = int(canvas.prompt_N[row]), int(canvas.start_N[row])
        until = min(int(canvas.end_N[row]), start + 1 + int(canvas.drafts_N[row]))
        return Snapshot(
            tokens=canvas.tokens_NL[row, prompt:until].tolist(),
            is_masked=[False] * (until - prompt),
            committed=start - prompt,
            confidence=canvas.confidence_NL[row, prompt:until].tolist(),
        )

    def _most_useful(self, rows_B: Tensor) -> int:
        """How many drafts are of use to a drafting forward.

        Verifying c drafts says c + 1 tokens behind the one that the drafting forward says itself;
        none of them may lie past the answer's end, nor past the model's last position.
        """
        canvas = self.canvas
        start_B, end_B = canvas.start_N[rows_B], canvas.end_N[rows_B]
        room = int((self.forward.backbone.max_positions - 2 - start_B).min())
        return max(0, min(int((end_B - start_B).max()) - 3, room))

    def _draft(self, rows_B: Tensor, count: int) -> None:
        """Commit the last token, decide the next one, draft `count` more."""
        tokens_BQ, confidence_BQ = self._read(rows_B, 0, count)
        self._keep(rows_B, tokens_BQ, confidence_BQ, torch.zeros_like(rows_B))
        self._write_drafts(rows_B, tokens_BQ[:, 1:], confidence_BQ[:, 1:])

    def _verify(self, rows_B: Tensor, drafts: int, count: int) -> None:
        """Commit the last token and the drafts that hold, decide one more, draft `count` more."""
        canvas = self.canvas
        positions_BK = canvas.start_N[rows_B, None] + 1 + torch.arange(drafts)
        drafts_BK = canvas.tokens_NL[rows_B[:, None], positions_BK]
        tokens_BQ, confidence_BQ = self._read(rows_B, drafts, count)
        held_B = (drafts_BK == tokens_BQ[:, :drafts]).long().cumprod(1).sum(1)
        self.draft_length.saw_drafts(held_B.tolist(), drafts)
        canvas.tokens_NL[rows_B[:, None], positions_BK] = canvas.mask_token_id
        canvas.drafts_N[rows_B] = 0
        self._keep(rows_B, tokens_BQ, confidence_BQ, held_B)
        all_B = held_B == drafts
        ahead = slice(1 + drafts, None)
        self._write_drafts(rows_B[all_B], tokens_BQ[all_B, ahead], confidence_BQ[all_B, ahead])

    def _read(self, rows_B: Tensor, drafts: int, masks: int) -> tuple[Tensor, Tensor]:
        """One forward over [last token, drafts | masks]: the tokens behind each, and confidence.

        Both are (B, 1 + drafts + masks). It counts as denoising if it drafts and nothing else.
        """
        canvas, started = self.canvas, perf_counter()
        first_B, width = canvas.start_N[rows_B], 1 + drafts + masks
        canvas.forwards_N3[rows_B, 1 if masks and not drafts else 2] += 1
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
        q_Q = torch.arange(tokens_BQ.shape[1])
        room_B1 = (canvas.end_N[rows_B] - canvas.start_N[rows_B] - 1)[:, None]
        b, q = ((q_Q <= held_B[:, None]) & (q_Q < room_B1)).nonzero(as_tuple=True)
        rows_M = rows_B[b]
        canvas.settle(rows_M, canvas.start_N[rows_M] + 1 + q, tokens_BQ[b, q], confidence_BQ[b, q])
        canvas.commit(rows_B, 1 + held_B)
        self._ask_stops(rows_B)

    def _write_drafts(self, rows_B: Tensor, tokens_BK: Tensor, confidence_BK: Tensor) -> None:
        """Let drafts stand behind the last token, hidden still."""
        canvas, count = self.canvas, tokens_BK.shape[1]
        positions_BK = canvas.start_N[rows_B, None] + 1 + torch.arange(count)
        canvas.tokens_NL[rows_B[:, None], positions_BK] = tokens_BK
        canvas.confidence_NL[rows_B[:, None], positions_BK] = confidence_BK
        canvas.drafts_N[rows_B] = count
