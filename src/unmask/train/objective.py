"""The loss of a training row. Knows no optimizer.

loss = sum of cross-entropy over denoised tokens (weight 1) + c · the same over next tokens, both
divided by the number of targets of the whole optimizer step.

A denoiser's clean stream is frozen, so it is computed once, without a backward pass; what it would
say itself is a soft label for nothing: loss = (1 - w) · hard + w · soft.

The head runs at supervised positions only, a chunk at a time, and is computed again for the
backward pass: (M, V) logits never exist at once.
"""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from unmask.config import Context
from unmask.core.backbone import Backbone
from unmask.core.masks import CLEAN, dense_mask, flex_mask
from unmask.train.corrupt import Supervision, TrainingRow

HEAD_CHUNK = 1024
"""Positions whose logits exist at once."""

SOFT_TOP = 8
"""Most probable tokens that a soft label tells apart."""


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


def window_loss(backbone: Backbone, row: TrainingRow, soft_weight: float) -> Tensor:
    """Summed loss of a denoiser's masks; a float32 scalar.

    Args:
        backbone: the model; its gate is open for masks alone.
        row: of `window_layout`.
        soft_weight: w, share of the soft labels.
    """
    row = row.to(backbone.device)
    clean_TE, noisy_TE = window_hidden(backbone, row)
    total = noisy_TE.new_zeros((), dtype=torch.float32)
    teacher_ME = clean_TE[row.places.position[len(clean_TE) :]]
    parts = (noisy_TE, teacher_ME, row.denoise.label)
    chunks = zip(*(torch.split(part, HEAD_CHUNK) for part in parts), strict=True)
    for noisy_ME, clean_ME, label_M in chunks:
        soft = _soft_labels(backbone, clean_ME) if soft_weight else None
        total = total + checkpoint(
            _mixed_loss, backbone, noisy_ME, label_M, soft, soft_weight, use_reentrant=False
        )
    return total


def window_hidden(backbone: Backbone, row: TrainingRow) -> tuple[Tensor, Tensor]:
    """Hidden states of the clean stream, without gradient, and of the masks behind it."""
    count = int((row.places.stream == CLEAN).sum())
    places, cache = row.places[None], DynamicCache()
    clean, noisy = slice(None, count), slice(count, None)
    with torch.no_grad():
        mask = dense_mask(places[:, clean], places[:, clean], "draft")
        clean_TE = backbone.hidden(row.tokens[None, clean], row.position[None, clean], mask, cache)
    mask = dense_mask(places[:, noisy], places, "draft")
    noisy_TE = backbone.hidden(
        row.tokens[None, noisy], row.position[None, noisy], mask, cache, masks=mask.shape[2]
    )
    return clean_TE[0], noisy_TE[0]


@torch.no_grad()
def _soft_labels(backbone: Backbone, clean_ME: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable next tokens by the clean stream, (M, k), and their shares."""
    logits_MK, tokens_MK = backbone.logits(clean_ME).topk(SOFT_TOP, dim=-1)
    return tokens_MK, logits_MK.softmax(-1)


def _mixed_loss(
    backbone: Backbone, hidden_ME: Tensor, label_M: Tensor,
    soft: tuple[Tensor, Tensor] | None, soft_weight: float,
) -> Tensor:  # fmt: skip
    logits_MV = backbone.logits(hidden_ME)
    hard = cross_entropy(logits_MV, label_M, reduction="sum")
    if soft is None:
        return hard
    tokens_MK, share_MK = soft
    log_MK = logits_MV.gather(-1, tokens_MK) - logits_MV.logsumexp(-1, keepdim=True)
    return (1 - soft_weight) * hard - soft_weight * (share_MK * log_MK).sum()
