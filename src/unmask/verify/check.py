"""One check: what is promised, what it is held against, and what must differ."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The outcome of one check."""

    promise: str
    oracle: str
    difference: float
    """Largest difference to the oracle; in logits it is relative to the largest logit."""
    tolerance: float
    control: str
    """What was changed on purpose."""
    control_difference: float
    """Must exceed the tolerance, or the check could not have seen a fault."""

    @property
    def holds(self) -> bool:
        """The promise is kept, and the check can see when it is not; NaN fails."""
        return self.difference <= self.tolerance < self.control_difference


def tolerance_of(dtype: torch.dtype) -> float:
    """Two kernels that sum in another order, relative to the largest logit."""
    return 2e-4 if dtype in (torch.float32, torch.float64) else 8e-2


def logit_difference(got: Tensor, expected: Tensor) -> float:
    """Largest absolute difference over the largest finite logit; NaN stays NaN."""
    forbidden = expected.isneginf()
    if not torch.equal(forbidden, got.isneginf()):
        return float("nan")
    got, expected = got[~forbidden], expected[~forbidden]
    return float((got - expected).abs().max() / expected.abs().max().clamp_min(1.0))


def token_difference(got: list[list[int]], expected: list[list[int]]) -> float:
    """Share of answers that are not the same, token for token."""
    return sum(a != b for a, b in zip(got, expected, strict=True)) / len(expected)
