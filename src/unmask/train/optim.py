"""AdamW and its learning rate."""

from typing import Any

import torch
from torch import nn

from unmask.train.recipe import Recipe


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW over the trainable weights; weight decay on matrices only."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        betas=(recipe.beta1, recipe.beta2),
    )


def learning_rate(step: int, recipe: Recipe) -> float:
    """Rate of the step with this number, from 0: linear warm-up, then constant.

    >>> [learning_rate(step, Recipe(learning_rate=1.0, warmup_steps=4)) for step in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return recipe.learning_rate * min(1.0, (step + 1) / max(1, recipe.warmup_steps))
