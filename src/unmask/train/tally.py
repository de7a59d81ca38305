"""`Tally`: the loss by noise level and by place in the block, to see what is being learnt."""

import torch
from torch import Tensor

from unmask.train.corrupt import TrainingRow

BINS = 8
"""Eighths of the noise level, and of the block."""


class Tally:
    """Sums and counts of a step, (2, 2, BINS): by noise and by place; sum and count."""

    def __init__(self) -> None:
        self.sums = torch.zeros(2, 2, BINS)

    def add(self, row: TrainingRow, losses_M: Tensor, shift: int) -> None:
        """Count the losses of a row's masked tokens; `shift` = 1 with token shift."""
        stream, block = row.places.stream, row.places.block
        is_noisy_M = stream[row.denoise.read] > 0  # block starts are read from the clean stream
        masked_M = row.denoise.read[is_noisy_M] + shift
        _, copy_T = torch.unique(stream * (int(block.max()) + 1) + block, return_inverse=True)
        size_N, hidden_N = torch.bincount(copy_T), torch.bincount(copy_T[masked_M])
        copy_M = copy_T[masked_M]
        level_M = (hidden_N[copy_M] - 1) * BINS // size_N[copy_M]
        place_M = row.places.position[masked_M] % size_N[copy_M] * BINS // size_N[copy_M]
        values_M = losses_M.detach().float().cpu()[is_noisy_M]
        for kind, bin_M in enumerate((level_M, place_M)):
            self.sums[kind, 0].index_add_(0, bin_M, values_M)
            self.sums[kind, 1].index_add_(0, bin_M, torch.ones_like(values_M))

    def means(self, sums: Tensor) -> dict[str, list[float | None]]:
        """Mean losses for the log; None where nothing was counted."""
        by_noise, by_place = (
            [round(total / count, 4) if count else None for total, count in zip(*kind, strict=True)]
            for kind in sums.tolist()
        )
        return {"loss_by_noise": by_noise, "loss_by_place": by_place}
