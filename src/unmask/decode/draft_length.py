"""How many tokens to draft: what pays most by measured acceptance and measured time.

A cycle that drafts c tokens takes two forwards of 1 + c queries and makes 2 + E(c) tokens, where
E(c) is how many drafts are expected to hold; without drafts one forward makes one token. Neither
answer changes a token: the choice is about time alone.
"""

from collections import defaultdict, deque
from statistics import median

MEMORY = 0.98
"""What a draft's verdict is worth one cycle later."""
PATIENCE = 32
"""Rounds without drafts before they are tried once more."""
TIMINGS = 9
"""Timings kept of each size of forward; their median counts."""


class DraftLength:
    """Learns from every cycle; shared by all generations of a model.

    Args:
        longest: most tokens to draft at a time.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self._held = [0.7] * longest  # before anything is seen: a mild hope
        self._tried = [1.0] * longest
        self._seconds: dict[tuple[int, int], deque[float]] = defaultdict(
            lambda: deque(maxlen=TIMINGS)
        )
        self._idle = 0

    def choose(self, rows: int, most: int) -> int:
        """How many tokens to draft now, 0 = none.

        Args:
            rows: sequences in the batch.
            most: more would be of no use.
        """
        best = self._best(rows, min(most, self.longest))
        self._idle = 0 if best else self._idle + 1
        if self._idle > PATIENCE and most:
            self._idle = 0
            return min(most, self.longest)
        return best

    def _best(self, rows: int, most: int) -> int:
        if most < 1:
            return 0
        ends = [(rows, 1 + self.longest), (rows, 1)]
        unseen = [width - 1 for rows, width in ends if not self._seconds[rows, width]]
        if unseen:  # try both ends first; what lies between is interpolated
            return min(most, unseen[0])
        rates = [1 / self._cost(rows, 1)]
        for count in range(1, most + 1):
            rates.append((2 + self.expected(count)) / (2 * self._cost(rows, 1 + count)))
        return rates.index(max(rates))

    def expected(self, count: int) -> float:
        """How many of `count` drafts are expected to hold."""
        total, all_hold = 0.0, 1.0
        for held, tried in zip(self._held[:count], self._tried, strict=False):
            all_hold *= held / tried
            total += all_hold
        return total

    def _cost(self, rows: int, width: int) -> float:
        if self._seconds[rows, width]:
            return median(self._seconds[rows, width])
        low, high = median(self._seconds[rows, 1]), median(self._seconds[rows, 1 + self.longest])
        return low + (high - low) * (width - 1) / self.longest

    def saw_forward(self, rows: int, width: int, seconds: float) -> None:
        """A forward of `width` queries a row took `seconds`, head and drawing included."""
        self._seconds[rows, width].append(seconds)

    def saw_drafts(self, held: list[int], count: int) -> None:
        """Of `count` drafts in each of several rows, so many held."""
        for place in range(count):
            self._held[place] *= MEMORY
            self._tried[place] *= MEMORY
            self._held[place] += sum(n > place for n in held)
            self._tried[place] += sum(n >= place for n in held)


class FixedLength(DraftLength):
    """Always as many as are of use, up to a number: for measuring."""

    def choose(self, rows: int, most: int) -> int:
        """See `DraftLength`."""
        return min(most, self.longest)
