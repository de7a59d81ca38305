"""`unmask bench`: speed, quality and forwards of several operating points, in one run."""

import itertools
import json as json_module
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from unmask.cli import options
from unmask.cli.bench_table import bench_table
from unmask.cli.console import Output, load_model
from unmask.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from unmask.decode.model import Model
    from unmask.evals.cell import Cell, Point
    from unmask.evals.problems import Problem

Modes = Annotated[
    str | None,
    typer.Option(
        help="Of ar, diffusion, speculative, transformers (its own generate); ar and what the "
        "checkpoint is for if unset."
    ),
]
BlockSizes = Annotated[str | None, typer.Option("--block-size", help="Comma-separated.")]
SubBlockSizes = Annotated[str | None, typer.Option("--sub-block-size", help="Comma-separated.")]
ArModel = Annotated[
    str | None,
    typer.Option(help="Decode ar and transformers with this model: the fine-tuned parent."),
]
IgnoreEos = Annotated[
    bool, typer.Option("--ignore-eos", help="Answers of full length, for timing.")
]

Axes = dict[str, list[Any]]
"""From the name of a `DecodeOptions` field to the values to try."""

MODES = ("ar", "diffusion", "speculative", "transformers")


def command(
    model: options.ModelArgument,
    data: Annotated[str, typer.Option(help="gym:NAME or file.jsonl.")] = "gym:gsm_symbolic",
    limit: Annotated[int, typer.Option(help="Problems.")] = 20,
    modes: Modes = None,
    strategies: Annotated[str, typer.Option(help="Comma-separated.")] = "threshold",
    thresholds: Annotated[str, typer.Option(help="Comma-separated.")] = "1.0,0.9",
    k: Annotated[str, typer.Option(help="Of topk and random; comma-separated.")] = "1",
    factors: Annotated[str, typer.Option(help="Of factor; comma-separated.")] = "1.0",
    gammas: Annotated[str, typer.Option(help="Of entropy; comma-separated.")] = "0.1",
    caches: Annotated[str | None, typer.Option("--cache", help="Comma-separated.")] = None,
    block_sizes: BlockSizes = None,
    sub_block_sizes: SubBlockSizes = None,
    batch_sizes: Annotated[str, typer.Option(help="Comma-separated.")] = "1",
    repeats: Annotated[int, typer.Option(help="Timings of each point; the median counts.")] = 1,
    ar_model: ArModel = None,
    max_new_tokens: options.MaxNewTokens = 256,
    ignore_eos: IgnoreEos = False,
    fuse_commit: options.FuseCommit = False,
    draft_length: options.DraftLength = None,
    out: Annotated[Path | None, typer.Option(help="Results as JSON, for unmask plot.")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    quantize: options.Quantize = None,
    compile: options.Compile = False,
    seed: options.Seed = 0,
) -> None:
    """Compare operating points of MODEL on the same problems."""
    from unmask.evals.problems import load_problems

    output = Output(as_json=json, quiet=quiet)
    common = {"max_new_tokens": max_new_tokens, "seed": seed, "ignore_eos": ignore_eos,
              "fuse_commit": fuse_commit, "draft_length": draft_length}  # fmt: skip
    axes: Axes = {"strategy": _names(strategies), "cache": _names(caches) if caches else [None],
                  "block_size": _sizes("block-size", block_sizes),
                  "sub_block_size": _sizes("sub-block-size", sub_block_sizes)}  # fmt: skip
    axes |= {"threshold": _numbers("thresholds", thresholds, float), "k": _numbers("k", k, int),
             "factor": _numbers("factors", factors, float),
             "gamma": _numbers("gammas", gammas, float)}  # fmt: skip
    batches = _numbers("batch-sizes", batch_sizes, int)
    _check(limit, repeats, batches, out)
    grid = operating_points(_names(modes or "ar,diffusion"), axes, common)  # fails early
    problems = load_problems(data, limit, seed=seed)

    def load(name: str, **levers: Any) -> "Model":
        return load_model(name, output, device=device, dtype=dtype, **levers)

    loaded = load(model, quantize=quantize, compile=compile)
    if modes is None:
        grid = operating_points(["ar", loaded.own_mode], axes, common)
    ar = load(ar_model, quantize=quantize, compile=compile) if ar_model else loaded
    stock = load(ar_model or model) if "transformers" in (modes or "") else None
    points = place(grid, batches, loaded, ar, stock)
    results: dict[str, Any] = {"data": data, "seed": seed}
    measure(loaded, points, problems, results, output, repeats, out, full_warm_up=compile)
    _show(results, output)


def _show(results: dict[str, Any], output: Output) -> None:
    if output.as_json:
        output.emit(results)
        return
    output.data.print(bench_table(results["cells"]))
    output.words.print(results["definitions"], style="dim")


def measure(
    model: "Model", points: "list[Point]", problems: "list[Problem]", results: dict[str, Any],
    output: Output, repeats: int, out: Path | None, *, full_warm_up: bool,
) -> None:  # fmt: skip
    """Run the points; `results` and the file `out` grow with each."""
    with output.bar("warming up") as show:
        from unmask.evals.bench import machine_stamp, run_bench
        from unmask.evals.cell import DEFINITIONS

        cells: list[Cell] = []
        results |= {"definitions": DEFINITIONS, "machine": machine_stamp(model), "cells": cells}
        for cell in run_bench(points, problems, repeats, show, full_warm_up=full_warm_up):
            cells.append(cell)
            if out is not None:
                _write(out, results, output)


def operating_points(modes: list[str], axes: Axes, common: dict[str, Any]) -> list[tuple[str, Any]]:
    """(mode, options) of every point; the axes matter to diffusion alone, and only once each.

    Raises:
        ConfigError: a mode or a setting that is not known.
    """
    from unmask.decode.options import DecodeOptions, Mode
    from unmask.decode.policy import make_policy
    from unmask.decode.strategy import Knob, make_strategy

    plain = asdict(DecodeOptions())
    points: list[tuple[str, Any]] = []
    for mode in modes:
        if mode not in MODES:
            raise ConfigError(unknown_name("mode", mode, MODES))
        if mode != "diffusion":
            own: Mode = "speculative" if mode == "speculative" else "ar"
            points.append((mode, DecodeOptions(mode=own, **common)))
            continue
        for values in itertools.product(*axes.values()):
            axis = dict(zip(axes, values, strict=True))
            chosen = DecodeOptions(mode="diffusion", **axis, **common)
            strategy = make_strategy(chosen)
            make_policy(chosen, strategy)
            idle = set(get_args(Knob)) - {strategy.knob}
            points.append((mode, replace(chosen, **{name: plain[name] for name in idle})))
    return list(dict.fromkeys(points))


def place(
    grid: list[tuple[str, Any]], batches: list[int], model: "Model", ar: "Model",
    stock: "Model | None",
) -> "list[Point]":  # fmt: skip
    """Who runs each point, at each batch size; denominators first.

    Our layers are not what transformers runs, so that `stock` has weights of its own.
    """
    from unmask.evals.baseline import TransformersBaseline
    from unmask.evals.bench import in_order
    from unmask.evals.cell import Answerer, Point

    subjects: dict[str, Answerer] = {"ar": ar, "diffusion": model, "speculative": model}
    if stock is not None:
        subjects["transformers"] = TransformersBaseline(stock)
    for mode, chosen in grid:
        if subjects[mode] is model:
            model.decode_config(chosen)  # a wrong mode should fail before anything is timed
    base = None if model.config is None else model.config.base_model
    has_own_ar = ar.name in (model.name, base)
    return in_order([
        Point(subjects[mode], chosen, batch, mode, has_own_ar or mode == "diffusion")
        for batch in batches for mode, chosen in grid
    ])  # fmt: skip


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _sizes(name: str, text: str | None) -> list[int | None]:
    return [None] if text is None else _numbers(name, text, int)


def _numbers(name: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--{name} expects numbers like 1,4; got '{text}'") from None
    if min(numbers) <= 0:
        raise ConfigError(f"--{name} must be above 0, got '{text}'")
    return numbers


def _check(limit: int, repeats: int, batches: list[int], out: Path | None) -> None:
    """What can be known to fail before anything is loaded."""
    from unmask.decode.model import MAX_ROWS

    for name, value in (("limit", limit), ("repeats", repeats)):
        if value < 1:
            raise ConfigError(f"--{name} must be at least 1, got {value}")
    most = min(limit, MAX_ROWS)
    if max(batches) > most:
        raise ConfigError(
            f"--batch-sizes has {max(batches)}, but there are {limit} problems and {MAX_ROWS} "
            f"rows at most; use up to {most}"
        )
    if out is not None and out.is_dir():
        raise ConfigError(f"--out {out} is a folder; name a file")


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
