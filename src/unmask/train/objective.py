"""The loss of a training row. Knows no optimizer.

loss = sum of cross-entropy over denoised tokens (weight 1) + c · the same over next tokens, both
divided by the number of targets of the whole optimizer step.

The head runs at supervised positions only, a chunk at a time, and is computed again for the
backward pass: (M, V) logits never exist at once.
"""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from unmask.config import Context
from unmask.core.backbone import Backbone
from unmask.core.masks import dense_mask, flex_mask
from unmask.train.corrupt import Supervision, TrainingRow

HEAD_CHUNK = 1024
"""Positions whose logits exist at once."""


def row_hidden(backbone: Backbone, row: TrainingRow, context: Context) -> Tensor:
    """Hidden states (T, E) of a training row under its attention mask."""
    places = row.places[None]
    mask: Tensor | BlockMask = (
        flex_mask(places, context)
        if backbone.device.type == "cuda"
        else dense_mask(places, places, context)
    )
    return backbone.hidden(row.tokens[None], row.position[None], mask)[0]


def cross_entropy_sum(backbone: Backbone, hidden_TE: Tensor, supervision: Supervision) -> Tensor:
    """Sum of -log p(label) over the supervised positions; a float32 scalar."""
    total = hidden_TE.new_zeros((), dtype=torch.float32)
    reads, labels = (
        torch.split(supervision.read, HEAD_CHUNK),
        torch.split(supervision.label, HEAD_CHUNK),
    )

    def chunk_loss(hidden_ME: Tensor, label_M: Tensor) -> Tensor:
        return cross_entropy(backbone.logits(hidden_ME), label_M, reduction="sum")

    for read_M, label_M in zip(reads, labels, strict=True):
        total = total + checkpoint(chunk_loss, hidden_TE[read_M], label_M, use_reentrant=False)
    return total


def row_losses(
    backbone: Backbone, row: TrainingRow, context: Context, *, with_next_token: bool
) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy of denoised tokens and of next tokens (0 where not asked for)."""
    row = row.to(backbone.device)
    hidden_TE = row_hidden(backbone, row, context)
    denoise = cross_entropy_sum(backbone, hidden_TE, row.denoise)
    if not with_next_token:
        return denoise, torch.zeros_like(denoise)
    return denoise, cross_entropy_sum(backbone, hidden_TE, row.next_token)
