"""From logits to a token and a confidence. Pure functions; float32; no state.

Randomness is a hash of (seed, position, draw, token), not a stream: a row draws the same numbers
whatever shares its batch, on every device. Drawing by Gumbel-max and not along the cumulative sum
keeps it so under rounding: a token changes only if two of the largest sums nearly tie.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Warmth:
    """How the picked positions draw their tokens; (M,) tensors."""

    temperature_M: Tensor
    """0 takes the most probable token."""
    top_p_M: Tensor | None
    """Share of probability kept before drawing; None keeps all everywhere."""
    seed_M: Tensor
    position_M: Tensor
    """Absolute."""
    draw_M: Tensor
    """Tells apart repeated draws at one position."""


def uniform(seed_M: Tensor, position_M: Tensor, draw_M: Tensor, count: int) -> Tensor:
    """(M, count) float32 numbers in (0, 1], fine near 0: a hash of seed, position, draw, index.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
    """
    golden = -7046029254386353131  # 2^64 / golden ratio, as int64
    state_M1 = seed_M[:, None]
    for word_M in (position_M, draw_M):
        state_M1 = _mix(state_M1 * golden + word_M[:, None] + 1)
    index = torch.arange(1, count + 1, device=state_M1.device)
    bits = _logical_shift(_mix(state_M1 + index * golden), 32)
    return (bits.to(torch.float32) + 0.5) / 2**32


def _mix(state: Tensor) -> Tensor:
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        state = (state ^ _logical_shift(state, shift)) * factor
    return state ^ _logical_shift(state, 31)


def _logical_shift(state: Tensor, bits: int) -> Tensor:
    return (state >> bits) & ((1 << (64 - bits)) - 1)  # torch shifts int64 arithmetically


def sample(logits_MV: Tensor, warmth: Warmth | None = None) -> tuple[Tensor, Tensor]:
    """Choose a token at each picked position.

    Args:
        logits_MV: float32; forbidden tokens are -inf.
        warmth: None takes the most probable token everywhere.

    Returns:
        tokens (M,) int64, and their confidence (M,) float32: the probability of the chosen token
        at temperature 1 over the whole vocabulary, so that a threshold means the same whatever
        temperature and top-p are.
    """
    tokens_M = logits_MV.argmax(-1)
    if warmth is not None:
        tokens_M = torch.where(warmth.temperature_M > 0, _drawn(logits_MV, warmth), tokens_M)
    return tokens_M, confidence(logits_MV, tokens_M)


def _drawn(logits_MV: Tensor, warmth: Warmth) -> Tensor:
    """Gumbel-max over the nucleus."""
    warm_MV = logits_MV / warmth.temperature_M[:, None].clamp_min(1e-6)
    if warmth.top_p_M is not None:
        warm_MV = warm_MV.masked_fill(~_nucleus(warm_MV, warmth.top_p_M), float("-inf"))
    numbers_MV = uniform(warmth.seed_M, warmth.position_M, warmth.draw_M, logits_MV.shape[-1])
    exponential_MV = -torch.log1p(-numbers_MV)
    return (warm_MV - exponential_MV.log()).argmax(-1)


def confidence(logits_MV: Tensor, tokens_M: Tensor) -> Tensor:
    """(M,) probability of the given tokens at temperature 1."""
    return (logits_MV.gather(-1, tokens_M[:, None])[:, 0] - logits_MV.logsumexp(-1)).exp()


def _nucleus(logits_MV: Tensor, top_p_M: Tensor) -> Tensor:
    """True for the fewest most probable tokens that hold top-p."""
    sorted_MV, order_MV = logits_MV.softmax(-1).sort(dim=-1, descending=True, stable=True)
    before_MV = sorted_MV.cumsum(-1) - sorted_MV
    return torch.zeros_like(logits_MV, dtype=torch.bool).scatter(
        -1, order_MV, before_MV < top_p_M[:, None]
    )
