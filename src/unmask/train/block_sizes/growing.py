"""Small blocks first, near to what an AR model knows, then ever larger ones. Ours."""

import torch

SMALLEST = 4
"""Below it a block hardly differs from a token."""


class Growing:
    """An equal share of the run for each size: 4, 8, 16 … up to the checkpoint's."""

    def pick(self, block_size: int, share: float, generator: torch.Generator) -> int:
        """The size of this share of the run.

        >>> [Growing().pick(32, share, torch.Generator()) for share in (0, 0.3, 0.6, 0.9, 1)]
        [4, 8, 16, 32, 32]
        """
        sizes = halvings(block_size)
        return sizes[min(int(share * len(sizes)), len(sizes) - 1)]


def halvings(block_size: int) -> list[int]:
    """Sizes that divide a block into whole ones, ascending.

    >>> halvings(32), halvings(12), halvings(2)
    ([4, 8, 16, 32], [6, 12], [2])
    """
    sizes = [block_size]
    while sizes[0] % 2 == 0 and sizes[0] // 2 >= SMALLEST:
        sizes.insert(0, sizes[0] // 2)
    return sizes


plugin = Growing
