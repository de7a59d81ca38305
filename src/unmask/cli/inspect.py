"""`unmask inspect`: what a checkpoint is, what it can do, and why not."""

from typing import TYPE_CHECKING, Any

from unmask.cli import options
from unmask.cli.console import Output, load_model

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
        why = "no unmask.json beside the weights: adapt it with `unmask adapt`"
        return {**facts, "can": {"ar": "yes", "diffusion": f"no: {why}"}}
    facts["regime"] = {
        "context": config.context,
        "block_size": config.block_size,
        "sub_block_size": config.sub_block_size,
        "token_shift": config.token_shift,
        "mask_token": f"{config.mask_token} = {config.mask_token_id}",
        "base_model": config.base_model,
    }
    facts["provenance"] = config.provenance
    ar = "yes" if config.context == "causal" else "yes, but its context was not trained causally"
    return {**facts, "can": {"ar": ar, "diffusion": "yes"}}
