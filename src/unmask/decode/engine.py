"""The engine: rows of different lengths and progress, one loop. It never sees text.

One round, for each group of rows whose forwards are of one width:
1. The policy says which positions to compute; a row whose block is full commits it instead.
2. One forward; committed rows open their next block.
3. The head runs at the candidates whose hidden state was just computed, no others.
4. Sample; confidence in float32; the strategy accepts at least one token a row.
5. End tokens, stops and budgets pull in a row's end; nothing is decoded past it.

AR mode is this loop with blocks of one token. With token shift a block's first token is read from
the state that commits the block before, so it is decided there; a block of one needs no denoising.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.canvas import Canvas, Sampling
from unmask.core.masks import Places, dense_mask
from unmask.core.sampling import Warmth, sample
from unmask.decode.policy import Policy
from unmask.decode.stats import Nfe
from unmask.decode.strategy import Proposal, Strategy
from unmask.errors import ModelError

StopCheck = Callable[[list[int]], int | None]
"""From the new tokens that are decided without a gap to how many to keep, None to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One sequence to decode."""

    prompt: list[int]
    max_new_tokens: int
    end_token_ids: frozenset[int] = frozenset()
    stop: StopCheck | None = None
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(slots=True)
class Sequence:
    """A request in flight, or finished."""

    request: Request
    nfe: Nfe = field(default_factory=Nfe)
    tokens: list[int] = field(default_factory=list)
    """New tokens, up to and including the end token; filled when finished."""
    is_stopped: bool = False
    """Ended by an end token or a stop, not by its budget."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """New tokens of a row as they stand: committed, decided or hidden."""

    tokens: list[int]
    is_masked: list[bool]
    committed: int
    """How many of them are final."""
    confidence: list[float]


class Engine:
    """Decodes requests to their end.

    Args:
        backbone: the model.
        config: block sizes and context; `autoregressive.ar_config` for AR mode.
        policy, strategy: see there.
        rows: the most sequences decoded at a time; more wait.
        max_len: tokens the longest of them may need.
    """

    def __init__(
        self,
        backbone: Backbone,
        config: DiffusionConfig,
        policy: Policy,
        strategy: Strategy,
        *,
        rows: int,
        max_len: int,
    ) -> None:
        size = config.block_size
        max_len = -(-max_len // size) * size
        self.backbone, self.config = backbone, config
        self.policy, self.strategy = policy, strategy
        self.canvas = Canvas(rows, max_len, size, config.sub_block_size, config.mask_token_id)
        self.cache = backbone.new_cache(rows, max_len)
        self.sequences: list[Sequence] = []
        self._waiting: list[Sequence] = []

    def submit(self, request: Request) -> Sequence:
        """Queue a request; the returned sequence is filled in as it is decoded."""
        sequence = Sequence(request)
        self._waiting.append(sequence)
        return sequence

    @property
    def waiting(self) -> list[Sequence]:
        """Sequences that have no row yet, in order."""
        return list(self._waiting)

    @torch.inference_mode()
    def step(self) -> list[Sequence]:
        """One round over all active rows; returns the sequences that it finished."""
        while self._waiting and self.canvas.active < len(self.canvas.start_N):
            self._admit(self._waiting.pop(0))
        rows_B = torch.arange(self.canvas.active)
        done = self._retire()  # answers that came out of the prefill alone
        if done or not len(rows_B):
            return done
        is_full_B = ~self.canvas.todo_BS(rows_B).any(-1)
        spans = self.policy.plan(self.canvas, rows_B, is_full_B, self.config.read_offset)
        for width in torch.unique(spans.width_B).tolist():
            group_B = rows_B[spans.width_B == width]
            self._forward(group_B, spans.first_B[group_B], width, is_full_B[group_B])
        return self._retire()

    def run(self) -> None:
        """Decode everything that was submitted."""
        while self._waiting or self.canvas.active:
            self.step()

    def snapshot(self, row: int) -> Snapshot:
        """The new tokens of an active row."""
        canvas = self.canvas
        prompt, start, end = (int(t[row]) for t in (canvas.prompt_N, canvas.start_N, canvas.end_N))
        until = min(end, start + canvas.block_size)
        return Snapshot(
            tokens=canvas.tokens_NL[row, prompt:until].tolist(),
            is_masked=canvas.is_masked_NL[row, prompt:until].tolist(),
            committed=max(0, start - prompt),
            confidence=canvas.confidence_NL[row, prompt:until].tolist(),
        )

    def _admit(self, sequence: Sequence) -> None:
        """Open a row and prefill the whole blocks of its prompt."""
        request = sequence.request
        row = self.canvas.open_row(request.prompt, request.max_new_tokens, request.sampling)
        self.sequences.append(sequence)
        whole = len(request.prompt) // self.config.block_size * self.config.block_size
        if whole:
            rows_B = torch.tensor([row])
            self._forward(rows_B, torch.tensor([0]), whole, torch.tensor([True]))

    def _forward(self, rows_B: Tensor, first_B: Tensor, width: int, is_full_B: Tensor) -> None:
        """Compute [first, first + width) of each row; commit or accept what it decides."""
        self._count(rows_B, is_full_B)
        hidden_BQE = self._hidden(rows_B, first_B, width, is_full_B)
        past_B = first_B + width
        count_B = torch.where(is_full_B, past_B - self.canvas.start_N[rows_B], 0)
        self.canvas.commit(rows_B, count_B)
        self._decide(rows_B, first_B, hidden_BQE)
        self.canvas.step_N[rows_B] += (~is_full_B).long()

    def _count(self, rows_B: Tensor, is_full_B: Tensor) -> None:
        starts = self.canvas.start_N[rows_B].tolist()
        for row, is_full, start in zip(rows_B.tolist(), is_full_B.tolist(), starts, strict=True):
            nfe = self.sequences[row].nfe
            if not is_full:
                nfe.denoise += 1
            elif start == 0 and nfe.prefill + nfe.denoise == 0:
                nfe.prefill += 1
            else:
                nfe.commit += 1

    def _hidden(self, rows_B: Tensor, first_B: Tensor, width: int, is_full_B: Tensor) -> Tensor:
        canvas, device = self.canvas, self.backbone.device
        positions_BQ = first_B[:, None] + torch.arange(width)
        tokens_BQ = canvas.tokens_NL[rows_B[:, None], positions_BQ]
        # Where clean context ends and where there is nothing to see any more, row by row.
        open_B = torch.where(is_full_B, first_B + width, canvas.start_N[rows_B])
        past_B = torch.where(is_full_B, first_B + width, open_B + canvas.block_size)
        keys_BK = positions_BQ
        cache = None
        if self.policy.uses_cache:
            window = int(past_B.max())
            keys_BK = torch.arange(window).expand(len(rows_B), -1)
            self.cache.aim(rows_B, positions_BQ, window, device)
            cache = self.cache
        mask = dense_mask(
            self._places(positions_BQ, open_B, past_B),
            self._places(keys_BK, open_B, past_B),
            self.config.context,
        )
        return self.backbone.hidden(
            tokens_BQ.to(device),
            positions_BQ.to(device),
            None if bool(mask.all()) else mask.to(device),
            cache,
        )

    def _places(self, positions_BQ: Tensor, open_B: Tensor, past_B: Tensor) -> Places:
        """The open block is the one noisy view; columns past it are nobody's."""
        return Places(
            document=-(positions_BQ >= past_B[:, None]).long(),
            block=positions_BQ // self.config.block_size,
            stream=(positions_BQ >= open_B[:, None]).long(),
            position=positions_BQ,
        )

    def _decide(self, rows_B: Tensor, first_B: Tensor, hidden_BQE: Tensor) -> None:
        """Propose tokens at the candidates whose hidden state is at hand, and accept some."""
        canvas = self.canvas
        read_BS = canvas.block_positions_BS(rows_B) - self.config.read_offset
        read_BS = read_BS - first_B[:, None]
        is_at_hand_BS = (read_BS >= 0) & (read_BS < hidden_BQE.shape[1])
        is_candidate_BS = canvas.candidates_BS(rows_B) & is_at_hand_BS
        b, s = is_candidate_BS.nonzero(as_tuple=True)
        if not len(b):
            return
        tokens_M, confidence_M = self._sample(
            hidden_BQE[b, read_BS[b, s]], rows_B[b], canvas.block_positions_BS(rows_B)[b, s]
        )
        tokens_BS = torch.zeros(is_candidate_BS.shape, dtype=torch.long)
        confidence_BS = torch.zeros(is_candidate_BS.shape)
        tokens_BS[b, s], confidence_BS[b, s] = tokens_M, confidence_M
        accept_BS = self.strategy.select(Proposal(tokens_BS, confidence_BS, is_candidate_BS))
        canvas.accept(rows_B, accept_BS, tokens_BS, confidence_BS)
        self._stop(rows_B)

    def _sample(
        self, hidden_ME: Tensor, rows_M: Tensor, positions_M: Tensor
    ) -> tuple[Tensor, Tensor]:
        canvas, device = self.canvas, self.backbone.device
        warmth = None
        if bool((canvas.temperature_N[rows_M] > 0).any()):
            top_p_M = canvas.top_p_N[rows_M]
            warmth = Warmth(
                canvas.temperature_N[rows_M].to(device),
                top_p_M.to(device) if bool((top_p_M < 1).any()) else None,
                canvas.seed_N[rows_M].to(device),
                positions_M.to(device),
                canvas.step_N[rows_M].to(device),
            )
        tokens_M, confidence_M = sample(self.backbone.logits(hidden_ME), warmth)
        both_2M = torch.stack([tokens_M.double(), confidence_M.double()]).cpu()  # the one sync
        tokens_M, confidence_M = both_2M[0].long(), both_2M[1].float()
        if bool(confidence_M.isnan().any()):
            raise ModelError("the model computed NaN; its weights are broken or overflow in "
                             "this dtype: try --dtype float32")  # fmt: skip
        return tokens_M, confidence_M

    def _stop(self, rows_B: Tensor) -> None:
        """Pull in the end of rows that hold an end token, or whose stop check says so."""
        canvas = self.canvas
        for row in rows_B.tolist():
            sequence = self.sequences[row]
            keep = self._first_end(row, sequence.request.end_token_ids)
            if sequence.request.stop is not None:
                keep = _least(keep, sequence.request.stop(self._decided(row)))
            if keep is not None:
                canvas.end_N[row] = canvas.prompt_N[row] + keep
                sequence.is_stopped = True

    def _first_end(self, row: int, end_token_ids: frozenset[int]) -> int | None:
        """New tokens up to and including the first end token of the open block."""
        canvas = self.canvas
        prompt, start, end = (int(t[row]) for t in (canvas.prompt_N, canvas.start_N, canvas.end_N))
        first, past = max(prompt, start), min(end, start + canvas.block_size)
        tokens = canvas.tokens_NL[row, first:past].tolist()
        hidden = canvas.is_masked_NL[row, first:past].tolist()
        for place, (token, is_masked) in enumerate(zip(tokens, hidden, strict=True)):
            if token in end_token_ids and not is_masked:
                return first + place + 1 - prompt
        return None

    def _decided(self, row: int) -> list[int]:
        """New tokens before the first hidden one."""
        canvas, prompt = self.canvas, int(self.canvas.prompt_N[row])
        hidden = canvas.is_masked_NL[row, prompt : int(canvas.end_N[row])]
        count = int(hidden.int().argmax()) if bool(hidden.any()) else len(hidden)
        return canvas.tokens_NL[row, prompt : prompt + count].tolist()

    def _retire(self) -> list[Sequence]:
        """Hand out finished sequences; the last active row moves into each freed place."""
        finished_B = self.canvas.is_finished_B(torch.arange(self.canvas.active))
        done = []
        for row in reversed(finished_B.nonzero()[:, 0].tolist()):
            sequence = self.sequences[row]
            prompt, end = int(self.canvas.prompt_N[row]), int(self.canvas.end_N[row])
            sequence.tokens = self.canvas.tokens_NL[row, prompt:end].tolist()
            last = self.canvas.close_row(row)
            if row != last:
                self.cache.move_row(last, row)
            self.sequences[row] = self.sequences[last]
            self.sequences.pop()
            done.append(sequence)
        return done[::-1]


def _least(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else min(a, b)
