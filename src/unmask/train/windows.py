"""What a denoiser learns from: windows of masks behind a clean prefix, laid out [clean | windows].

1. A window opens behind any token whose next but one is a target: it is what decoding meets.
2. Its masks stand where the next tokens would be. The first of these is read from the clean
   stream, exactly, so the mask at a place predicts the token after it (token shift).
3. A window sees the clean tokens before it and its own earlier masks, nothing else.

Ours.
"""

import torch
from torch import Tensor

from unmask.core.masks import CLEAN, Places
from unmask.train.corrupt import Supervision, TrainingRow, clean_layout
from unmask.train.pack import PackedRow


def window_starts(row: PackedRow, windows: int, generator: torch.Generator) -> Tensor:
    """Where masks begin, (N,) int64, N ≤ `windows`: different places, drawn at random, in order.

    The mask at such a place has a target right behind it, in the same document, and a clean token
    before it.
    """
    follows = row.is_target[2:] & (row.document[2:] == row.document[:-2])
    places = follows.nonzero()[:, 0] + 1
    chosen = torch.randperm(len(places), generator=generator)[:windows]
    return places[chosen].sort().values


def window_layout(
    row: PackedRow, *, masks: int, windows: int, mask_token_id: int, generator: torch.Generator
) -> TrainingRow:
    """The clean stream followed by windows of up to `masks` masks.

    A mask that no target follows is left out, and so are those behind it.
    """
    clean = clean_layout(row, 1)
    starts = window_starts(row, windows, generator)
    source_NK = starts[:, None] + torch.arange(masks)
    label_NK = (source_NK + 1).clamp_max(len(row.tokens) - 1)
    is_learnt_NK = row.is_target[label_NK] & (row.document[label_NK] == row.document[starts, None])
    is_learnt_NK &= source_NK + 1 < len(row.tokens)
    is_learnt_NK = is_learnt_NK.long().cumprod(1).bool()
    window_NK = torch.arange(len(starts))[:, None].expand_as(source_NK)
    source, window = source_NK[is_learnt_NK], window_NK[is_learnt_NK]
    length = len(row.tokens)
    return TrainingRow(
        tokens=torch.cat([row.tokens, torch.full_like(source, mask_token_id)]),
        position=torch.cat([row.position, row.position[source]]),
        places=Places(
            document=torch.cat([row.document, row.document[source]]),
            block=torch.cat([clean.places.block, starts[window]]),
            stream=torch.cat([clean.places.stream, CLEAN + 1 + window]),
            position=torch.cat([clean.places.position, source]),
        ),
        denoise=Supervision(length + torch.arange(len(source)), row.tokens[source + 1]),
        next_token=Supervision(*torch.zeros(2, 0, dtype=torch.long)),
    )
