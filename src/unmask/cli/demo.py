"""`unmask demo`: lossless decoding with a shipped adapter, then the whole path, in minutes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.adapt import run_adapt
from unmask.cli.bench_table import bench_table
from unmask.cli.console import Output, load_model
from unmask.cli.generate import describe, watch_answer
from unmask.errors import ConfigError

if TYPE_CHECKING:
    from unmask.decode.model import Generation, Model
    from unmask.decode.options import Mode
    from unmask.evals.cell import Cell
    from unmask.evals.problems import Problem

PARENT = "smollm2"
DATA = "gym:gsm_symbolic"
DENOISER = "smollm2-gym"
DENOISER_DATA = "gym:word_sequence_reversal?min_words=8&max_words=12"
HONESTY = (
    "The diffusion model is a demonstration, not finished: a few minutes on a CPU show it how to "
    "fill in hidden tokens, not how to be right. Published recipes train on a billion tokens."
)


def command(
    minutes: Annotated[
        float, typer.Option(help="Minutes of adaptation; 0 = none: decode what is there.")
    ] = 3.0,
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
    """Decode losslessly with a shipped adapter, then adapt SmolLM2 and decode by diffusion, live.

    Run it again to go on from where the last adaptation stopped.
    """
    if minutes < 0 or problems < 1:
        raise ConfigError("--minutes must be at least 0 and --problems at least 1")
    output = Output(as_json=json, quiet=quiet)
    from unmask.evals.cell import DEFINITIONS
    from unmask.store.embedded import cache_folder

    where: dict[str, Any] = {"device": device, "dtype": dtype}
    many = {"count": problems, "seed": seed, "max_new_tokens": max_new_tokens}
    results: dict[str, Any] = {
        "note": HONESTY,
        "lossless": decode_losslessly(output, where, **many),
    }
    folder = out or cache_folder() / "demo"
    if minutes:
        adapt_for(minutes, folder, seed, output, where)
    if minutes or (folder / "unmask.json").exists():
        results["checkpoint"] = str(folder)
        results["cells"] = decode_by_diffusion(folder, output, where, **many)
    if json:
        output.emit(results)
        return
    output.data.print(bench_table(results["lossless"]))
    if "cells" in results:
        output.data.print(bench_table(results["cells"]))
        output.data.print(f"checkpoint: {folder}")
    output.words.print(DEFINITIONS, style="dim")
    if "cells" in results:
        output.words.print(HONESTY, style="yellow")
        output.words.print(f"next: unmask verify {folder} · unmask chat {folder}")
    else:
        output.words.print("next: unmask demo, which adapts and decodes by diffusion too")


def decode_losslessly(
    output: Output, where: dict[str, Any], *, count: int, seed: int, max_new_tokens: int
) -> "list[Cell]":
    """The same model by AR and with its own drafts: the same tokens, in fewer forwards."""
    from unmask.evals.problems import load_problems

    output.words.print(
        f"1. lossless decoding: {DENOISER}, which ships with unmask, on reversed lists"
    )
    held_out = load_problems(DENOISER_DATA, count, seed=seed)
    model = load_model(DENOISER, output, **where)
    return decode_all([(model, "ar"), (model, "speculative")], held_out, max_new_tokens, output)


def adapt_for(
    minutes: float, folder: Path, seed: int, output: Output, where: dict[str, Any]
) -> None:
    """Adapt the parent, going on from where `folder` stands."""
    from unmask.train.recipe import load_recipe

    has_run = (folder / "trainer" / "state.json").exists()
    recipe = load_recipe("smollm2_cpu", {"seed": str(seed), "rows_per_step": "2"})
    what = "going on from" if has_run else "adapting into"
    output.words.print(f"2. {PARENT}: {what} {folder} for {minutes:g} minutes on {DATA}")
    run_adapt(
        output, model=PARENT, data=DATA, out=folder, recipe=recipe, minutes=minutes,
        resume=has_run, **where,
    )  # fmt: skip


def decode_by_diffusion(
    folder: Path, output: Output, where: dict[str, Any], *, count: int, seed: int,
    max_new_tokens: int,
) -> "list[Cell]":  # fmt: skip
    """The AR parent beside what was adapted from it."""
    from unmask.evals.problems import load_problems

    output.words.print("3. decoding held-out problems: the AR parent, then diffusion (cache dual)")
    parent = load_model(PARENT, output, **where)
    adapted = load_model(str(folder), output, **where)
    held_out = load_problems(DATA, count, seed=seed)
    return decode_all([(parent, "ar"), (adapted, "diffusion")], held_out, max_new_tokens, output)


def decode_all(
    ways: "list[tuple[Model, Mode]]", held_out: "list[Problem]", max_new_tokens: int,
    output: Output,
) -> "list[Cell]":  # fmt: skip
    """Decode the same problems in each way with the canvas live; one cell a way, AR first."""
    from dataclasses import asdict, replace

    from unmask.decode.options import DecodeOptions
    from unmask.evals.cell import Point, drift, summarise

    points = [
        Point(model, DecodeOptions(mode=mode, cache="dual", max_new_tokens=max_new_tokens), 1, mode)
        for model, mode in ways
    ]
    for point in points:
        point.model.generate(["warm up"], **{**asdict(point.options), "max_new_tokens": 12})
    answers: list[list[Generation]] = [[] for _ in points]
    for number, problem in enumerate(held_out, start=1):
        output.words.rule(f"problem {number} of {len(held_out)}")
        output.words.print(problem.messages[-1]["content"], markup=False)
        for (model, _), point, told in zip(ways, points, answers, strict=True):
            told.append(_show(model, problem, asdict(point.options), output))
    cells = [
        summarise(point, held_out, told, [sum(answer.seconds for answer in told)])
        for point, told in zip(points, answers, strict=True)
    ]
    tokens = [[answer.token_ids for answer in told] for told in answers]
    drifts = [drift(own, tokens[0]) if p.mode == "speculative" else None
              for own, p in zip(tokens, points, strict=True)]  # fmt: skip
    return [
        replace(cell, ratio=cell.tokens_per_s / cells[0].tokens_per_s, drift=difference)
        for cell, difference in zip(cells, drifts, strict=True)
    ]


def _show(
    model: "Model", problem: "Problem", settings: dict[str, object], output: Output
) -> "Generation":
    generation = watch_answer(model, problem.messages, output, **settings)
    verdict = "right" if problem.is_correct(generation.text) else "wrong"
    output.words.print(generation.text, style="cyan", markup=False)
    output.words.print(f"{describe(generation)}; {verdict}", style="dim")
    return generation
