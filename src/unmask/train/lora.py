"""LoRA on all linear layers, with the mask token's embedding trainable beside it."""

from typing import Any

import torch

from unmask.train.recipe import Recipe


def add_lora(model: Any, recipe: Recipe, mask_token_id: int | None) -> Any:
    """Wrap `model` in PEFT adapters; the parent's weights are frozen.

    Args:
        model: the stock model.
        recipe: rank and alpha.
        mask_token_id: its embedding row is trained and saved with the adapter; None for `ar`.
    """
    from peft import LoraConfig, get_peft_model

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
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)  # the first factor starts at random
        return get_peft_model(model, settings)
