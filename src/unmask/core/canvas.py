"""`Canvas`: the sequences being decoded and, in each, the open block. Knows no model.

It steers the decoding and computes nothing heavy, so it lives on the CPU; positions are absolute.
Below `start` everything is committed; [start, start + S) is the open block; nothing at or past
`end` is ever decoded.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

MAX_END_TOKENS = 16
"""End tokens a row may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one row draws its tokens."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


class Canvas:
    """Rows of any length and progress, side by side; active rows are always 0 … `active` - 1.

    Args:
        rows: N, the most sequences at a time.
        max_len: L, tokens each may hold, a multiple of the block size.
        block_size, sub_block_size: S and s.
        mask_token_id: what a hidden token looks like to the model.
        is_whole: the model sees each row to its limit, not only to the end of its open block.
    """

    def __init__(
        self, rows: int, max_len: int, block_size: int, sub_block_size: int, mask_token_id: int,
        *, is_whole: bool = False,
    ) -> None:  # fmt: skip
        self.is_whole = is_whole
        self.block_size, self.sub_block_size = block_size, sub_block_size
        self.mask_token_id = mask_token_id
        self.active = 0
        self.tokens_NL = torch.full((rows, max_len), mask_token_id)
        self.is_masked_NL = torch.zeros(rows, max_len, dtype=torch.bool)
        self.confidence_NL = torch.zeros(rows, max_len)
        self.accepted_NL = torch.zeros(rows, max_len, dtype=torch.long)
        """Number of the row's forward that decided a token, from 0; 0 in the prompt."""
        self.prompt_N = torch.zeros(rows, dtype=torch.long)
        self.start_N = torch.zeros(rows, dtype=torch.long)
        self.end_N = torch.zeros(rows, dtype=torch.long)
        self.limit_N = torch.zeros(rows, dtype=torch.long)
        """Where a row would end without end tokens and stops."""
        self.is_stopped_N = torch.zeros(rows, dtype=torch.bool)
        """The end was pulled in: by an end token or a stop."""
        self.is_begun_N = torch.zeros(rows, dtype=torch.bool)
        """A new token is committed."""
        self.ends_NE = torch.full((rows, MAX_END_TOKENS), -1)
        self.step_N = torch.zeros(rows, dtype=torch.long)
        """Denoising steps that the open block has had."""
        self.forwards_N3 = torch.zeros(rows, 3, dtype=torch.long)
        """Forwards so far: prefill, denoise, commit."""
        self.drafts_N = torch.zeros(rows, dtype=torch.long)
        """Tokens drafted behind the open block: they stand there, but are still hidden."""
        self.memory_NS = torch.zeros(rows, block_size)
        """What the strategy remembers about the open block."""
        self.temperature_N = torch.zeros(rows)
        self.top_p_N = torch.ones(rows)
        self.seed_N = torch.zeros(rows, dtype=torch.long)

    def open_row(
        self, prompt: list[int], max_new_tokens: int, sampling: Sampling, ends: Iterable[int] = ()
    ) -> int:
        """Add a sequence; return its row. Nothing of it is committed yet."""
        row, length = self.active, len(prompt)
        self.active += 1
        self.tokens_NL[row] = self.mask_token_id
        self.tokens_NL[row, :length] = torch.tensor(prompt)
        self.is_masked_NL[row] = torch.arange(self.is_masked_NL.shape[1]) >= length
        for tensor in (self.confidence_NL, self.accepted_NL, self.start_N, self.step_N,
                       self.forwards_N3, self.memory_NS, self.drafts_N, self.is_stopped_N,
                       self.is_begun_N):  # fmt: skip
            tensor[row] = 0
        self.prompt_N[row], self.end_N[row] = length, length + max_new_tokens
        self.limit_N[row] = length + max_new_tokens
        end_tokens = sorted(ends)
        assert len(end_tokens) <= MAX_END_TOKENS, f"{len(end_tokens)} end tokens"
        self.ends_NE[row] = -1
        self.ends_NE[row, : len(end_tokens)] = torch.tensor(end_tokens, dtype=torch.long)
        self.temperature_N[row], self.top_p_N[row] = sampling.temperature, sampling.top_p
        self.seed_N[row] = sampling.seed
        return row

    def close_row(self, row: int) -> int:
        """Take a row out; the last active row, whose old index is returned, takes its place."""
        self.active -= 1
        last = self.active
        if row != last:
            for tensor in vars(self).values():
                if isinstance(tensor, Tensor):
                    tensor[row] = tensor[last]
        return last

    def block_positions_BS(self, rows_B: Tensor) -> Tensor:
        """Absolute positions of the open blocks."""
        return self.start_N[rows_B, None] + torch.arange(self.block_size)

    def seen_until_B(self, rows_B: Tensor) -> Tensor:
        """Where what the model sees ends, while a block is open."""
        return self.limit_N[rows_B] if self.is_whole else self.start_N[rows_B] + self.block_size

    def todo_BS(self, rows_B: Tensor) -> Tensor:
        """True where the open block still has a token to decode."""
        positions_BS = self.block_positions_BS(rows_B)
        is_masked_BS = self.is_masked_NL[rows_B[:, None], positions_BS]
        return is_masked_BS & (positions_BS < self.end_N[rows_B, None])

    def sub_block_start_B(self, rows_B: Tensor) -> Tensor:
        """Where the leftmost sub-block with something to decode starts."""
        first_B = self.todo_BS(rows_B).int().argmax(-1)
        return self.start_N[rows_B] + first_B // self.sub_block_size * self.sub_block_size

    def accept(self, rows_B: Tensor, accept_BS: Tensor, tokens_BS: Tensor, confidence_BS: Tensor,
               ) -> None:  # fmt: skip
        """Fix the tokens of the open block where `accept_BS` is True."""
        b, s = accept_BS.nonzero(as_tuple=True)
        rows_M, positions_M = rows_B[b], self.start_N[rows_B[b]] + s
        self.settle(rows_M, positions_M, tokens_BS[b, s], confidence_BS[b, s])

    def settle(self, rows_M: Tensor, positions_M: Tensor, tokens_M: Tensor, confidence_M: Tensor,
               ) -> None:  # fmt: skip
        """Fix tokens anywhere, and end rows at their first end token."""
        self.tokens_NL[rows_M, positions_M] = tokens_M
        self.confidence_NL[rows_M, positions_M] = confidence_M
        self.accepted_NL[rows_M, positions_M] = self.forwards_N3[rows_M].sum(-1) - 1
        self.is_masked_NL[rows_M, positions_M] = False
        is_end_M = (tokens_M[:, None] == self.ends_NE[rows_M]).any(-1)
        self.pull_in(rows_M[is_end_M], positions_M[is_end_M] + 1)

    def pull_in(self, rows_M: Tensor, end_M: Tensor) -> None:
        """End rows at `end_M` if they would end later; a row may occur more than once."""
        self.end_N.scatter_reduce_(0, rows_M, end_M, "amin")
        self.is_stopped_N[rows_M] = True

    def revoke(self, rows_B: Tensor, revoke_BS: Tensor) -> None:
        """Hide decided tokens of the open block again."""
        b, s = revoke_BS.nonzero(as_tuple=True)
        rows_M, positions_M = rows_B[b], self.start_N[rows_B[b]] + s
        self.tokens_NL[rows_M, positions_M] = self.mask_token_id
        self.confidence_NL[rows_M, positions_M] = 0.0
        self.is_masked_NL[rows_M, positions_M] = True

    def commit(self, rows_B: Tensor, count_B: Tensor) -> None:
        """Move the open block on by `count_B` tokens; 0 leaves a row where it is."""
        self.start_N[rows_B] += count_B
        moved_B = rows_B[count_B > 0]
        self.step_N[moved_B] = 0
        self.memory_NS[moved_B] = 0.0

    def is_finished_B(self, rows_B: Tensor) -> Tensor:
        """True where everything before `end` is decoded."""
        last_block_B = self.end_N[rows_B] <= self.start_N[rows_B] + self.block_size
        return last_block_B & ~self.todo_BS(rows_B).any(-1)
