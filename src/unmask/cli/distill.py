"""`unmask distill`: a model answers prompts, to be learnt from."""

from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.console import Output, load_model
from unmask.errors import ConfigError


def command(
    model: options.ModelArgument,
    prompts: Annotated[
        str, typer.Option(help="file.jsonl with prompt or messages, or gym:NAME (with --limit).")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON Lines; goes on where it stopped.")],
    limit: Annotated[int | None, typer.Option(help="Prompts; all of a file if unset.")] = None,
    batch_size: Annotated[int, typer.Option(help="Prompts answered side by side.")] = 8,
    mode: options.Mode = "ar",
    max_new_tokens: options.MaxNewTokens = 256,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    quantize: options.Quantize = None,
    seed: options.Seed = 0,
) -> None:
    """Let MODEL answer prompts into a file that `unmask adapt --data` reads."""
    output = Output(as_json=json, quiet=quiet)
    for name, value in (("limit", limit), ("batch-size", batch_size)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} must be at least 1, got {value}")
    from unmask.decode.options import DecodeOptions
    from unmask.train.distill import distill, read_prompts

    chosen: dict[str, Any] = {
        "mode": mode, "max_new_tokens": max_new_tokens, "temperature": temperature,
        "top_p": top_p, "seed": seed,
    }  # fmt: skip
    DecodeOptions(**chosen)
    asked = read_prompts(prompts, limit, seed=seed)
    loaded = load_model(model, output, device=device, dtype=dtype, quantize=quantize)
    with output.bar("answering") as show:
        told = distill(loaded, asked, out, batch_size=batch_size,
                       on_share=lambda share: show("answering", share), **chosen)  # fmt: skip
    if json:
        output.emit({"out": str(out), "told": told})
        return
    output.words.print(f"{told.rows} rows in {out}, {told.new_rows} of them new")
    if told.cut:
        output.words.print(f"{told.cut} of them were cut at {max_new_tokens} tokens")
