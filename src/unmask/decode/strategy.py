"""Strategies: which proposed tokens a denoising step accepts. Pure functions, one file each."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from unmask.decode.options import DecodeOptions
from unmask.plugins import load_plugin


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a strategy sees of a step; CPU tensors over the rows' open blocks."""

    tokens_BS: Tensor
    """The token proposed at each candidate; int64."""
    confidence_BS: Tensor
    """Its probability, float32; 0 elsewhere."""
    is_candidate_BS: Tensor
    """True where a token is proposed: hidden, in the active sub-block, within the budget."""


class Strategy(Protocol):
    """A rule for accepting tokens."""

    def select(self, proposal: Proposal) -> Tensor:
        """(B, S) bool: a subset of the candidates, at least one in each row that has any."""
        ...


def make_strategy(options: DecodeOptions) -> Strategy:
    """The strategy that the options name, with its settings."""
    strategy: Strategy = load_plugin("unmask.decode.strategies", options.strategy)(options)
    return strategy
