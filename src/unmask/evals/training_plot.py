"""A training run as a picture: loss, gradient and rate by step, and the loss by noise level."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

SMOOTH = 0.9
"""Weight of the past in the smoothed line."""

Log = list[dict[str, Any]]
"""Lines of a run's `trainer/log.jsonl`."""


def draw_training(log: Log, out: Path, title: str) -> None:
    """Draw what the log holds; the format is that of the file's ending."""
    mpl.use("Agg")
    has_tally = any("loss_by_noise" in line for line in log)
    figure = Figure(figsize=(11, 3.5 + 2.8 * has_tally), layout="constrained")
    panels = figure.add_gridspec(1 + has_tally, 2, height_ratios=[3.5, 2.8][: 1 + has_tally])
    draw_loss(figure.add_subplot(panels[0, 0]), log)
    draw_gradient(figure.add_subplot(panels[0, 1]), log)
    if has_tally:
        names = (("loss_by_noise", "noise level"), ("loss_by_place", "place in the block"))
        for column, (key, what) in enumerate(names):
            draw_tally(figure.add_subplot(panels[1, column]), log, key, what)
    figure.suptitle(title, fontsize=9)
    figure.savefig(out, dpi=150)


def draw_loss(axes: Axes, log: Log) -> None:
    """Both losses, where they are used."""
    steps = [line["step"] for line in log]
    for key, label in (("denoise_loss", "masked tokens"), ("next_token_loss", "next tokens")):
        losses = [line[key] for line in log]
        if any(losses):
            (line,) = axes.plot(steps, losses, alpha=0.3)
            axes.plot(steps, smoothed(losses), color=line.get_color(), label=label)
    axes.set(xlabel="step", ylabel="loss (nats a token)", title="loss")
    axes.legend(fontsize=7)


def draw_gradient(axes: Axes, log: Log) -> None:
    """Norm before clipping, and the learning rate."""
    steps = [line["step"] for line in log]
    axes.plot(steps, [line["gradient_norm"] for line in log], alpha=0.6)
    axes.set(xlabel="step", ylabel="gradient norm", title="gradient and learning rate")
    axes.set_yscale("log")
    rate = axes.twinx()
    rate.plot(steps, [line["learning_rate"] for line in log], color="tab:orange")
    rate.set_ylabel("learning rate")
    rate.set_ylim(bottom=0)


def draw_tally(axes: Axes, log: Log, key: str, what: str) -> None:
    """The loss of eight bins by step, bright = low."""
    lines = [line[key] for line in log if key in line]
    grid = [
        [float("nan") if line[row] is None else line[row] for line in lines]
        for row in range(len(lines[0]))
    ]
    image = axes.imshow(grid, aspect="auto", origin="lower", cmap="viridis_r",
                        interpolation="nearest", extent=(1, len(lines) + 1, 0, 1))  # fmt: skip
    axes.set(xlabel="step", ylabel=what, title=f"loss by {what}")
    axes.figure.colorbar(image, ax=axes)


def smoothed(values: list[float]) -> list[float]:
    """Exponential mean, without a bias to the start.

    >>> [round(value, 2) for value in smoothed([4.0, 4.0, 2.0])]
    [4.0, 4.0, 3.26]
    """
    past, weight, means = 0.0, 0.0, []
    for value in values:
        past = SMOOTH * past + (1 - SMOOTH) * value
        weight = SMOOTH * weight + (1 - SMOOTH)
        means.append(past / weight)
    return means
