"""AR-ness: how much the order in which tokens were decided is that of reading.

d_k = the forward that decided token k. Local: share of neighbours with d_k < d_(k+1); global: share
of all pairs with d_i < d_j for i < j; a tie counts one half. Left to right 1, backwards 0, at
random one half.

Source: dQwen3.5, arXiv:2609.20751.
"""

import torch
from torch import Tensor


def local_ar_ness(decided: list[int]) -> float | None:
    """Over neighbours; None for fewer than two tokens.

    >>> local_ar_ness([0, 1, 2]), local_ar_ness([2, 1, 0]), local_ar_ness([0, 0, 1, 0])
    (1.0, 0.0, 0.5)
    """
    if len(decided) < 2:
        return None
    order = torch.tensor(decided)
    return float(_share(order[:-1], order[1:]).mean())


def global_ar_ness(decided: list[int]) -> float | None:
    """Over all pairs; None for fewer than two tokens.

    >>> global_ar_ness([0, 1, 2]), global_ar_ness([2, 1, 0]), global_ar_ness([0, 2, 1])
    (1.0, 0.0, 0.6666666865348816)
    """
    if len(decided) < 2:
        return None
    order = torch.tensor(decided)
    i, j = torch.triu_indices(len(decided), len(decided), offset=1)
    return float(_share(order[i], order[j]).mean())


def _share(earlier: Tensor, later: Tensor) -> Tensor:
    return (earlier < later).float() + 0.5 * (earlier == later).float()
