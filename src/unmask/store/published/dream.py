"""Dream: Qwen2.5, everything sees everything, token shift.

Source: arXiv:2508.15487 and the published config.json (Dream-org/Dream-v0-Instruct-7B).
"""

from pathlib import Path
from typing import Any

from unmask.config import DiffusionConfig
from unmask.store.foreign import Published


class Dream(Published):
    """Qwen2's own tensor names, and its tokenizer under another name."""

    architecture = "DreamModel"
    model_type = "qwen2"
    mask_token = "<|mask|>"

    def load_tokenizer(self, folder: Path) -> Any:
        """Qwen2's, which its files call by another name."""
        from transformers import Qwen2Tokenizer

        return Qwen2Tokenizer.from_pretrained(folder)

    def diffusion_config(self, settings: dict[str, Any], mask_token_id: int) -> DiffusionConfig:
        """How the weights are meant to be read, by their config.json."""
        return DiffusionConfig(
            context="full",
            block_size=32,
            sub_block_size=32,
            token_shift=True,
            mask_token=self.mask_token,
            mask_token_id=mask_token_id,
            embedding_rows=int(settings["vocab_size"]),
            base_model="Qwen2.5",
        )


plugin = Dream
