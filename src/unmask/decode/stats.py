"""Counting forwards and tokens, with the definitions beside the numbers."""

from dataclasses import dataclass


@dataclass(slots=True)
class Nfe:
    """Forward passes of one sequence, by kind."""

    prefill: int = 0
    """Of the prompt."""
    denoise: int = 0
    """Over an open block, followed by accepting tokens; in mode `speculative`, to draft."""
    commit: int = 0
    """Over a finished block, for its final keys and values; in AR mode, one per token; in mode
    `speculative`, to verify."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.prefill + self.denoise + self.commit


def tokens_per_forward(new_tokens: int, nfe: Nfe) -> float:
    """TPF: new tokens up to and including the end token / (denoise + commit forwards).

    An answer that came out of the prefill alone counts as one forward.

    >>> tokens_per_forward(32, Nfe(prefill=1, denoise=7, commit=1))
    4.0
    """
    return new_tokens / max(1, nfe.denoise + nfe.commit)
