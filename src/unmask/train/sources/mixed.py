"""Several sources that take turns."""

from unmask.train.rows import Row
from unmask.train.source import Source


class MixedSource:
    """Row by row, so many of each at a turn; each goes on for ever.

    Args:
        sources: at least one.
        weights: rows of each at a turn.
    """

    size: int | None = None

    def __init__(self, sources: list[Source], weights: list[int]) -> None:
        self._sources, self._weights = sources, weights
        self._turn = [which for which, weight in enumerate(weights) for _ in range(weight)]
        pairs = list(zip(sources, weights, strict=True))
        self.name = ",".join(source.name + f"*{w}" * (w > 1) for source, w in pairs)
        self.fingerprint = ", ".join(source.fingerprint + f" *{w}" * (w > 1) for source, w in pairs)

    def row(self, index: int) -> Row:
        """The row at `index`."""
        turn, place = divmod(index, len(self._turn))
        which = self._turn[place]
        weight = self._weights[which]
        return self._sources[which].row(turn * weight + place - self._turn.index(which))
