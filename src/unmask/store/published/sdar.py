"""SDAR: Qwen3, blocks of 4, no token shift.

Source: arXiv:2510.06303 and the published config.json (JetLM/SDAR-1.7B-Chat and its sisters).
"""

from typing import Any

from unmask.config import DiffusionConfig
from unmask.store.foreign import Published


class Sdar(Published):
    """Qwen3's own tensor names."""

    architecture = "SDARForCausalLM"
    model_type = "qwen3"
    mask_token = "<|MASK|>"

    def diffusion_config(self, settings: dict[str, Any], mask_token_id: int) -> DiffusionConfig:
        """How the weights are meant to be read, by their config.json."""
        size = int(settings.get("block_size", 4))
        return DiffusionConfig(
            context="block",
            block_size=size,
            sub_block_size=size,
            token_shift=False,
            mask_token=self.mask_token,
            mask_token_id=mask_token_id,
            embedding_rows=int(settings["vocab_size"]),
            base_model="Qwen3",
        )


plugin = Sdar
