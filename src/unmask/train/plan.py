"""What a run will cost, worked out before it starts."""

import time
from dataclasses import dataclass

import torch

from unmask.train.corrupt import TrainingRow
from unmask.train.loop import Budget
from unmask.train.run import Run

BYTES_PER_WEIGHT = 4
ACTIVATION_FLOATS = 26
"""Floats of model width kept per token and layer for the backward pass, roughly (ours)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An estimate, from a few rows and the measured speed of this machine."""

    steps: int
    supervised_tokens: int
    flops: float
    """Floating-point operations of the whole run."""
    memory_gib: float
    seconds: float
    seconds_per_step: float
    trainable_parameters: int
    processes: int
    """That share each step; FLOPs are those of all, memory is that of each."""
    samples_too_long: int
    """Among the samples looked at."""


def make_plan(run: Run, rows: list[TrainingRow], budget: Budget, too_long: int) -> Plan:
    """Estimate steps, FLOPs, memory and time from a look at a few rows."""
    per_row = [_row_flops(run, row) for row in rows]
    step_flops = sum(per_row) / len(rows) * run.recipe.rows_per_step
    targets = sum(row.targets for row in rows) / len(rows) * run.recipe.rows_per_step
    seconds_per_step = step_flops / flops_per_second(run.backbone.device) / run.world.size
    wanted = []
    if budget.steps is not None:
        wanted.append(budget.steps - run.progress.step)
    if budget.minutes is not None:
        wanted.append(round(60 * budget.minutes / seconds_per_step))
    if budget.tokens is not None:
        wanted.append(round((budget.tokens - run.progress.targets_seen) / targets))
    steps = max(0, min(wanted))
    longest = max(len(row.tokens) for row in rows)
    return Plan(
        steps=steps,
        supervised_tokens=round(steps * targets),
        flops=steps * step_flops,
        memory_gib=_memory_bytes(run, longest) / 2**30,
        seconds=steps * seconds_per_step,
        seconds_per_step=seconds_per_step,
        processes=run.world.size,
        trainable_parameters=_count(run, trainable_only=True),
        samples_too_long=too_long,
    )


def _count(run: Run, *, trainable_only: bool) -> int:
    parameters = run.backbone.model.parameters()
    return sum(p.numel() for p in parameters if p.requires_grad or not trainable_only)


def _row_flops(run: Run, row: TrainingRow) -> float:
    """Forward + backward: 6 per weight and token, 4 where the weights are frozen."""
    settings = run.backbone.model.config
    head = run.backbone.head.weight.numel()
    decoder, embedding = run.backbone.decoder, run.backbone.model.get_input_embeddings()
    trunk = sum(p.numel() for p in decoder.parameters()) - embedding.weight.numel()
    per_weight = 6 if run.recipe.trainable == "full" else 4
    tokens, picked = len(row.tokens), len(row.denoise.label)
    if run.recipe.objective == "ar" or run.recipe.context == "causal":
        picked += row.targets
    attention = 12 * settings.num_hidden_layers * settings.hidden_size * tokens**2
    return float(per_weight * (trunk * tokens + head * picked) + attention)


def _memory_bytes(run: Run, longest: int) -> float:
    settings = run.backbone.model.config
    layers = 2 if run.recipe.gradient_checkpointing else settings.num_hidden_layers
    kept = longest * settings.hidden_size * layers * ACTIVATION_FLOATS
    trained = 3 * _count(run, trainable_only=True)  # gradient and two moments
    return float(BYTES_PER_WEIGHT * (_count(run, trainable_only=False) + trained + kept))


def flops_per_second(device: torch.device) -> float:
    """Rate of a float32 matrix product on this machine, measured in a fifth of a second."""
    a = torch.randn(1024, 1024, device=device)
    (a @ a).sum().item()  # warm-up
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < 0.2:
        (a @ a).sum().item()
        done += 1
    return done * 2 * 1024**3 / (time.perf_counter() - started)
