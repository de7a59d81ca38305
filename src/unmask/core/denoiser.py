"""A denoiser: low-rank adapters that act on masks only, beside weights that stay the parent's.

Masks are the last queries of a forward, so the gate is one number. With no masks in a forward the
model computes what it computed before, bit for bit: AR decoding and verification are the parent's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from unmask.errors import ModelError


@dataclass(slots=True)
class Gate:
    """Shared by all adapters of a model."""

    masks: int = 0
    """They act on this many last queries of each row."""


class GatedLinear(nn.Module):
    """A linear layer with a low-rank adapter behind the gate: W x + scale · B A x on masks.

    Source: LoRA, arXiv:2106.09685; the gate is that of activated LoRA, arXiv:2504.12397.
    """

    def __init__(self, base: nn.Linear, rank: int, scale: float, gate: Gate) -> None:
        super().__init__()
        self.base, self.scale, self.gate = base, scale, gate
        weight = base.weight
        self.lora_A = nn.Parameter(weight.new_empty(rank, base.in_features))
        self.lora_B = nn.Parameter(weight.new_zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=5**0.5)

    def forward(self, input: Tensor) -> Tensor:
        """(…, Q, in) → (…, Q, out)."""
        output: Tensor = self.base(input)
        masks = self.gate.masks
        if masks:
            seen, part = input[..., -masks:, :], output[..., -masks:, :]
            if part.is_contiguous() and part.dtype == self.lora_B.dtype:  # one row, no autocast
                # Added where it stands: half the kernels.
                low = seen.reshape(-1, seen.shape[-1]) @ self.lora_A.T
                part.view(-1, part.shape[-1]).addmm_(low, self.lora_B.T, alpha=self.scale)
            else:
                part += linear(linear(seen, self.lora_A), self.lora_B) * self.scale
        return output


class GatedEmbedding(nn.Module):
    """An embedding whose mask token has a trainable vector of its own."""

    def __init__(self, base: nn.Embedding, mask_token_id: int) -> None:
        super().__init__()
        self.base, self.mask_token_id = base, mask_token_id
        with torch.no_grad():
            mask = base(torch.tensor([mask_token_id], device=base.weight.device))[0].clone()
        self.mask = nn.Parameter(mask)

    @property
    def weight(self) -> Tensor:
        """The parent's (V, E) embedding."""
        return self.base.weight

    def forward(self, input: Tensor) -> Tensor:
        """(…) token ids → (…, E)."""
        is_mask = (input == self.mask_token_id)[..., None]
        return torch.where(is_mask, self.mask, self.base(input))


def add_denoiser(model: Any, *, rank: int, alpha: float, mask_token_id: int) -> Gate:
    """Put adapters on all linear layers but the head, and free the mask token's embedding.

    Everything else is frozen. New adapters change nothing: B starts at zero.

    Raises:
        ModelError: the model has no linear layers to put them on.
    """
    model.requires_grad_(False)
    gate, head = Gate(), model.get_output_embeddings()
    found = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Linear) and child is not head
    ]
    if not found:
        raise ModelError(f"{type(model).__name__} has no linear layers for a denoiser to adapt")
    for parent, name, child in found:
        setattr(parent, name, GatedLinear(child, rank, alpha / rank, gate))
    model.set_input_embeddings(GatedEmbedding(model.get_input_embeddings(), mask_token_id))
    return gate


def gated_parts(model: nn.Module) -> Iterator[tuple[str, GatedLinear | GatedEmbedding]]:
    """The denoiser's modules by the name that the parent's layer has."""
    for name, module in model.named_modules():
        if isinstance(module, GatedLinear | GatedEmbedding):
            yield name, module
