"""`unmask bench`: speed, quality and forwards of several modes, in one run."""

import json as json_module
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.console import Output, load_model
from unmask.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from unmask.decode.model import Model
    from unmask.evals.bench import Cell, Point


def command(
    model: options.ModelArgument,
    data: Annotated[str, typer.Option(help="gym:NAME or file.jsonl.")] = "gym:gsm_symbolic",
    limit: Annotated[int, typer.Option(help="Problems.")] = 20,
    modes: Annotated[str, typer.Option(help="Comma-separated.")] = "ar,diffusion",
    thresholds: Annotated[str, typer.Option(help="Comma-separated.")] = "1.0,0.9",
    batch_sizes: Annotated[str, typer.Option(help="Comma-separated.")] = "1",
    ar_model: Annotated[
        str | None, typer.Option(help="Decode `ar` with this model: the fine-tuned parent.")
    ] = None,
    cache: options.Cache = "block",
    sub_block_size: options.SubBlockSize = None,
    max_new_tokens: options.MaxNewTokens = 256,
    out: Annotated[Path | None, typer.Option(help="Results as JSON.")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    quantize: options.Quantize = None,
    seed: options.Seed = 0,
) -> None:
    """Compare modes of MODEL on the same problems."""
    from unmask.decode.options import DecodeOptions

    output = Output(as_json=json, quiet=quiet)
    common: dict[str, Any] = {
        "cache": cache, "sub_block_size": sub_block_size, "max_new_tokens": max_new_tokens,
        "seed": seed,
    }  # fmt: skip
    grid = {
        "modes": modes.split(","),
        "thresholds": _numbers("thresholds", thresholds, float),
        "batch_sizes": _numbers("batch-sizes", batch_sizes, int),
    }
    if limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {limit}")
    for mode in grid["modes"]:  # a wrong setting should fail before anything is loaded
        for threshold in grid["thresholds"]:
            DecodeOptions(mode=mode, threshold=threshold, **common)
    loaded = load_model(model, output, device=device, dtype=dtype)
    ar = load_model(ar_model, output, device=device, dtype=dtype) if ar_model else loaded
    with output.bar("reading problems") as show:
        from unmask.evals.bench import DEFINITIONS, machine_stamp, run_bench
        from unmask.evals.problems import load_problems

        points = _points(loaded, ar, grid, common)
        problems = load_problems(data, limit, seed=seed)
        cells: list[Cell] = []
        for cell in run_bench(points, problems, show):
            cells.append(cell)
            results = {"data": data, "definitions": DEFINITIONS, "machine": machine_stamp(loaded),
                       "seed": seed,                       "cells": cells}  # fmt: skip
            if out is not None:
                _write(out, results, output)
    if json:
        output.emit(results)
    else:
        output.data.print(bench_table(cells))
        output.words.print(DEFINITIONS, style="dim")


def _points(
    model: "Model", ar_model: "Model", grid: dict[str, list[Any]], common: dict[str, Any]
) -> "list[Point]":
    """AR first: it is the denominator."""
    from unmask.decode.options import DecodeOptions
    from unmask.evals.bench import Point

    points = []
    for mode in sorted(grid["modes"]):
        for batch_size in grid["batch_sizes"]:
            for threshold in [1.0] if mode == "ar" else grid["thresholds"]:
                chosen = DecodeOptions(mode=mode, threshold=threshold, **common)
                subject = ar_model if mode == "ar" else model
                subject.decode_config(chosen)  # a wrong mode should fail before anything is timed
                points.append(Point(subject, chosen, batch_size))
    return points


def _numbers(name: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--{name} expects numbers like 1,4; got '{text}'") from None
    if min(numbers) <= 0:
        raise ConfigError(f"--{name} must be above 0, got '{text}'")
    return numbers


def _write(path: Path, results: dict[str, Any], output: Output) -> None:
    """Write aside, then swap in: a half-written file is never there."""
    fresh = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json_module.dumps(output.plain(results), indent=2) + "\n"
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, path)
    except OSError as error:
        raise ConfigError(f"cannot write --out {path}: {error}") from error


def bench_table(cells: "list[Cell]") -> "Table":
    """One line per operating point."""
    from rich import box
    from rich.table import Table

    headers = ("mode", "model", "τ", "batch", "accuracy", "NFE", "TPF", "tok/s", "ratio")
    table = Table(*headers, box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    for cell in cells:
        threshold = "" if cell.threshold is None else f"{cell.threshold:g}"
        accuracy = f"{cell.accuracy:.1%}±{cell.standard_error:.1%}"
        nfe = f"{cell.prefill:.1f}+{cell.denoise:.1f}+{cell.commit:.1f}"
        ratio = "" if cell.ratio is None else f"{cell.ratio:.2f}×"
        table.add_row(
            cell.mode, Path(cell.model).name, threshold, str(cell.batch_size), accuracy, nfe,
            f"{cell.tpf:.2f}", f"{cell.tokens_per_s:.1f}", ratio,
        )  # fmt: skip
    return table
