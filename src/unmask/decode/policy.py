"""Cache policies: which positions a forward computes anew. One file each."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from unmask.core.canvas import Canvas


@dataclass(frozen=True, slots=True)
class Spans:
    """For each row, the positions [first, first + width) that the next forward computes."""

    first_B: Tensor
    width_B: Tensor


class Policy(Protocol):
    """A cache policy."""

    uses_cache: bool
    """False: every forward computes its whole context."""

    def plan(self, canvas: Canvas, rows_B: Tensor, is_full_B: Tensor, read_offset: int) -> Spans:
        """Spans of the next forward.

        Args:
            canvas: where the rows stand.
            rows_B: the rows.
            is_full_B: their block is decoded and is to be committed.
            read_offset: 1 where token i is read from hidden state i - 1, else 0.
        """
        ...
