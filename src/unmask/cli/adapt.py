"""`unmask adapt`: from a parent and data to a diffusion checkpoint."""

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.console import Output, clock, pick_device, pick_dtype
from unmask.errors import ConfigError

if TYPE_CHECKING:
    from unmask.train.plan import Plan
    from unmask.train.recipe import Recipe


def command(
    model: options.ModelArgument,
    data: options.TrainingData,
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint.")],
    recipe: Annotated[str, typer.Option(help="A recipe's name, or a TOML file.")] = "smollm2_cpu",
    steps: Annotated[int | None, typer.Option(help="Optimizer steps, in all.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Minutes from now.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Supervised tokens, in all.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from what OUT holds.")] = False,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Stop after the plan.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    seed: Annotated[int | None, typer.Option(help="The recipe's if unset.")] = None,
) -> None:
    """Adapt MODEL to diffusion. Ctrl-C saves; --resume goes on."""
    from unmask.train.recipe import load_recipe

    is_first = os.environ.get("RANK", "0") == "0"  # of those that a launcher has started
    output = Output(as_json=json, quiet=quiet or not is_first)
    overrides = parse_settings(set_ or [])
    if seed is not None:
        overrides["seed"] = str(seed)
    chosen = load_recipe(recipe, overrides)
    summary = run_adapt(
        output, model=model, data=data, out=out, recipe=chosen, steps=steps, minutes=minutes,
        tokens=tokens, resume=resume, is_dry_run=is_dry_run, device=device, dtype=dtype,
    )  # fmt: skip
    if not is_first:
        return
    if json:
        output.emit(summary)
    elif not is_dry_run:
        output.data.print(describe_run(summary))
        output.words.print(f"next: unmask verify {out} · unmask generate {out} PROMPT --watch")


def describe_run(summary: dict[str, Any]) -> str:
    """What a run came to, in a line."""
    if summary["loss"] is None:
        return f"{summary['out']}: nothing left to do within this budget"
    text = f"{summary['out']}: {summary['steps']} steps, loss {summary['loss']:.3f}"
    if summary["samples_too_long"]:
        text += f"; {summary['samples_too_long']} samples were too long for a row and left out"
    return text


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """`key=value` pairs of --set.

    Raises:
        ConfigError: a pair without `=`.
    """
    for pair in pairs:
        if "=" not in pair:
            raise ConfigError(f"--set expects key=value, got '{pair}'")
    return dict(pair.split("=", 1) for pair in pairs)


def run_adapt(
    output: Output,
    *,
    model: str,
    data: str,
    out: Path,
    recipe: "Recipe",
    steps: int | None = None,
    minutes: float | None = None,
    tokens: int | None = None,
    resume: bool = False,
    is_dry_run: bool = False,
    device: str = "auto",
    dtype: str = "auto",
) -> dict[str, Any]:
    """Adapt with the plan and a bar on stderr; returns a summary."""
    with output.bar(f"loading {model}") as show:
        from unmask.train.adapt import adapt
        from unmask.train.loop import Budget, StepReport

        limits = {"steps": steps, "minutes": minutes, "tokens": tokens}
        if all(limit is None for limit in limits.values()):
            limits["steps"] = recipe.steps
        for name, limit in limits.items():
            if limit is not None and limit <= 0:
                raise ConfigError(f"--{name} must be above 0, got {limit}")
        last: list[StepReport] = []

        def on_step(report: StepReport) -> None:
            last[:] = [report]
            text = f"step {report.step}  loss {report.loss:.3f}"
            show(text, report.share_done, report.seconds_left)

        device = pick_device(device)
        plans: list[Plan] = []

        def on_plan(plan: "Plan") -> None:
            plans.append(plan)
            output.words.print(describe_plan(plan, recipe))
            show("step 1", 0.0, plan.seconds)

        adapt(
            model, data, out, recipe=recipe, budget=Budget(**limits), resume=resume,  # type: ignore[arg-type]
            is_dry_run=is_dry_run, device=device, dtype=pick_dtype(dtype, device),
            on_plan=on_plan, on_step=on_step, on_progress=show,
        )  # fmt: skip
    return {
        "out": str(out),
        "steps": last[-1].step if last else 0,
        "loss": last[-1].loss if last else None,
        "samples_too_long": last[-1].too_long if last else 0,
        "plan": plans[-1],
        "recipe": dataclasses.asdict(recipe),
    }


def describe_plan(plan: "Plan", recipe: "Recipe") -> str:
    """What the run will take, in two lines."""
    what = f"{recipe.objective}, context {recipe.context}, {recipe.trainable}"
    text = (
        f"plan: {what}; {plan.trainable_parameters / 1e6:.1f} M trainable parameters\n"
        f"      about {plan.steps} steps of {plan.seconds_per_step:.0f} s, "
        f"{plan.supervised_tokens:,} supervised tokens, {plan.flops:.1e} FLOP, "
        f"{plan.memory_gib:.1f} GiB, {clock(plan.seconds)}"
    )
    if plan.processes > 1:
        text += f"\n      on {plan.processes} processes, {plan.memory_gib:.1f} GiB each"
    if plan.samples_too_long:
        text += f"\n      {plan.samples_too_long} of the first samples do not fit into a row"
    return text
