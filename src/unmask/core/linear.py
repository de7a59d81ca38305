"""Linear layers for few rows on a CPU: the same product, the other way round.

A decoding step multiplies weights by a few rows. The BLAS behind `x @ W.T` packs W for each call,
as if there were many rows; `W @ x.T` packs the few rows instead (measured: dev/LOG.md, 2026-11-30).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.functional import linear

FEW_ROWS = (2, 256)
"""Row counts where turning the product round was faster; one row is a matrix-vector product."""

WIDE = 8192
"""Outputs from which even one row is faster turned round, as two rows: the head's."""


class FewRowsLinear(nn.Linear):
    """`nn.Linear` with the same weights and the same results up to rounding."""

    def forward(self, input: Tensor) -> Tensor:
        """(…, in) → (…, out)."""
        rows = input.numel() // self.in_features
        if rows == 1 and self.out_features >= WIDE and self.weight.device.type == "cpu":
            twice = self.forward(input.reshape(1, -1).repeat(2, 1))  # `expand` takes a slow path
            return twice[0].view(*input.shape[:-1], -1)
        if not FEW_ROWS[0] <= rows <= FEW_ROWS[1] or self.weight.device.type != "cpu":
            return linear(input, self.weight, self.bias)
        product = (self.weight @ input.reshape(rows, -1).T).T.contiguous()
        if self.bias is not None:
            product += self.bias
        return product.view(*input.shape[:-1], -1)


def use_few_rows_linear(model: nn.Module) -> None:
    """Turn every plain linear layer of a model that is only decoded into a `FewRowsLinear`."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = FewRowsLinear


@contextmanager
def plain_linear(model: nn.Module) -> Iterator[None]:
    """Every `FewRowsLinear` is a plain layer for a while: for oracles and baselines."""
    turned: list[nn.Module] = [
        module for module in model.modules() if type(module) is FewRowsLinear
    ]
    for module in turned:
        module.__class__ = nn.Linear
    try:
        yield
    finally:
        for module in turned:
            module.__class__ = FewRowsLinear
