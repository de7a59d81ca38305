"""Half a cosine, down to a tenth of the rate.

Source: SGDR, arXiv:1608.03983, without restarts.
"""

import math

FLOOR = 0.1
"""Share of the rate that is left at the end (ours)."""


class Cosine:
    """Falls all the time, fastest in the middle."""

    def factor(self, share: float) -> float:
        """What the rate is multiplied by when this share of the run is done.

        >>> [round(Cosine().factor(share), 3) for share in (0, 0.5, 1)]
        [1.0, 0.55, 0.1]
        """
        return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * min(1.0, share))) / 2


plugin = Cosine
