"""`unmask average`: the mean of several checkpoints of a run."""

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import options
from unmask.cli.console import Output
from unmask.errors import ConfigError


def command(
    folders: Annotated[list[Path], typer.Argument(help="Checkpoints, two or more.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A new folder.")],
    weights: Annotated[
        str | None, typer.Option(help="One number each, with commas; equal if unset.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Average the weights of FOLDERS, such as those that --set keep=5 leaves beside a run."""
    output = Output(as_json=json, quiet=quiet)
    if len(folders) < 2:
        raise ConfigError(f"an average needs two checkpoints or more, got {len(folders)}")
    with output.bar("averaging") as show:
        from unmask.store.average import average_checkpoints

        average_checkpoints(
            folders, out, weights=_numbers(weights),
            on_share=lambda share: show("averaging", share),
        )  # fmt: skip
    if json:
        output.emit({"out": str(out), "folders": [str(folder) for folder in folders]})
    else:
        output.words.print(f"{out}: the average of {len(folders)} checkpoints")


def _numbers(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--weights expects numbers like 1,2,3; got '{text}'") from None
