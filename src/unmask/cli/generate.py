"""`unmask generate`: one prompt, one answer."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.canvas_view import draw_canvas
from unmask.cli.console import Output, check_settings, load_model
from unmask.errors import PromptError

if TYPE_CHECKING:
    from unmask.decode.model import Generation, Model


def command(
    model: options.ModelArgument,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The prompt; - = stdin.")] = "-",
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
    stop: Annotated[list[str] | None, typer.Option(help="Text that ends the answer.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="No chat template.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="See the answer unmask.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    quantize: options.Quantize = None,
    compile: options.Compile = False,
    seed: options.Seed = 0,
) -> None:
    """Answer PROMPT with MODEL."""
    output = Output(as_json=json, quiet=quiet)
    text = _read_stdin() if prompt == "-" else prompt
    settings: dict[str, Any] = {
        "mode": mode, "strategy": strategy, "threshold": threshold, "k": k, "factor": factor,
        "gamma": gamma, "cache": cache, "fuse_commit": fuse_commit,
        "block_size": block_size, "sub_block_size": sub_block_size, "draft_length": draft_length,
        "max_new_tokens": max_new_tokens,
        "temperature": temperature, "top_p": top_p, "stop": tuple(stop or ()), "seed": seed,
    }  # fmt: skip
    check_settings(settings)
    loaded = load_model(
        model, output, device=device, dtype=dtype, quantize=quantize, compile=compile
    )
    if watch:
        generation = watch_answer(loaded, text, output, raw=raw, **settings)
    else:
        generation = loaded.generate(text, raw=raw, **settings)[0]
    if json:
        output.emit(generation)
    else:
        output.text(generation.text)
        output.words.print(describe(generation), style="dim")


def _read_stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise PromptError(f"the prompt on stdin is not UTF-8: {error}") from error


def watch_answer(model: "Model", prompt: Any, output: Output, **settings: Any) -> "Generation":
    """Decode with the canvas drawn live on stderr."""
    from rich.live import Live

    with Live(console=output.words, transient=True, auto_refresh=False) as live:
        for event in model.stream(prompt, **settings):
            if event.canvas is not None:
                live.update(draw_canvas(event.canvas, model.tokenizer), refresh=True)
            if event.generation is not None:
                return event.generation
    raise AssertionError("a stream ends with its generation")


def describe(generation: "Generation") -> str:
    """One line about an answer."""
    nfe = generation.nfe
    return (
        f"{generation.mode}: {generation.new_tokens} tokens in {generation.seconds:.1f} s "
        f"({generation.tokens_per_s:.1f}/s), {generation.tpf:.2f} tokens per forward "
        f"({nfe.denoise} denoise + {nfe.commit} commit, {nfe.prefill} prefill), "
        f"{generation.finish_reason}"
    )
