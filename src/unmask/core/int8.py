"""Linear layers with int8 weights for a CPU, through torch's own quantised kernels.

Weights: symmetric, 8 bits, a scale for each output. Activations: symmetric, 7 bits, a scale for
each row, so that its product never depends on the batch. Approximate, and not for training.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from unmask.errors import ConfigError

_multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default


LARGEST = 63
"""7 bits of activation: kernels without VNNI add pairs of products in 16 bits."""


class Int8Linear(nn.Linear):
    """`nn.Linear` computed in int8; made by `use_int8_linear`."""

    packed: Any

    def forward(self, input: Tensor) -> Tensor:
        """(…, in) → (…, out), float32."""
        largest = input.abs().amax(-1, keepdim=True).clamp_min_(1e-12)
        product: Tensor = _multiply(input / largest, 1 / LARGEST, LARGEST + 1, self.packed)
        product.mul_(largest)
        return product if self.bias is None else product.add_(self.bias)


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
    return torch.ops.quantized.linear_prepack(quantized, None)
