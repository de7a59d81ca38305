"""`unmask plot`: the results of a bench, or a training run, as a picture."""

import importlib
import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.console import Output
from unmask.errors import ConfigError, MissingExtraError

ENDINGS = (".pdf", ".png", ".svg")


def command(
    results: Annotated[
        Path, typer.Argument(help="From unmask bench --out, or the folder of a training run.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="png, svg or pdf; beside RESULTS if unset.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a bench (quality, speed, order of decoding) or a training run (loss, gradient)."""
    output = Output(as_json=json, quiet=quiet)
    picture = out or results.with_name(results.name.removesuffix(".json") + ".png")
    check_picture(picture)
    if results.is_dir():
        log = read_log(results)
        told: dict[str, Any] = {"out": str(picture), "steps": len(log)}
        load_plots("training_plot").draw_training(log, picture, str(results))
    else:
        read = read_results(results)
        told = {"out": str(picture), "cells": len(read["cells"])}
        load_plots().draw(read, picture)
    if json:
        output.emit(told)
    else:
        output.text(str(picture))


def check_picture(path: Path) -> None:
    """Raise a ConfigError unless a picture can be written there."""
    if path.suffix not in ENDINGS:
        raise ConfigError(f"--out {path} must end in {', '.join(ENDINGS)}")
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"cannot write --out {path}: {path.parent} is no folder")


def load_plots(name: str = "plots") -> Any:
    """A module of `evals` that draws, where matplotlib is installed."""
    try:
        return importlib.import_module(f"unmask.evals.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtraError('plotting needs matplotlib: pip install "unmask[eval]"') from error


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The log of a training run: in its trainer/, or beside the weights of one that ships.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    for path in (folder / "trainer" / "log.jsonl", folder / "log.jsonl"):
        if path.exists():
            try:
                log = [json_module.loads(line) for line in path.read_text("utf-8").splitlines()]
            except ValueError as error:
                raise ConfigError(f"{path} is damaged: {error}") from error
            if log:
                return log
    raise ConfigError(f"{folder} holds no log of training; expected the --out of unmask adapt")


def read_results(path: Path) -> dict[str, Any]:
    """What a bench wrote.

    Raises:
        ConfigError: no such file, or not one of ours.
    """
    try:
        read: dict[str, Any] = json_module.loads(path.read_text(encoding="utf-8"))
        is_ours = bool(read["cells"]) and {"options", "accepted"} <= set(read["cells"][0])
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    except (KeyError, TypeError):
        is_ours = False
    if not is_ours:
        raise ConfigError(f"{path} is not a file of unmask bench --out; run the bench again")
    return read
