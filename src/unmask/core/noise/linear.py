"""The linear schedule: the share of masked tokens is the noise level."""

from torch import Tensor

EPSILON = 1e-3
"""Smallest probability, so that no block is ever wholly clean by design (Fast-dLLM v2)."""


class Linear:
    """p(t) = (1 - eps) t + eps."""

    def mask_probability(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at noise level t in [0, 1]; any shape."""
        return (1 - EPSILON) * t + EPSILON


plugin = Linear
