"""Fast-dLLM v2: Qwen2.5, blocks of 32, token shift.

Source: arXiv:2509.26328 and the published code and config.json
(Efficient-Large-Model/Fast_dLLM_v2_1.5B and _7B).
"""

from typing import Any

from unmask.config import DiffusionConfig
from unmask.store.foreign import Published


class FastDllmV2(Published):
    """Qwen2's own tensor names."""

    architecture = "Fast_dLLM_QwenForCausalLM"
    model_type = "qwen2"
    mask_token = "|<MASK>|"
    """Id 151665, which Qwen2.5 leaves unused."""

    def diffusion_config(self, settings: dict[str, Any], mask_token_id: int) -> DiffusionConfig:
        """How the weights are meant to be read, by their config.json."""
        size = int(settings.get("bd_size", 32))
        return DiffusionConfig(
            context="block",
            block_size=size,
            sub_block_size=8 if size % 8 == 0 else size,
            token_shift=True,
            mask_token=self.mask_token,
            mask_token_id=mask_token_id,
            embedding_rows=int(settings["vocab_size"]),
            base_model="Qwen2.5",
        )


plugin = FastDllmV2
