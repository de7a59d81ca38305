"""`unmask plot`: the results of a bench as a picture."""

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.console import Output
from unmask.errors import ConfigError, MissingExtraError

ENDINGS = (".pdf", ".png", ".svg")


def command(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="From unmask bench --out.")],
    out: Annotated[
        Path | None, typer.Option(help="png, svg or pdf; beside RESULTS if unset.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw quality against speed, speed against batch size, and the order of decoding."""
    output = Output(as_json=json, quiet=quiet)
    picture = out or results.with_suffix(".png")
    check_picture(picture)
    read = read_results(results)
    load_plots().draw(read, picture)
    if json:
        output.emit({"out": str(picture), "cells": len(read["cells"])})
    else:
        output.text(str(picture))


def check_picture(path: Path) -> None:
    """Raise a ConfigError unless a picture can be written there."""
    if path.suffix not in ENDINGS:
        raise ConfigError(f"--out {path} must end in {', '.join(ENDINGS)}")
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"cannot write --out {path}: {path.parent} is no folder")


def load_plots() -> Any:
    """The module that draws, where matplotlib is installed."""
    try:
        from unmask.evals import plots
    except ModuleNotFoundError as error:
        raise MissingExtraError('plotting needs matplotlib: pip install "unmask[eval]"') from error
    return plots


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
