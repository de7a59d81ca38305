"""Masked diffusion of whole documents, everything seeing everything.

loss = mean over masked tokens of cross-entropy, weight 1 at every noise level: the time-reweighted
objective on a linear schedule.

Source: dQwen3.5, arXiv:2609.20751; Shi and Titsias, arXiv:2511.19664.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from unmask.core.backbone import Backbone
from unmask.plugins import load_plugin
from unmask.train.corrupt import TrainingRow, whole_layout
from unmask.train.objective import Objective, row_losses
from unmask.train.pack import PackedRow
from unmask.train.recipe import Recipe


class Full(Objective):
    """Two complementary views of each document, or several pairs of them."""

    next_token_weight = 0.0

    def __init__(self, backbone: Backbone, recipe: Recipe) -> None:
        super().__init__(backbone, recipe)
        self.noise = load_plugin("unmask.core.noise", recipe.noise)()

    def layout(
        self, next_row: Callable[[], PackedRow], share: float, generator: torch.Generator
    ) -> TrainingRow:
        """The views of a packed row."""
        assert self.backbone.mask_token_id is not None, "a diffusion run has a mask token"
        return whole_layout(
            next_row(), mask_token_id=self.backbone.mask_token_id,
            token_shift=self.recipe.token_shift, noise=self.noise, generator=generator,
            pairs=self.recipe.view_pairs,
        )  # fmt: skip

    def forward(self, row: TrainingRow) -> Tensor:
        """The loss of masked tokens, and 0."""
        return torch.stack(row_losses(self.backbone, row, "full", with_next_token=False))


plugin = Full
