"""LLaDA: Llama under names of its own, everything sees everything, no token shift.

Source: arXiv:2502.09992 and the published config.json (GSAI-ML/LLaDA-8B-Instruct).
"""

from typing import Any, ClassVar

from unmask.config import DiffusionConfig
from unmask.store.foreign import Published

LAYER_NAMES = {
    "attn_norm": "input_layernorm", "q_proj": "self_attn.q_proj", "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj", "attn_out": "self_attn.o_proj",
    "ff_norm": "post_attention_layernorm", "ff_proj": "mlp.gate_proj", "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
}  # fmt: skip


class Llada(Published):
    """Names of layers and settings are translated; the head has rows to spare."""

    architecture = "LLaDAModelLM"
    model_type = "llama"
    mask_token = "<|mdm_mask|>"
    key_mapping: ClassVar[dict[str, str]] = {
        r"^model\.transformer\.wte\.": "model.embed_tokens.",
        r"^model\.transformer\.ln_f\.": "model.norm.",
        r"^model\.transformer\.ff_out\.": "lm_head.",
        **{rf"^model\.transformer\.blocks\.(\d+)\.{theirs}\.": rf"model.layers.\1.{llamas}."
           for theirs, llamas in LAYER_NAMES.items()},
    }  # fmt: skip

    def model_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Llama's words for LLaDA's settings."""
        return {
            "hidden_size": settings["d_model"],
            "num_hidden_layers": settings["n_layers"],
            "num_attention_heads": settings["n_heads"],
            "num_key_value_heads": settings.get("n_kv_heads") or settings["n_heads"],
            "intermediate_size": settings["mlp_hidden_size"],
            "max_position_embeddings": settings["max_sequence_length"],
            "vocab_size": settings["embedding_size"],
            "rms_norm_eps": settings["rms_norm_eps"],
            "rope_theta": settings["rope_theta"],
            "tie_word_embeddings": settings["weight_tying"],
            "eos_token_id": settings["eos_token_id"],
        }

    def diffusion_config(self, settings: dict[str, Any], mask_token_id: int) -> DiffusionConfig:
        """How the weights are meant to be read, by their config.json."""
        return DiffusionConfig(
            context="full",
            block_size=32,
            sub_block_size=32,
            token_shift=False,
            mask_token=self.mask_token,
            mask_token_id=mask_token_id,
            embedding_rows=int(settings["embedding_size"]),
            base_model="LLaDA",
        )


plugin = Llada
