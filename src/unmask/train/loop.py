"""The training loop, plainly.

1. Pack the rows of a step and corrupt them.
2. Take the step (`train_step`), log it.
3. Save now and then, at the end, and when asked to stop.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from unmask.errors import DataError, Interrupted
from unmask.train.pack import Packer
from unmask.train.run import Run
from unmask.train.step import train_step, training_row


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
        while (share := _share_used(run, budget, started, stop)) < 1:
            step_started = time.monotonic()
            first = progress.step * run.recipe.rows_per_step
            numbers = range(first, first + run.recipe.rows_per_step)
            rows = [training_row(run, packer, number, share) for number in numbers]
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
    if share > 1:
        raise Interrupted(f"stopped at step {progress.step}, saved in {out}; --resume goes on")


def _share_used(run: Run, budget: Budget, started: float, stop: threading.Event) -> float:
    """What all processes agree on; above 1 when one of them is asked to stop too early."""
    share = min(1.0, budget.share_used(run, started))
    return run.world.most(2.0 if stop.is_set() and share < 1 else share)


def _report(
    run: Run, line: dict[str, Any], before: float, now: float, started: float
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
