"""One optimizer step: one row at a time forward and backward, then clip and step."""

import math
from typing import Any

import torch

from unmask.errors import TrainingError
from unmask.train.corrupt import TrainingRow
from unmask.train.optim import learning_rate
from unmask.train.pack import Packer
from unmask.train.run import Run


def training_row(run: Run, packer: Packer, row_number: int, share: float) -> TrainingRow:
    """The next row, laid out for the objective; the same for the same run, number and share."""
    generator = torch.Generator().manual_seed(run.recipe.seed * 1_000_003 + row_number)
    return run.objective.layout(packer.next_row, share, generator)


def train_step(run: Run, rows: list[TrainingRow], share: float) -> dict[str, Any]:
    """One optimizer step over `rows`, when `share` of the run is done; returns its log line.

    The loss is a mean over the labels of all rows, whoever computes them.

    Raises:
        TrainingError: the loss is not finite; the weights are as they were.
    """
    recipe, world = run.recipe, run.world
    labels = sum(row.labels for row in rows)
    denoise_loss, next_token_loss = _backward(run, world.mine(rows), labels)
    weights = [p for group in run.optimizer.param_groups for p in group["params"]]
    norm = world.clip(weights, recipe.clip_norm)
    if not math.isfinite(denoise_loss + next_token_loss + norm):
        raise TrainingError(
            f"loss is not finite at step {run.progress.step + 1}; the last checkpoint is good: "
            "resume it with a lower learning_rate"
        )
    rate = learning_rate(run.progress.step, share, recipe)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    run.optimizer.step()
    run.optimizer.zero_grad(set_to_none=True)
    return {
        "denoise_loss": denoise_loss,
        "next_token_loss": next_token_loss,
        "gradient_norm": norm,
        "learning_rate": rate,
        "targets": sum(row.targets for row in rows),
        "tokens": sum(len(row.tokens) for row in rows),
        **_tallied(run),
    }


def _tallied(run: Run) -> dict[str, Any]:
    """What the objective has counted in this step, over all processes."""
    tally = run.objective.tally
    if tally is None:
        return {}
    means = tally.means(run.world.total(tally.sums.to(run.backbone.device)).cpu())
    tally.sums.zero_()
    return means


def _backward(run: Run, rows: list[TrainingRow], labels: int) -> list[float]:
    """Gradients of this process's rows; both losses over all processes."""
    device, dtype = run.backbone.device, run.dtype
    weights = torch.tensor([1.0, run.objective.next_token_weight], device=device)
    sums = torch.zeros(2, device=device)
    *early, last = rows
    for row in early:
        with run.world.hold_back(run.prepared):
            sums += _row_backward(run, row, weights / labels, dtype)
    sums += _row_backward(run, last, weights / labels, dtype)
    both: list[float] = (run.world.total(sums) / labels).tolist()
    return both


def _row_backward(
    run: Run, row: TrainingRow, weights: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    with torch.autocast(weights.device.type, dtype, enabled=dtype != torch.float32):
        losses: torch.Tensor = run.prepared(row)
    run.world.backward((losses * weights).sum())
    return losses.detach()
