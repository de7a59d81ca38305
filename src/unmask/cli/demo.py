"""`unmask demo`: the whole path on the embedded model, in a few minutes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.adapt import run_adapt
from unmask.cli.bench_table import bench_table
from unmask.cli.console import Output, load_model
from unmask.cli.generate import describe, watch_answer
from unmask.errors import ConfigError

if TYPE_CHECKING:
    from unmask.decode.model import Generation, Model
    from unmask.evals.cell import Cell
    from unmask.evals.problems import Problem

PARENT = "smollm2"
DATA = "gym:gsm_symbolic"
HONESTY = (
    "This is a demonstration, not a finished model: a few minutes on a CPU show a model how to "
    "fill in hidden tokens, not how to be right. Published recipes train on a billion tokens."
)


def command(
    minutes: Annotated[float, typer.Option(help="Minutes of adaptation; 0 = only decode.")] = 3.0,
    problems: Annotated[int, typer.Option(help="Held-out problems to decode.")] = 3,
    max_new_tokens: options.MaxNewTokens = 96,
    out: Annotated[
        Path | None, typer.Option(help="Where the checkpoint goes; unmask's cache if unset.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    seed: options.Seed = 0,
) -> None:
    """Adapt SmolLM2-135M-Instruct for a few minutes, then decode by AR and by diffusion, live.

    Run it again to go on from where the last one stopped.
    """
    if minutes < 0 or problems < 1:
        raise ConfigError("--minutes must be at least 0 and --problems at least 1")
    output = Output(as_json=json, quiet=quiet)
    from unmask.evals.cell import DEFINITIONS
    from unmask.evals.problems import load_problems
    from unmask.store.embedded import cache_folder
    from unmask.train.recipe import load_recipe

    folder = out or cache_folder() / "demo"
    has_run = (folder / "trainer" / "state.json").exists()
    if minutes:
        recipe = load_recipe("smollm2_cpu", {"seed": str(seed), "rows_per_step": "2"})
        where = "going on from" if has_run else "adapting into"
        output.words.print(f"1. {PARENT}: {where} {folder} for {minutes:g} minutes on {DATA}")
        run_adapt(
            output, model=PARENT, data=DATA, out=folder, recipe=recipe, minutes=minutes,
            resume=has_run, device=device, dtype=dtype,
        )  # fmt: skip
    elif not has_run:
        raise ConfigError(f"nothing in {folder} yet; leave --minutes 0 out")
    output.words.print("2. decoding held-out problems: the AR parent, then diffusion (cache dual)")
    parent = load_model(PARENT, output, device=device, dtype=dtype)
    adapted = load_model(str(folder), output, device=device, dtype=dtype)
    cells = decode_both(
        parent, adapted, load_problems(DATA, problems, seed=seed), max_new_tokens, output
    )
    if json:
        output.emit({"checkpoint": str(folder), "note": HONESTY, "cells": cells})
        return
    output.data.print(bench_table(cells))
    output.data.print(f"checkpoint: {folder}")
    output.words.print(DEFINITIONS, style="dim")
    output.words.print(HONESTY, style="yellow")
    output.words.print(f"next: unmask verify {folder} · unmask chat {folder}")


def decode_both(
    parent: "Model",
    adapted: "Model",
    held_out: "list[Problem]",
    max_new_tokens: int,
    output: Output,
) -> "list[Cell]":
    """Decode the same problems in both modes with the canvas live; one cell per mode."""
    from dataclasses import asdict, replace

    from unmask.decode.options import DecodeOptions, Mode
    from unmask.evals.cell import Point, summarise

    modes: tuple[tuple[Model, Mode], ...] = ((parent, "ar"), (adapted, "diffusion"))
    points = [
        Point(model, DecodeOptions(mode=mode, cache="dual", max_new_tokens=max_new_tokens), 1, mode)
        for model, mode in modes
    ]
    for point in points:
        point.model.generate(["warm up"], **{**asdict(point.options), "max_new_tokens": 4})
    answers: list[list[Generation]] = [[] for _ in points]
    for number, problem in enumerate(held_out, start=1):
        output.words.rule(f"problem {number} of {len(held_out)}")
        output.words.print(problem.messages[-1]["content"], markup=False)
        for (model, _), point, told in zip(modes, points, answers, strict=True):
            told.append(_show(model, problem, asdict(point.options), output))
    cells = [
        summarise(point, held_out, told, [sum(answer.seconds for answer in told)])
        for point, told in zip(points, answers, strict=True)
    ]
    return [replace(cell, ratio=cell.tokens_per_s / cells[0].tokens_per_s) for cell in cells]


def _show(
    model: "Model", problem: "Problem", settings: dict[str, object], output: Output
) -> "Generation":
    generation = watch_answer(model, problem.messages, output, **settings)
    verdict = "right" if problem.is_correct(generation.text) else "wrong"
    output.words.print(generation.text, style="cyan", markup=False)
    output.words.print(f"{describe(generation)}; {verdict}", style="dim")
    return generation
