"""The engine: rows of different lengths and progress, one loop. It never sees text.

One round, for each group of rows whose forwards are of one width:
1. The policy says which positions to compute; a row whose block is full commits it instead.
2. One forward; committed rows open their next block.
3. The head runs at the candidates whose hidden state was just computed, no others.
4. Sample; confidence in float32; the strategy accepts at least one token a row.
5. End tokens, stops and budgets pull in a row's end; nothing is decoded past it.

AR mode is this loop with blocks of one token. With token shift a block's first token is read from
the state that commits the block before, so it is decided there; a block of one needs no denoising.
Fused commit: the forward that commits a block is the first denoising step of the next one as well.
In context `full` there is no prefill and no commit: each forward computes all of the canvas.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.canvas import Canvas, Sampling
from unmask.decode.forward import Forward
from unmask.decode.policy import Policy
from unmask.decode.propose import Proposer
from unmask.decode.stats import Nfe
from unmask.decode.strategy import Strategy

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
    """A request in flight, or finished; the rest is filled in when it is."""

    request: Request
    nfe: Nfe = field(default_factory=Nfe)
    tokens: list[int] = field(default_factory=list)
    """New tokens, up to and including the end token."""
    accepted: list[int] = field(default_factory=list)
    """For each new token the number of the forward that decided it, from 0."""
    submitted_s: float = 0.0
    """On the clock of `perf_counter`."""
    first_s: float = 0.0
    """Seconds from being submitted to the first committed new token."""
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
        fuse_commit: commit a block and begin the next in one forward.
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
        fuse_commit: bool = False,
    ) -> None:
        size = config.block_size
        max_len = -(-max_len // size) * size
        self.config, self.policy = config, policy
        self.fuse_commit = fuse_commit and size > 1
        self.canvas = Canvas(
            rows, max_len, size, config.sub_block_size, config.mask_token_id,
            is_whole=config.is_whole,
        )  # fmt: skip
        self.forward = Forward(backbone, config, self.canvas, uses_cache=policy.uses_cache)
        self.proposer = Proposer(backbone, config, self.canvas, strategy)
        self.sequences: list[Sequence] = []
        self._waiting: list[Sequence] = []

    def submit(self, request: Request) -> Sequence:
        """Queue a request; the returned sequence is filled in as it is decoded."""
        sequence = Sequence(request)
        sequence.submitted_s = perf_counter()
        self._waiting.append(sequence)
        return sequence

    @property
    def waiting(self) -> list[Sequence]:
        """Sequences that have no row yet, in order."""
        return list(self._waiting)

    @torch.inference_mode()
    def step(self) -> list[Sequence]:
        """One round over all active rows; returns the sequences that it finished."""
        if self._admit_waiting():
            done = self._retire()  # answers that came out of the prefill alone
            if done:
                return done
        rows_B = torch.arange(self.canvas.active)
        is_full_B = ~self.canvas.todo_BS(rows_B).any(-1)
        if self.config.is_whole:  # nothing is kept, so moving on costs nothing
            self.canvas.commit(rows_B, self.config.block_size * is_full_B)
            is_full_B = torch.zeros_like(is_full_B)
        spans = self.policy.plan(self.canvas, rows_B, is_full_B, self.config.read_offset)
        width_B = spans.width_B + self.config.block_size * (is_full_B & self.fuse_commit)
        for width in torch.unique(width_B).tolist():
            group_B = rows_B[width_B == width]
            self._round(group_B, spans.first_B[group_B], width, is_full_B[group_B])
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

    def _admit_waiting(self) -> bool:
        """Give free rows to those who wait; whether there were any of both."""
        count = min(len(self._waiting), len(self.canvas.start_N) - self.canvas.active)
        for sequence in self._waiting[:count]:
            self._admit(sequence)
        del self._waiting[:count]
        return count > 0

    def _admit(self, sequence: Sequence) -> None:
        """Open a row and prefill the whole blocks of its prompt."""
        request = sequence.request
        row = self.canvas.open_row(
            request.prompt, request.max_new_tokens, request.sampling, request.end_token_ids
        )
        self.sequences.append(sequence)
        whole = len(request.prompt) // self.config.block_size * self.config.block_size
        if whole and self.config.is_whole:
            self.canvas.commit(torch.tensor([row]), torch.tensor([whole]))
        elif whole:
            rows_B = torch.tensor([row])
            self.canvas.forwards_N3[row, 0] += 1
            hidden_BQE = self.forward.hidden_BQE(
                rows_B, torch.tensor([0]), whole, torch.tensor([whole])
            )
            self.canvas.commit(rows_B, torch.tensor([whole]))
            self._decide(rows_B, torch.tensor([0]), hidden_BQE, torch.tensor([False]))

    def _round(self, rows_B: Tensor, first_B: Tensor, width: int, is_full_B: Tensor) -> None:
        """Compute [first, first + width) of each row; commit or accept what it decides."""
        canvas, size = self.canvas, self.config.block_size
        canvas.forwards_N3[rows_B, 1 + is_full_B.long()] += 1
        open_B = canvas.start_N[rows_B] + size * is_full_B
        hidden_BQE = self.forward.hidden_BQE(rows_B, first_B, width, open_B)
        canvas.commit(rows_B, size * is_full_B)
        is_step_B = ~is_full_B | self.fuse_commit
        self._decide(rows_B, first_B, hidden_BQE, is_step_B)
        canvas.step_N[rows_B] += is_step_B.long()

    def _decide(
        self, rows_B: Tensor, first_B: Tensor, hidden_BQE: Tensor, is_step_B: Tensor
    ) -> None:
        """Accept tokens; ask the stop checks of the rows that got some."""
        has_new_B = self.proposer.decide(rows_B, first_B, hidden_BQE, is_step_B)
        self._ask_stops(rows_B[has_new_B])

    def _ask_stops(self, rows_B: Tensor) -> None:
        """End rows whose new tokens hold a stop."""
        for row in rows_B.tolist():
            stop = self.sequences[row].request.stop
            keep = None if stop is None else stop(self._decided(row))
            if keep is not None:
                end = int(self.canvas.prompt_N[row]) + keep
                self.canvas.pull_in(torch.tensor([row]), torch.tensor([end]))

    def _note_first(self, finished_B: Tensor) -> None:
        """Stop the clock of rows whose first new token was committed in this round."""
        canvas, rows = self.canvas, slice(self.canvas.active)
        has_new_B = (canvas.start_N[rows] > canvas.prompt_N[rows]) | finished_B
        for row in (has_new_B & ~canvas.is_begun_N[rows]).nonzero()[:, 0].tolist():
            sequence = self.sequences[row]
            sequence.first_s = perf_counter() - sequence.submitted_s
            canvas.is_begun_N[row] = True

    def _decided(self, row: int) -> list[int]:
        """New tokens before the first hidden one."""
        canvas, prompt = self.canvas, int(self.canvas.prompt_N[row])
        hidden = canvas.is_masked_NL[row, prompt : int(canvas.end_N[row])]
        count = int(hidden.int().argmax()) if bool(hidden.any()) else len(hidden)
        return canvas.tokens_NL[row, prompt : prompt + count].tolist()

    def _retire(self) -> list[Sequence]:
        """Hand out finished sequences; the last active row moves into each freed place."""
        finished_B = self.canvas.is_finished_B(torch.arange(self.canvas.active))
        self._note_first(finished_B)
        done = []
        for row in reversed(finished_B.nonzero()[:, 0].tolist()):
            sequence = self.sequences[row]
            self._fill_in(sequence, row)
            last = self.canvas.close_row(row)
            if row != last:
                self.forward.move_row(last, row)
                self.proposer.move_row(last, row)
            self.sequences[row] = self.sequences[last]
            self.sequences.pop()
            done.append(sequence)
        return done[::-1]

    def _fill_in(self, sequence: Sequence, row: int) -> None:
        canvas = self.canvas
        new = slice(int(canvas.prompt_N[row]), int(canvas.end_N[row]))
        sequence.tokens = canvas.tokens_NL[row, new].tolist()
        sequence.accepted = canvas.accepted_NL[row, new].tolist()
        sequence.nfe = Nfe(*canvas.forwards_N3[row].tolist())
        sequence.is_stopped = bool(canvas.is_stopped_N[row])
