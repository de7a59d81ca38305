"""`unmask chat`: a conversation with the live canvas."""

from typing import Any

from unmask.cli import options
from unmask.cli.console import Output, check_settings, load_model
from unmask.cli.generate import describe, watch_answer
from unmask.errors import PromptError


def command(
    model: options.ModelArgument,
    mode: options.Mode = None,
    strategy: options.Strategy = "threshold",
    threshold: options.Threshold = 0.9,
    k: options.K = 1,
    factor: options.Factor = 1.0,
    gamma: options.Gamma = 0.1,
    cache: options.Cache = None,
    fuse_commit: options.FuseCommit = False,
    block_size: options.BlockSize = None,
    sub_block_size: options.SubBlockSize = None,
    draft_length: options.DraftLength = None,
    max_new_tokens: options.MaxNewTokens = 256,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    quantize: options.Quantize = None,
    compile: options.Compile = False,
    seed: options.Seed = 0,
) -> None:
    """Talk with MODEL. An empty line starts anew, Ctrl-D ends; --json prints one object a turn."""
    output = Output(as_json=json, quiet=quiet)
    settings: dict[str, Any] = {
        "mode": mode, "strategy": strategy, "threshold": threshold, "k": k, "factor": factor,
        "gamma": gamma, "cache": cache, "fuse_commit": fuse_commit,
        "block_size": block_size, "sub_block_size": sub_block_size, "draft_length": draft_length,
        "max_new_tokens": max_new_tokens,
        "temperature": temperature, "top_p": top_p, "seed": seed,
    }  # fmt: skip
    check_settings(settings)
    loaded = load_model(
        model, output, device=device, dtype=dtype, quantize=quantize, compile=compile
    )
    history: list[dict[str, str]] = []
    while (said := _ask(output)) is not None:
        if not said.strip():
            history = []
            output.words.print("(new conversation)", style="dim")
            continue
        turn = [*history, {"role": "user", "content": said}]
        try:
            generation = watch_answer(loaded, turn, output, **settings)
        except PromptError as error:
            hint = "; an empty line starts a new conversation" if history else ""
            output.words.print(f"{error}{hint}", style="red", markup=False)
            continue
        history = [*turn, {"role": "assistant", "content": generation.text}]
        if json:
            output.emit(generation)
        else:
            output.text(generation.text)
            output.words.print(describe(generation), style="dim")


def _ask(output: Output) -> str | None:
    """The next line, None at the end of the input."""
    try:
        return output.words.input("[bold]> [/bold]")
    except (EOFError, KeyboardInterrupt):
        output.words.print()
        return None
