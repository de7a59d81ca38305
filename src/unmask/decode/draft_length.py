"""How many tokens to draft: what pays most by measured acceptance and measured time.

A drafting forward of 1 + c queries makes one token and c drafts, a verifying one makes 1 + E(c)
tokens, where E(c) is how many drafts are expected to hold. A verifying forward may draft as well,
at 1 + 2c queries: if all drafts hold, with probability h, the next forward verifies at once. So for
c drafts

    apart     (2 + E) tokens in 2 forwards of 1 + c
    chained   1 + (1 + E) / (1 - h) tokens in one of 1 + c and 1 / (1 - h) of 1 + 2c
    none      1 token in 1 forward of 1

and the most tokens a second win. The choice changes no token: it is about time alone.
"""

from collections import defaultdict, deque
from dataclasses import dataclass

MEMORY = 0.98
"""What a draft's verdict is worth one verification later."""
PULL = 8.0
"""Verdicts that the share of all places counts for at each of them."""
PATIENCE = 32
"""Rounds without drafts before they are tried once more."""
TIMINGS = 9
"""Timings kept of each size of forward; the fastest counts, the others were disturbed."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What to draft."""

    count: int
    """Tokens; 0 = none."""
    is_chained: bool = False
    """Forwards that verify draft as well."""


class DraftLength:
    """Learns from every forward; shared by all generations of a model.

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

    def choose(self, rows: int, most: int) -> Draft:
        """What to draft now.

        Args:
            rows: sequences in the batch.
            most: more tokens would be of no use.
        """
        most = min(most, self.longest)
        best = self._best(rows, most)
        self._idle = 0 if best.count else self._idle + 1
        if self._idle > PATIENCE and most:
            self._idle = 0
            return Draft(most)
        return best

    def _best(self, rows: int, most: int) -> Draft:
        if most < 1:
            return Draft(0)
        widths = self._widths(rows)
        if not widths or widths[-1] == 1:  # two sizes are tried first, others worked out from them
            return Draft(most)
        if widths[0] > 1:
            return Draft(0)
        rates = {Draft(0): 1 / self._cost(rows, 1)}
        for count in range(1, most + 1):
            drafting, verified = self._cost(rows, 1 + count), 1 + self.expected(count)
            rates[Draft(count)] = (1 + verified) / (2 * drafting)
            times = 1 / max(1e-3, 1 - self._all_hold(count))
            both = self._cost(rows, 1 + 2 * count)
            rates[Draft(count, True)] = (1 + verified * times) / (drafting + both * times)
        return max(rates, key=lambda draft: rates[draft])

    def expected(self, count: int) -> float:
        """How many of `count` drafts are expected to hold."""
        return sum(self._all_hold(few) for few in range(1, count + 1))

    def _all_hold(self, count: int) -> float:
        """Each place's share, drawn to that of all places where it was tried seldom."""
        common, chance = sum(self._held) / sum(self._tried), 1.0
        for held, tried in zip(self._held[:count], self._tried, strict=False):
            chance *= (held + PULL * common) / (tried + PULL)
        return chance

    def _widths(self, rows: int) -> list[int]:
        return sorted(width for count, width in self._seconds if count == rows)

    def _cost(self, rows: int, width: int) -> float:
        widths = self._widths(rows)
        low, high = min(self._seconds[rows, 1]), min(self._seconds[rows, widths[-1]])
        between = low + max(0.0, high - low) * (width - 1) / (widths[-1] - 1)
        # A forward takes no longer than a wider one took.
        known = [min(self._seconds[rows, wider]) for wider in widths if wider >= width]
        return min(known) if (rows, width) in self._seconds else min([between, *known])

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
    """Always as many as are of use, up to a number: for measuring.

    Args:
        longest: tokens to draft.
        is_chained: whether forwards that verify draft as well.
    """

    def __init__(self, longest: int, *, is_chained: bool = False) -> None:
        super().__init__(longest)
        self._is_chained = is_chained

    def choose(self, rows: int, most: int) -> Draft:
        """See `DraftLength`."""
        return Draft(min(most, self.longest), self._is_chained)
