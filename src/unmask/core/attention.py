"""The attention function that stock Hugging Face models call: dense mask, flex mask, or none.

No mask means that every query sees every key; it never means causal.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward

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
    is_causal: bool | None = None,  # a model's own idea of causality: the mask decides
    **options: Any,
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
    forward = sdpa_attention_forward
    if isinstance(attention_mask, BlockMask):
        forward = flex_attention_forward
    return forward(module, query, key, value, attention_mask, is_causal=False, **options)  # type: ignore[no-any-return]


AttentionInterface.register(NAME, attention)
