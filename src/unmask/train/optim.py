"""AdamW and its learning rate."""

from typing import Any, Protocol

import torch
from torch import nn

from unmask.plugins import load_plugin
from unmask.train.recipe import Recipe


class Schedule(Protocol):
    """How the learning rate goes after its warm-up."""

    def factor(self, share: float) -> float:
        """What the rate is multiplied by when this share of the run is done."""
        ...


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


def learning_rate(step: int, share: float, recipe: Recipe) -> float:
    """Rate of the step with this number, from 0: linear warm-up, times the schedule.

    Args:
        step: of the run.
        share: how much of the budget is used up.
        recipe: names the schedule.

    >>> [learning_rate(step, 0.0, Recipe(learning_rate=1.0, warmup_steps=4)) for step in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    schedule: Schedule = load_plugin("unmask.train.schedules", recipe.schedule)()
    warm_up = min(1.0, (step + 1) / max(1, recipe.warmup_steps))
    return recipe.learning_rate * warm_up * schedule.factor(share)
