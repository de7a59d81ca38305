"""`Objective`: what is learnt from a packed row. One file each; knows no optimizer.

loss = sum of cross-entropy over denoised tokens (weight 1) + c · the same over next tokens, both
divided by the number of labels of the whole optimizer step.

The head runs at supervised positions only, a chunk at a time, and is computed again for the
backward pass: (M, V) logits never exist at once.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from unmask.config import Context
from unmask.core.backbone import Backbone
from unmask.core.masks import dense_mask, flex_mask
from unmask.plugins import load_plugin
from unmask.train.corrupt import Supervision, TrainingRow
from unmask.train.pack import PackedRow
from unmask.train.recipe import Recipe
from unmask.train.tally import Tally

HEAD_CHUNK = 1024
"""Positions whose logits exist at once."""


class Objective(nn.Module):
    """A module, so that what spreads a model over devices can wrap it with the loss inside.

    Args:
        backbone: the model.
        recipe: of the run.
    """

    next_token_weight: float
    """c."""
    tally: Tally | None = None
    """What the losses of a step were by noise level and by place; None where it makes no sense."""

    def __init__(self, backbone: Backbone, recipe: Recipe) -> None:
        super().__init__()
        self.model = backbone.model
        self.backbone, self.recipe = backbone, recipe

    def layout(
        self, next_row: Callable[[], PackedRow], share: float, generator: torch.Generator
    ) -> TrainingRow:
        """The next training row.

        Args:
            next_row: the next packed row.
            share: how much of the run is done.
            generator: of everything that is drawn.
        """
        raise NotImplementedError

    def forward(self, row: TrainingRow) -> Tensor:
        """(2,) float32: summed loss of denoised tokens, and of next tokens."""
        raise NotImplementedError


def make_objective(backbone: Backbone, recipe: Recipe) -> Objective:
    """The objective of a recipe; contexts `draft` and `full` have one of their own."""
    name = {"draft": "denoiser", "full": "full"}.get(recipe.context, recipe.objective)
    objective: Objective = load_plugin("unmask.train.objectives", name)(backbone, recipe)
    return objective


def row_hidden(backbone: Backbone, row: TrainingRow, context: Context) -> Tensor:
    """Hidden states (T, E) of a training row under its attention mask."""
    places = row.places[None]
    mask: Tensor | BlockMask = (
        flex_mask(places, context)
        if backbone.device.type == "cuda"
        else dense_mask(places, places, context)
    )
    return backbone.hidden(row.tokens[None], row.position[None], mask)[0]


def token_losses(backbone: Backbone, hidden_TE: Tensor, supervision: Supervision) -> Tensor:
    """-log p(label) at each supervised position, (M,) float32."""
    losses = [hidden_TE.new_zeros(0, dtype=torch.float32)]
    reads, labels = (
        torch.split(supervision.read, HEAD_CHUNK),
        torch.split(supervision.label, HEAD_CHUNK),
    )

    def chunk_loss(hidden_ME: Tensor, label_M: Tensor) -> Tensor:
        return cross_entropy(backbone.logits(hidden_ME), label_M, reduction="none")

    for read_M, label_M in zip(reads, labels, strict=True):
        losses.append(checkpoint(chunk_loss, hidden_TE[read_M], label_M, use_reentrant=False))
    return torch.cat(losses)


def cross_entropy_sum(backbone: Backbone, hidden_TE: Tensor, supervision: Supervision) -> Tensor:
    """Sum of -log p(label) over the supervised positions; a float32 scalar."""
    return token_losses(backbone, hidden_TE, supervision).sum()


def row_losses(
    backbone: Backbone, row: TrainingRow, context: Context, *, with_next_token: bool
) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy of denoised tokens and of next tokens (0 where not asked for)."""
    denoise_M, next_token_N = row_token_losses(
        backbone, row, context, with_next_token=with_next_token
    )
    return denoise_M.sum(), next_token_N.sum()


def row_token_losses(
    backbone: Backbone, row: TrainingRow, context: Context, *, with_next_token: bool
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of each denoised token, (M,), and next token, (N,); none if not asked for."""
    row = row.to(backbone.device)
    hidden_TE = row_hidden(backbone, row, context)
    denoise = token_losses(backbone, hidden_TE, row.denoise)
    if not with_next_token:
        return denoise, denoise[:0]
    return denoise, token_losses(backbone, hidden_TE, row.next_token)
