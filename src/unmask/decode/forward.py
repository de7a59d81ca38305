"""One forward over spans of rows: tokens, positions, attention mask, cache."""

import torch
from torch import Tensor

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.canvas import Canvas
from unmask.core.masks import Places, dense_mask


class Forward:
    """Computes hidden states of a canvas; the cache is its own.

    Args:
        backbone, config, canvas: what is computed, how it is read, where the tokens stand.
        uses_cache: False computes from the first token on, each time.
    """

    def __init__(
        self, backbone: Backbone, config: DiffusionConfig, canvas: Canvas, *, uses_cache: bool
    ) -> None:
        self.backbone, self.config, self.canvas = backbone, config, canvas
        rows, max_len = canvas.tokens_NL.shape
        self.cache = backbone.new_cache(rows, max_len, self) if uses_cache else None

    def hidden_BQE(
        self, rows_B: Tensor, first_B: Tensor, width: int, open_B: Tensor, *, masks: int = 0
    ) -> Tensor:
        """Hidden states of [first, first + width) in each row.

        Args:
            rows_B: canvas rows.
            first_B: where each row's span starts.
            width: Q.
            open_B: where clean context ends; what follows is one noisy block, if it is seen at all.
            masks: how many of the last positions a denoiser takes for masks.
        """
        device = self.backbone.device
        positions_BQ = first_B[:, None] + torch.arange(width)
        tokens_BQ = self.canvas.tokens_NL[rows_B[:, None], positions_BQ]
        past_B = torch.maximum(first_B + width, open_B)
        is_open_B = first_B + width > open_B  # all of the open block is there to be seen
        until_B = open_B + self.config.block_size
        if self.canvas.is_whole:
            until_B = self.canvas.seen_until_B(rows_B)
        past_B = torch.where(is_open_B, until_B, past_B)
        keys_BK = positions_BQ
        if self.cache is not None:
            step = self.backbone.window_step
            window = -(-int(past_B.max()) // step) * step
            keys_BK = torch.arange(window).expand(len(rows_B), -1)
            self.cache.aim(rows_B, positions_BQ, window, device)
        mask = dense_mask(
            self._places(positions_BQ, open_B, past_B),
            self._places(keys_BK, open_B, past_B),
            self.config.context,
        )
        return self.backbone.hidden(
            tokens_BQ.to(device),
            positions_BQ.to(device),
            None if bool(mask.all()) else mask.to(device),
            self.cache,
            masks=masks,
        )

    def _places(self, positions_BQ: Tensor, open_B: Tensor, past_B: Tensor) -> Places:
        """The open block is the one noisy view; columns past it are nobody's."""
        return Places(
            document=-(positions_BQ >= past_B[:, None]).long(),
            block=positions_BQ // self.config.block_size,
            stream=(positions_BQ >= open_B[:, None]).long(),
            position=positions_BQ,
        )

    def move_row(self, source: int, target: int) -> None:
        """Row `source` is now called `target`."""
        if self.cache is not None:
            self.cache.move_row(source, target)
