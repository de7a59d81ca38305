"""The attention function that stock Hugging Face models call: dense mask, flex mask, or none.

No mask means that every query sees every key; it never means causal.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.flex_attention import flex_attention_forward

from unmask.errors import ModelError

NAME = "unmask"
"""The name under which models find it: `model.set_attn_implementation(NAME)`."""


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | BlockMask | None,
    s_aux: Tensor | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,  # a model's own idea of causality and the like: the mask decides
) -> tuple[Tensor, Tensor | None]:
    """Attend with the mask as given.

    Raises:
        ModelError: the model uses attention sinks, soft-capping, or more keys than its sliding
            window; all three would be dropped without a word.
    """
    if s_aux is not None:
        raise ModelError("attention sinks (as in gpt_oss) are not supported; use another model")
    if softcap is not None:
        raise ModelError("attention soft-capping (as in gemma2) is not supported")
    if sliding_window is not None and key.shape[2] > sliding_window:
        raise ModelError(
            f"{key.shape[2]} keys exceed the model's sliding window of {sliding_window}; "
            "use a shorter prompt and fewer new tokens"
        )
    if isinstance(attention_mask, BlockMask):
        return flex_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout
        )
    groups = query.shape[1] // key.shape[1]
    is_native = attention_mask is None or query.device.type == "cpu"  # CUDA: no mask with groups
    if groups > 1 and not is_native:
        key, value = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
    attended = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, dropout_p=dropout, is_causal=False,
        scale=scaling, enable_gqa=groups > 1 and is_native,
    )  # fmt: skip
    return attended.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attention)
