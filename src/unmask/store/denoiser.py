"""A denoiser on disk: a PEFT folder of an activated LoRA, read and written without its wrappers."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from unmask.core.denoiser import Gate, GatedLinear, add_denoiser, gated_parts
from unmask.errors import ModelError
from unmask.store.adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS, read_adapter

PREFIX = "base_model.model."


def _tensors(model: nn.Module) -> dict[str, nn.Parameter]:
    """The denoiser's weights under the names that PEFT gives them."""
    named: dict[str, nn.Parameter] = {}
    for name, part in gated_parts(model):
        if isinstance(part, GatedLinear):
            named[f"{PREFIX}{name}.lora_A.weight"] = part.lora_A
            named[f"{PREFIX}{name}.lora_B.weight"] = part.lora_B
        else:
            named[f"{PREFIX}{name}.token_adapter.trainable_tokens_delta"] = part.mask
    return named


def save_denoiser(folder: Path, model: Any, *, parent: str, rank: int, alpha: float) -> None:
    """Write the adapters of `model` into `folder`, in their own dtype."""
    from peft import LoraConfig

    parts = dict(gated_parts(model))
    embedding = next(name for name, part in parts.items() if not isinstance(part, GatedLinear))
    mask_token_id = parts[embedding].mask_token_id
    assert isinstance(mask_token_id, int)
    settings = LoraConfig(
        r=rank,
        lora_alpha=int(alpha),
        target_modules=sorted(parts.keys() - {embedding}),
        task_type="CAUSAL_LM",
        base_model_name_or_path=parent,
        inference_mode=True,
        alora_invocation_tokens=[mask_token_id],
        trainable_token_indices={embedding.rsplit(".", 1)[-1]: [mask_token_id]},
    )
    settings.save_pretrained(str(folder))
    tensors = {name: weight.detach().contiguous() for name, weight in _tensors(model).items()}
    tensors = {name: t[None] if t.ndim == 1 else t for name, t in tensors.items()}
    save_file(tensors, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})


def load_denoiser(folder: Path, model: Any, mask_token_id: int) -> Gate:
    """Put the adapters in `folder` on `model`, which has a row for the mask token.

    Raises:
        ModelError: they were made for another model.
    """
    settings = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    gate = add_denoiser(
        model, rank=settings["r"], alpha=settings["lora_alpha"], mask_token_id=mask_token_id
    )
    fill_denoiser(folder, model)
    return gate


@torch.no_grad()
def fill_denoiser(folder: Path, model: Any) -> None:
    """Overwrite the adapters on `model` with those in `folder`.

    Raises:
        ModelError: they were made for another model.
    """
    saved, wanted = read_adapter(folder), _tensors(model)
    odd = sorted(saved.keys() ^ wanted.keys())
    odd += [name for name in saved.keys() & wanted.keys()
            if saved[name].numel() != wanted[name].numel()]  # fmt: skip
    if odd:
        raise ModelError(
            f"{folder} and its parent do not belong together: {len(odd)} adapters have no place "
            f"or another size, such as {odd[0]}"
        )
    for name, weight in wanted.items():
        weight.copy_(saved[name].view_as(weight))
