"""Each row with a size of its own, so that one checkpoint decodes at several block sizes. Ours."""

import torch

from unmask.train.block_sizes.growing import halvings


class Mixed:
    """The block size and its halves, quarters … alike often."""

    def pick(self, block_size: int, share: float, generator: torch.Generator) -> int:
        """One of them, drawn.

        >>> generator = torch.Generator().manual_seed(0)
        >>> sorted({Mixed().pick(32, 0.0, generator) for _ in range(50)})
        [4, 8, 16, 32]
        """
        sizes = halvings(block_size)
        return sizes[int(torch.randint(len(sizes), (), generator=generator))]


plugin = Mixed
