"""Strategies: which proposed tokens a denoising step accepts. Pure functions, one file each."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from unmask.decode.options import DecodeOptions
from unmask.plugins import load_plugin

Scope = Literal["sub-block", "block"]
Knob = Literal["threshold", "k", "factor", "gamma"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a strategy sees of a step; CPU tensors over the rows' open blocks."""

    tokens_BS: Tensor
    """int64: the token proposed at each candidate, the one that stands at each revocable place."""
    confidence_BS: Tensor
    """Its probability now, float32; 0 elsewhere."""
    is_candidate_BS: Tensor
    """True where a token is proposed: hidden, within the strategy's scope and the budget."""
    is_revocable_BS: Tensor
    """True where an earlier step of this block decided; all False unless `Strategy.revokes`."""
    measure_BS: Tensor
    """What `Strategy.measure` says of each candidate, float32; 0 elsewhere."""
    memory_BS: Tensor
    """What the strategy remembered at the last step of this block, float32; 0 at its first."""
    positions_BS: Tensor
    """Absolute positions, int64."""
    step_B: Tensor
    """Denoising steps this block has had, int64."""
    seed_B: Tensor
    """Of the row, int64."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a strategy wants."""

    accept_BS: Tensor
    """A subset of the candidates, at least one in each row that has any."""
    revoke_BS: Tensor | None = None
    """Revocable places to hide again, fewer than the step before accepted."""
    memory_BS: Tensor | None = None
    """What to remember at the next step of this block."""


class Strategy:
    """A rule for accepting tokens. Holds settings, never state: what it remembers is handed to it.

    Args:
        options: threshold, k and the like.
        delimiter_token_ids: tokens that end a line.
    """

    knob: ClassVar[Knob | None] = "threshold"
    """The option that sets its pace; None where it has constants of its own."""
    scope: ClassVar[Scope] = "sub-block"
    """Candidates are the active sub-block's, or the whole open block's."""
    revokes: ClassVar[bool] = False
    keeps_logits: ClassVar[bool] = False
    """Whether `measure` wants the logits of the step before."""

    def __init__(
        self, options: DecodeOptions, delimiter_token_ids: frozenset[int] = frozenset()
    ) -> None:
        self.options, self.delimiter_token_ids = options, delimiter_token_ids

    def measure(self, logits_MV: Tensor, last_MV: Tensor | None) -> Tensor | None:
        """A number for each candidate, computed where the logits are; None = not needed.

        Args:
            logits_MV: float32.
            last_MV: those of the step before; NaN where there were none; None unless kept.
        """
        return None

    def select(self, proposal: Proposal) -> Decision:
        """Decide; must not change the proposal."""
        raise NotImplementedError


def rank(score_BS: Tensor, is_candidate_BS: Tensor) -> Tensor:
    """Place of each candidate when sorted by falling score, from 0; ties go to the leftmost.

    Others rank behind all candidates.

    >>> rank(torch.tensor([[0.2, 0.9, 0.9]]), torch.tensor([[True, True, True]]))
    tensor([[2, 0, 1]])
    """
    score_BS = score_BS.masked_fill(~is_candidate_BS, float("-inf"))
    return score_BS.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)


def best(score_BS: Tensor, is_candidate_BS: Tensor, count: int | Tensor = 1) -> Tensor:
    """True at the `count` candidates of the highest score; `count` is one number or (B, 1)."""
    return is_candidate_BS & (rank(score_BS, is_candidate_BS) < count)


def top_two(logits_MV: Tensor) -> tuple[Tensor, Tensor]:
    """The two highest logits of each row, (M,) each; the second is -inf if there is no other."""
    if logits_MV.shape[1] == 1:
        return logits_MV[:, 0], torch.full_like(logits_MV[:, 0], float("-inf"))
    highest_M2 = logits_MV.topk(2, dim=-1).values
    return highest_M2[:, 0], highest_M2[:, 1]


def make_strategy(
    options: DecodeOptions, delimiter_token_ids: frozenset[int] = frozenset()
) -> Strategy:
    """The strategy that the options name, with its settings."""
    strategy: Strategy = load_plugin("unmask.decode.strategies", options.strategy)(
        options, delimiter_token_ids
    )
    return strategy
