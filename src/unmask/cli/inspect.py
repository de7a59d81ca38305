"""`unmask inspect`: what a checkpoint is, what it can do, and why not."""

from typing import TYPE_CHECKING, Any

from unmask.cli import options
from unmask.cli.console import Output, load_model
from unmask.errors import ModelError

if TYPE_CHECKING:
    from unmask.decode.model import Model


def command(
    model: options.ModelArgument,
    json: options.Json = False,
    quiet: options.Quiet = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    seed: options.Seed = 0,
) -> None:
    """Show regime, sizes, provenance and modes of MODEL."""
    output = Output(as_json=json, quiet=quiet)
    facts = describe_model(load_model(model, output, device=device, dtype=dtype))
    if json:
        output.emit(facts)
        return
    from rich.table import Table

    table = Table(show_header=False)
    for key, value in facts.items():
        listed = value.items() if isinstance(value, dict) else [("", value)]
        for name, item in listed:
            table.add_row(f"{key} {name}".strip().replace("_", " "), str(item))
    output.data.print(table)


def describe_model(model: "Model") -> dict[str, Any]:
    """Facts about a loaded checkpoint."""
    hf, config = model.checkpoint.model, model.config
    facts: dict[str, Any] = {
        "model": model.checkpoint.name,
        "folder": str(model.checkpoint.folder),
        "architecture": type(hf).__name__,
        "parameters": sum(p.numel() for p in hf.parameters()),
        "layers": hf.config.num_hidden_layers,
        "width": hf.config.hidden_size,
        "embedding_rows": model.backbone.head.weight.shape[0],
        "max_positions": model.backbone.max_positions,
        "end_tokens": model.tokenizer.convert_ids_to_tokens(
            sorted(model.checkpoint.end_token_ids())
        ),
        "chat_template": model.tokenizer.chat_template is not None,
    }
    if config is None:
        return {**facts, "can": _modes(model)}
    facts["regime"] = {
        "context": config.context,
        "block_size": config.block_size,
        "sub_block_size": config.sub_block_size,
        "token_shift": config.token_shift,
        "mask_token": f"{config.mask_token} = {config.mask_token_id}",
        "base_model": config.base_model,
    }
    facts["provenance"] = config.provenance
    return {**facts, "can": _modes(model)}


def _modes(model: "Model") -> dict[str, str]:
    """What each mode says to this checkpoint."""
    from unmask.decode.options import DecodeOptions, Mode

    modes: tuple[Mode, ...] = ("ar", "diffusion", "speculative")
    can: dict[str, str] = {}
    for mode in modes:
        try:
            model.decode_config(DecodeOptions(mode=mode))
            can[mode] = "yes"
        except ModelError as error:
            can[mode] = f"no: {error}"
    if model.config is not None and model.config.context == "block":
        can["ar"] = "yes, but its context was not trained causally"
    return can
