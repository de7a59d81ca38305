"""Pictures of a bench: quality against speed, speed against batch, and the order of decoding."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROW_TOKENS = 32
"""Tokens a line of the step map."""

Results = dict[str, Any]
"""What `unmask bench --out` wrote, read back."""


def draw(results: Results, out: Path) -> None:
    """Draw what the results hold; the format is that of the file's ending."""
    mpl.use("Agg")
    cells = results["cells"]
    maps = [cell for cell in cells if cell["mode"] == "diffusion"][:2]
    figure = Figure(figsize=(11, 4 + 2.5 * bool(maps)), layout="constrained")
    panels = figure.add_gridspec(1 + bool(maps), 2, height_ratios=[4, 2.5][: 1 + bool(maps)])
    draw_quality(figure.add_subplot(panels[0, 0]), cells)
    draw_batch(figure.add_subplot(panels[0, 1]), cells)
    for column, cell in enumerate(maps):
        draw_step_map(figure.add_subplot(panels[1, column]), cell)
    machine = results["machine"]
    figure.suptitle(f"{results['data']} · {machine['device']} · {machine['dtype']}", fontsize=9)
    figure.savefig(out, dpi=150)


def draw_orders(orders: list[list[int]], out: Path) -> None:
    """One line an answer, one column a token: when it was decided, from first to last."""
    mpl.use("Agg")
    longest = max(map(len, orders))
    grid = [
        [*(step / max(1, max(order)) for step in order), *[float("nan")] * (longest - len(order))]
        for order in orders
    ]
    figure = Figure(figsize=(10, 1.5 + 0.3 * len(orders)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(grid, aspect="auto", cmap="viridis", interpolation="nearest")
    axes.set(xlabel="token", ylabel="answer", title="when each token was decided")
    figure.colorbar(image, ax=axes, label="0 first, 1 last")
    figure.savefig(out, dpi=150)


def draw_quality(axes: Axes, cells: list[dict[str, Any]]) -> None:
    """Accuracy with its interval against tokens/s; points of one kind are joined."""
    for label, group in by_kind(cells).items():
        speeds = [cell["tokens_per_s"] for cell in group]
        shares = [cell["accuracy"] for cell in group]
        below = [cell["accuracy"] - cell["low"] for cell in group]
        above = [cell["high"] - cell["accuracy"] for cell in group]
        axes.errorbar(speeds, shares, yerr=(below, above), marker="o", capsize=2, label=label)
        for speed, share, cell in zip(speeds, shares, group, strict=True):
            axes.annotate(cell["setting"], (speed, share), (4, 4), textcoords="offset points")
    axes.set(xlabel="tokens/s", ylabel="accuracy (95 % interval)", title="quality and speed")
    axes.legend(fontsize=7)


def draw_batch(axes: Axes, cells: list[dict[str, Any]]) -> None:
    """Tokens/s against the batch size, one line a setting."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        label = " ".join(filter(None, (kind(cell, with_batch=False), cell["setting"])))
        lines.setdefault(label, []).append(cell)
    for label, line in lines.items():
        line = sorted(line, key=lambda cell: cell["batch_size"])
        sizes = [cell["batch_size"] for cell in line]
        axes.plot(sizes, [cell["tokens_per_s"] for cell in line], marker="o", label=label)
    axes.set(xlabel="batch size", ylabel="tokens/s", title="speed by batch size")
    axes.set_xticks(sorted({cell["batch_size"] for cell in cells}))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)


def draw_step_map(axes: Axes, cell: dict[str, Any]) -> None:
    """Which forward decided each token of the first answer; lines of ROW_TOKENS tokens."""
    accepted = cell["accepted"]
    lines = -(-len(accepted) // ROW_TOKENS)
    padded = [*accepted, *[float("nan")] * (lines * ROW_TOKENS - len(accepted))]
    grid = [padded[line * ROW_TOKENS : (line + 1) * ROW_TOKENS] for line in range(lines)]
    image = axes.imshow(grid, aspect="auto", cmap="viridis", interpolation="nearest")
    axes.set(xlabel=f"token (of {ROW_TOKENS} a line)", yticks=[])
    axes.set_title(f"forward that decided each token: {kind(cell)} {cell['setting']}", fontsize=9)
    axes.figure.colorbar(image, ax=axes)


def by_kind(cells: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Cells that differ in nothing but their threshold or k, together and in order."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(kind(cell), []).append(cell)
    return groups


def kind(cell: dict[str, Any], *, with_batch: bool = True) -> str:
    """Mode, strategy and cache of a cell, in a few words."""
    options = cell["options"]
    words = [cell["mode"]]
    if cell["mode"] == "diffusion":
        words = [options["strategy"], options["cache"] or "exact"]
        if options.get("block_size"):  # not in files of before it was an option
            words.append(f"S={options['block_size']}")
        if options["sub_block_size"]:
            words.append(f"s={options['sub_block_size']}")
    if with_batch:
        words.append(f"batch {cell['batch_size']}")
    return " ".join(words)
