"""Linear layers with int8 weights for a CPU, through torch's own quantised kernels.

Weights: symmetric, one scale per output. Activations: quantised at each call, one scale for all its
rows, so that an answer may depend on what shares its batch. Approximate, and not for training.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from unmask.errors import ConfigError


class Int8Linear(nn.Linear):
    """`nn.Linear` computed in int8; made by `use_int8_linear`."""

    packed: Any

    def forward(self, input: Tensor) -> Tensor:
        """(…, in) → (…, out), float32."""
        # 7 bits of activation: kernels without VNNI add pairs of products in 16 bits.
        product: Tensor = torch.ops.quantized.linear_dynamic(input, self.packed, reduce_range=True)
        return product


def use_int8_linear(model: Any) -> None:
    """Turn every linear layer of a model into an `Int8Linear`, for good.

    Raises:
        ConfigError: the model is not float32 on a CPU.
    """
    if model.device.type != "cpu" or model.dtype != torch.float32:
        raise ConfigError(
            f"int8 runs in float32 on a CPU, got {model.dtype} on {model.device.type}; "
            "leave --quantize out"
        )
    head = model.get_output_embeddings()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.packed = _pack(module)
            module.__class__ = Int8Linear
            if module is not head:  # the head may share its weights with the embedding
                module.weight = None  # type: ignore[assignment]


@torch.no_grad()
def _pack(module: nn.Linear) -> Any:
    weight = module.weight.detach()
    scale = weight.abs().amax(1).double().clamp_min(1e-12) / 127
    zero = torch.zeros(len(scale), dtype=torch.long)
    with warnings.catch_warnings():
        # torch means to drop quantised tensors; its other int8 kernels are slower than float32
        # for several rows on CPUs without VNNI (dev/LOG.md, 2026-11-30).
        warnings.filterwarnings("ignore", message=".*quantized tensor creation functions")
        quantized = torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(quantized, module.bias)
