"""A denoiser over a frozen parent: windows of masks, hard and soft labels.

The clean stream is frozen, so it is computed once, without a backward pass; what it would say
itself is a soft label for nothing: loss = (1 - w) · hard + w · soft. Ours.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from unmask.core.backbone import Backbone
from unmask.core.masks import CLEAN, dense_mask
from unmask.errors import DataError
from unmask.train.corrupt import TrainingRow
from unmask.train.objective import HEAD_CHUNK, Objective
from unmask.train.pack import MAX_MISSES, PackedRow
from unmask.train.windows import window_layout

SOFT_TOP = 8
"""Most probable tokens that a soft label tells apart."""


class Denoiser(Objective):
    """Windows of `block_size` masks."""

    next_token_weight = 0.0

    def layout(
        self, next_row: Callable[[], PackedRow], share: float, generator: torch.Generator
    ) -> TrainingRow:
        """The next row that any window opens in.

        Raises:
            DataError: there is none.
        """
        assert self.backbone.mask_token_id is not None, "a diffusion run has a mask token"
        for _ in range(MAX_MISSES):
            row = window_layout(
                next_row(), masks=self.recipe.block_size, windows=self.recipe.windows,
                mask_token_id=self.backbone.mask_token_id, generator=generator,
            )  # fmt: skip
            if row.labels:
                return row
        raise DataError(
            f"{MAX_MISSES} rows in a row hold answers of a single token: there is nothing to draft"
        )

    def forward(self, row: TrainingRow) -> Tensor:
        """The loss of the masks, and 0."""
        loss = window_loss(self.backbone, row, self.recipe.soft_weight)
        return torch.stack([loss, torch.zeros_like(loss)])


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


plugin = Denoiser
