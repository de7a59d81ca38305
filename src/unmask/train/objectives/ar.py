"""Next-token prediction: the denominator that diffusion is held against."""

from collections.abc import Callable

import torch
from torch import Tensor

from unmask.train.corrupt import TrainingRow, clean_layout
from unmask.train.objective import Objective, row_losses
from unmask.train.pack import PackedRow


class Ar(Objective):
    """The clean stream alone, read causally."""

    next_token_weight = 1.0

    def layout(
        self, next_row: Callable[[], PackedRow], share: float, generator: torch.Generator
    ) -> TrainingRow:
        """A packed row as it is."""
        return clean_layout(next_row(), self.recipe.block_size)

    def forward(self, row: TrainingRow) -> Tensor:
        """0 and the next-token loss."""
        return torch.stack(row_losses(self.backbone, row, "causal", with_next_token=True))


plugin = Ar
