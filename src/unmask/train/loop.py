"""The training loop, plainly.

1. Pack rows, corrupt them, count the targets of the whole step.
2. One row at a time: forward, loss / targets, backward.
3. Clip, step, log; save now and then, at the end, and when asked to stop.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch

from unmask.errors import DataError, Interrupted, TrainingError
from unmask.plugins import load_plugin
from unmask.train.corrupt import TrainingRow, clean_layout, noisy_layout
from unmask.train.objective import row_losses, window_loss
from unmask.train.optim import learning_rate
from unmask.train.pack import MAX_MISSES, Packer
from unmask.train.run import Run
from unmask.train.windows import window_layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When to stop: the first limit that is reached; None = no such limit."""

    steps: int | None = None
    minutes: float | None = None
    tokens: int | None = None
    """Supervised tokens."""

    def share_used(self, run: Run, started: float) -> float:
        """How much of the tightest limit is used up; 1 = stop."""
        shares = [0.0]
        if self.steps is not None:
            shares.append(run.progress.step / self.steps)
        if self.minutes is not None:
            shares.append((time.monotonic() - started) / (60 * self.minutes))
        if self.tokens is not None:
            shares.append(run.progress.targets_seen / self.tokens)
        return max(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One optimizer step, for progress bars and logs."""

    step: int
    loss: float
    """Mean over the targets of the step: denoised tokens, or next tokens for `ar`."""
    share_done: float
    seconds_left: float
    too_long: int
    """Samples left out so far because they do not fit into a row."""


def training_row(run: Run, packer: Packer, row_number: int) -> TrainingRow:
    """The next row, laid out for the objective; the same for the same run and number."""
    recipe = run.recipe
    if recipe.objective == "ar":
        return clean_layout(packer.next_row(), recipe.block_size)
    assert run.backbone.mask_token_id is not None, "a diffusion run has a mask token"
    generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + row_number)
    if recipe.context == "draft":
        return _windows_row(run, packer, run.backbone.mask_token_id, generator)
    return noisy_layout(
        packer.next_row(),
        block_size=recipe.block_size,
        mask_token_id=run.backbone.mask_token_id,
        token_shift=recipe.token_shift,
        noise=load_plugin("unmask.core.noise", recipe.noise)(),
        generator=generator,
    )


def _windows_row(
    run: Run, packer: Packer, mask_token_id: int, generator: torch.Generator
) -> TrainingRow:
    """The next row that any window opens in."""
    for _ in range(MAX_MISSES):
        row = window_layout(
            packer.next_row(),
            masks=run.recipe.block_size,
            windows=run.recipe.windows,
            mask_token_id=mask_token_id,
            generator=generator,
        )
        if row.labels:
            return row
    raise DataError(
        f"{MAX_MISSES} rows in a row hold answers of a single token: there is nothing to draft"
    )


def train_step(run: Run, rows: list[TrainingRow], share: float) -> dict[str, float]:
    """One optimizer step over `rows`, when `share` of the run is done; returns its log line.

    Raises:
        TrainingError: the loss is not finite; the weights are as they were.
    """
    recipe, device = run.recipe, run.backbone.device
    labels = sum(row.labels for row in rows)
    next_weight = _next_token_weight(run)
    sums = torch.zeros(2, device=device)
    for row in rows:
        with torch.autocast(device.type, run.dtype, enabled=run.dtype != torch.float32):
            if recipe.context == "draft":
                denoise = window_loss(run.backbone, row, recipe.soft_weight)
                next_token = torch.zeros_like(denoise)
            else:
                denoise, next_token = row_losses(
                    run.backbone, row, recipe.context, with_next_token=next_weight > 0
                )
        ((denoise + next_weight * next_token) / labels).backward()  # type: ignore[no-untyped-call]
        sums += torch.stack([denoise.detach(), next_token.detach()])
    denoise_loss, next_token_loss = (sums / labels).tolist()
    trainable = [p for group in run.optimizer.param_groups for p in group["params"]]
    norm = float(torch.nn.utils.clip_grad_norm_(trainable, recipe.clip_norm))
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
    }


def _next_token_weight(run: Run) -> float:
    if run.recipe.objective == "ar":
        return 1.0
    return run.recipe.ar_coefficient if run.recipe.context == "causal" else 0.0


def train(
    run: Run, packer: Packer, budget: Budget, out: Path, on_step: Callable[[StepReport], None]
) -> None:
    """Train until the budget is used up; the folder `out` is a whole checkpoint at any time.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; the step was finished and saved.
        TrainingError: the loss is not finite.
    """
    started, progress = time.monotonic(), run.progress
    # Without dropout; only gradient checkpointing asks for training mode.
    run.backbone.model.train(run.recipe.gradient_checkpointing)
    with stop_signal() as stop, saved_on_bad_data(run, out):
        while (share := budget.share_used(run, started)) < 1 and not stop.is_set():
            step_started = time.monotonic()
            first = progress.step * run.recipe.rows_per_step
            numbers = range(first, first + run.recipe.rows_per_step)
            rows = [training_row(run, packer, number) for number in numbers]
            line = train_step(run, rows, share)
            progress.step += 1
            progress.taken, progress.too_long = packer.taken, packer.too_long
            progress.targets_seen += int(line["targets"])
            progress.seconds += time.monotonic() - step_started
            progress.log.append({"step": progress.step, **line, "seconds": progress.seconds})
            on_step(_report(run, line, share, budget.share_used(run, started), started))
            if progress.step % run.recipe.save_every == 0:
                run.save(out)
        run.save(out)
    run.backbone.model.eval()
    if stop.is_set() and budget.share_used(run, started) < 1:
        raise Interrupted(f"stopped at step {progress.step}, saved in {out}; --resume goes on")


def _report(
    run: Run, line: dict[str, float], before: float, now: float, started: float
) -> StepReport:
    """Time left from the pace of the last step, which is steadier than the start's."""
    pace = run.progress.log[-1]["seconds"]
    if len(run.progress.log) > 1:
        pace -= run.progress.log[-2]["seconds"]
    left = max(0.0, 1 - now) / max(now - before, 1e-9) * pace
    loss = line["next_token_loss"] if run.recipe.objective == "ar" else line["denoise_loss"]
    return StepReport(
        step=run.progress.step,
        loss=loss,
        share_done=min(1.0, now),
        seconds_left=left,
        too_long=run.progress.too_long,
    )


@contextmanager
def saved_on_bad_data(run: Run, out: Path) -> Iterator[None]:
    """A row that cannot be read ends the run, but loses none of its steps."""
    try:
        yield
    except DataError:
        if run.progress.step:
            run.save(out)
        raise


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; the second acts as always."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def set_event(number: int, _frame: FrameType | None) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, set_event)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
