"""`unmask order`: in which order a model decides its tokens."""

from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.console import Output, check_settings, load_model
from unmask.cli.plot import check_picture, load_plots
from unmask.errors import ConfigError


def command(
    model: options.ModelArgument,
    data: Annotated[str, typer.Option(help="gym:NAME or file.jsonl.")] = "gym:gsm_symbolic",
    limit: Annotated[int, typer.Option(help="Problems.")] = 8,
    strategy: options.Strategy = "threshold",
    threshold: options.Threshold = 1.0,
    k: options.K = 1,
    factor: options.Factor = 1.0,
    gamma: options.Gamma = 0.1,
    cache: options.Cache = None,
    block_size: options.BlockSize = None,
    sub_block_size: options.SubBlockSize = None,
    max_new_tokens: options.MaxNewTokens = 128,
    temperature: options.Temperature = 0.0,
    out: Annotated[Path | None, typer.Option(help="Heat map: png, svg or pdf.")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    seed: options.Seed = 0,
) -> None:
    """Tell how close to reading order MODEL decides the tokens of its answers."""
    output = Output(as_json=json, quiet=quiet)
    if limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {limit}")
    if out is not None:
        check_picture(out)
    chosen: dict[str, Any] = {
        "mode": "diffusion", "strategy": strategy, "threshold": threshold, "k": k, "factor": factor,
        "gamma": gamma, "cache": cache, "block_size": block_size, "temperature": temperature,
        "sub_block_size": sub_block_size, "max_new_tokens": max_new_tokens, "seed": seed,
    }  # fmt: skip
    check_settings(chosen)
    from unmask.evals.problems import load_problems

    problems = load_problems(data, limit, seed=seed)
    loaded = load_model(model, output, device=device, dtype=dtype)
    orders: list[list[int]] = []
    with output.bar("decoding") as show:
        for problem in problems:
            orders.append(loaded.generate(problem.messages, **chosen)[0].accepted)
            show("decoding", len(orders) / limit)
    told = summarise(orders)
    if out is not None:
        load_plots().draw_orders(orders, out)
    if json:
        output.emit({**told, "orders": orders, "options": chosen})
        return
    output.data.print(
        f"AR-ness of {told['answers']} answers: local {told['local']:.3f}, global "
        f"{told['global']:.3f}"
    )
    output.words.print("1 = left to right, 0 = backwards, 0.5 = at random", style="dim")


def summarise(orders: list[list[int]]) -> dict[str, Any]:
    """Means over the answers of two tokens or more.

    Raises:
        ConfigError: there are none.
    """
    from unmask.evals.order import global_ar_ness, local_ar_ness

    local, overall = (
        [value for order in orders if (value := measure(order)) is not None]
        for measure in (local_ar_ness, global_ar_ness)
    )
    if not local:
        raise ConfigError("no answer has two tokens or more; raise --max-new-tokens or --limit")
    return {
        "answers": len(local), "local": sum(local) / len(local),
        "global": sum(overall) / len(overall), "local_each": local, "global_each": overall,
    }  # fmt: skip
