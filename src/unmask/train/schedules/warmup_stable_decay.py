"""Constant, then straight down to zero over the last part of the run.

Source: MiniCPM, arXiv:2404.06395; used by dQwen3.5.
"""

DECAY = 0.2
"""Last part of the run (ours; published runs use a tenth to a fifth)."""


class WarmupStableDecay:
    """Constant up to the last fifth."""

    def factor(self, share: float) -> float:
        """What the rate is multiplied by when this share of the run is done.

        >>> [round(WarmupStableDecay().factor(share), 3) for share in (0, 0.8, 0.9, 1)]
        [1.0, 1.0, 0.5, 0.0]
        """
        return min(1.0, max(0.0, (1 - share) / DECAY))


plugin = WarmupStableDecay
