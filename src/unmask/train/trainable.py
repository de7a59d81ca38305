"""Which weights are trained: all, LoRA on all linear layers, or a denoiser; and how they are saved.

The mask token's embedding is trained with each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unmask.core.denoiser import Gate, add_denoiser
from unmask.store.adapter import read_adapter
from unmask.store.denoiser import fill_denoiser, save_denoiser
from unmask.train.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Trainable:
    """A model made ready to train."""

    save: Callable[[Path], object]
    """Writes what is trained into a folder."""
    gate: Gate | None = None
    """Of the denoiser, if that is what is trained."""


def make_trainable(
    model: Any, recipe: Recipe, *, parent: str, mask_token_id: int | None, saved: Path | None
) -> Trainable:
    """Freeze and wrap `model` as the recipe says.

    Args:
        model: the stock model.
        recipe: what is trained; rank and alpha.
        parent: what adapters name as their parent.
        mask_token_id: None for `ar`.
        saved: folder of adapters to go on from; None = new ones.
    """
    if recipe.trainable == "full":
        return Trainable(model.save_pretrained)
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)  # the first factor starts at random
        if recipe.context != "draft":
            return _lora(model, recipe, parent, mask_token_id, saved)
        assert mask_token_id is not None, "a diffusion run has a mask token"
        gate = add_denoiser(
            model, rank=recipe.lora_rank, alpha=recipe.lora_alpha, mask_token_id=mask_token_id
        )
    if saved is not None:
        fill_denoiser(saved, model)
    save = partial(
        save_denoiser, model=model, parent=parent, rank=recipe.lora_rank, alpha=recipe.lora_alpha
    )
    return Trainable(save, gate)


def _lora(
    model: Any, recipe: Recipe, parent: str, mask_token_id: int | None, saved: Path | None
) -> Trainable:
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

    embedding = next(
        name for name, module in model.named_modules() if module is model.get_input_embeddings()
    )
    settings = LoraConfig(
        r=recipe.lora_rank,
        lora_alpha=recipe.lora_alpha,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        trainable_token_indices=(
            None if mask_token_id is None else {embedding.rsplit(".", 1)[-1]: [mask_token_id]}
        ),
    )
    wrapped = get_peft_model(model, settings)
    wrapped.peft_config["default"].base_model_name_or_path = parent  # PEFT puts the model's name
    if saved is not None:
        set_peft_model_state_dict(wrapped, read_adapter(saved))
    return Trainable(partial(wrapped.save_pretrained, save_embedding_layers=False))
