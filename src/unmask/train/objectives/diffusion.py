"""Block diffusion: masked tokens of complementary views; next tokens where clean ones are causal.

Source: Fast-dLLM v2, arXiv:2509.26328; the next-token term in context `causal` is ours.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from unmask.core.backbone import Backbone
from unmask.plugins import load_plugin
from unmask.train.corrupt import TrainingRow, noisy_layout
from unmask.train.objective import Objective, row_token_losses
from unmask.train.pack import PackedRow
from unmask.train.recipe import Recipe
from unmask.train.tally import Tally


class BlockSizes(Protocol):
    """How long the blocks of a row are."""

    def pick(self, block_size: int, share: float, generator: torch.Generator) -> int:
        """A size that divides `block_size`, when this share of the run is done."""
        ...


class Diffusion(Objective):
    """[clean | view | complementary view], as many pairs of views as the recipe says."""

    def __init__(self, backbone: Backbone, recipe: Recipe) -> None:
        super().__init__(backbone, recipe)
        self.next_token_weight = recipe.ar_coefficient if recipe.context == "causal" else 0.0
        self.tally: Tally = Tally()
        self.noise = load_plugin("unmask.core.noise", recipe.noise)()
        self.block_sizes: BlockSizes = load_plugin("unmask.train.block_sizes", recipe.block_sizes)()

    def layout(
        self, next_row: Callable[[], PackedRow], share: float, generator: torch.Generator
    ) -> TrainingRow:
        """A packed row and its noisy views."""
        assert self.backbone.mask_token_id is not None, "a diffusion run has a mask token"
        return noisy_layout(
            next_row(),
            block_size=self.block_sizes.pick(self.recipe.block_size, share, generator),
            mask_token_id=self.backbone.mask_token_id,
            token_shift=self.recipe.token_shift,
            noise=self.noise,
            generator=generator,
            pairs=self.recipe.view_pairs,
        )

    def forward(self, row: TrainingRow) -> Tensor:
        """Both losses; that of next tokens is 0 where it has no weight."""
        denoise_M, next_token_N = row_token_losses(
            self.backbone, row, self.recipe.context, with_next_token=self.next_token_weight > 0
        )
        self.tally.add(row, denoise_M, int(self.recipe.token_shift))
        return torch.stack([denoise_M.sum(), next_token_N.sum()])


plugin = Diffusion
