"""The same rate throughout."""


class Constant:
    """Fast-dLLM v2, after its warm-up."""

    def factor(self, share: float) -> float:
        """What the rate is multiplied by when this share of the run is done."""
        return 1.0


plugin = Constant
