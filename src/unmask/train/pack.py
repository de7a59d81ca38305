"""Block-aligned padding and packing: whole documents, whole blocks. Knows no noise.

1. A document is padded with mask tokens to a multiple of S; pads are never targets.
2. Documents are laid side by side while they fit into L tokens, in order; none is ever split.
3. A block therefore never spans two documents.

Source: Fast-dLLM v2, arXiv:2509.26328 (padding with the mask token).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.errors import DataError
from unmask.train.chat import Sample

MAX_MISSES = 1000
"""Documents in a row that may be too long before we say that none fits."""


@dataclass(frozen=True, slots=True)
class PackedRow:
    """Documents side by side; four tensors (L,), L a multiple of the block size."""

    tokens: Tensor
    is_target: Tensor
    document: Tensor
    position: Tensor
    """Place inside the document, for the rotary embedding."""


def pad_sample(sample: Sample, block_size: int, mask_token_id: int) -> Sample:
    """Fill the last block with mask tokens.

    >>> pad_sample(Sample([5, 6, 7], [False, True, True]), 2, 9)
    Sample(ids=[5, 6, 7, 9], is_target=[False, True, True, False])
    """
    spare = -len(sample.ids) % block_size
    return Sample(sample.ids + [mask_token_id] * spare, sample.is_target + [False] * spare)


def pack_samples(samples: list[Sample]) -> PackedRow:
    """Lay padded samples side by side."""
    numbered = list(enumerate(samples))
    return PackedRow(
        tokens=torch.tensor([i for sample in samples for i in sample.ids]),
        is_target=torch.tensor([t for sample in samples for t in sample.is_target]),
        document=torch.tensor([n for n, sample in numbered for _ in sample.ids]),
        position=torch.cat([torch.arange(len(sample.ids)) for sample in samples]),
    )


class Packer:
    """Turns an endless list of samples into rows; its only state is how many it has taken.

    Args:
        sample_at: the sample at an index.
        row_tokens: L, the most tokens a row may hold.
        block_size: S.
        mask_token_id: fills last blocks.
        taken: samples used so far, to go on from.
        too_long: of those, how many did not fit into a row and were left out.
    """

    def __init__(
        self,
        sample_at: Callable[[int], Sample],
        *,
        row_tokens: int,
        block_size: int,
        mask_token_id: int,
        taken: int = 0,
        too_long: int = 0,
    ) -> None:
        self._sample_at = sample_at
        self._row_tokens, self._block_size = row_tokens, block_size
        self._mask_token_id = mask_token_id
        self.taken, self.too_long = taken, too_long

    def next_row(self) -> PackedRow:
        """The next row.

        Raises:
            DataError: no document fits.
        """
        samples: list[Sample] = []
        used, misses = 0, 0
        while True:
            sample = self._sample_at(self.taken)
            padded = pad_sample(sample, self._block_size, self._mask_token_id)
            if len(padded.ids) > self._row_tokens:
                self.taken, self.too_long, misses = self.taken + 1, self.too_long + 1, misses + 1
                if misses == MAX_MISSES and not samples:
                    raise DataError(
                        f"the last {misses} samples are all longer than row_tokens "
                        f"{self._row_tokens}; raise it with --set row_tokens=…"
                    )
                continue
            if used + len(padded.ids) > self._row_tokens:
                return pack_samples(samples)
            samples.append(padded)
            used += len(padded.ids)
            self.taken += 1
            if used == self._row_tokens:
                return pack_samples(samples)
