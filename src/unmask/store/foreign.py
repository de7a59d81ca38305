"""Reading checkpoints that others published: their config.json, without their code."""

import json
from pathlib import Path
from typing import Any, ClassVar

import torch

from unmask.config import DiffusionConfig
from unmask.errors import ModelError
from unmask.plugins import load_plugin, plugin_names

PACKAGE = "unmask.store.published"
OWN_KEYS = ("architectures", "auto_map", "model_type", "transformers_version", "torch_dtype",
            "attn_implementation")  # fmt: skip
"""What their config.json says of their code, and not of the weights."""


class Published:
    """One kind of published checkpoint."""

    architecture: str
    """What its config.json calls it."""
    model_type: str
    """The architecture of transformers that its weights are."""
    mask_token: str
    """As its tokenizer spells it."""
    key_mapping: ClassVar[dict[str, str]] = {}
    """From patterns of its tensor names to those of transformers."""

    def model_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings of the model of transformers, from config.json."""
        return {key: value for key, value in settings.items() if key not in OWN_KEYS}

    def load_tokenizer(self, folder: Path) -> Any:
        """Its tokenizer, as its files describe it."""
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)

    def diffusion_config(self, settings: dict[str, Any], mask_token_id: int) -> DiffusionConfig:
        """How the weights are meant to be read, from config.json."""
        raise NotImplementedError


def find_published(folder: Path) -> tuple[Published, dict[str, Any]] | None:
    """The kind of a folder, and its config.json; None where it is nothing special."""
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    named = set(settings.get("architectures") or [])
    kinds: list[Published] = [load_plugin(PACKAGE, name)() for name in plugin_names(PACKAGE)]
    for kind in kinds:
        if kind.architecture in named:
            return kind, settings
    return None


def load_published(
    folder: Path, kind: Published, settings: dict[str, Any], dtype: torch.dtype
) -> tuple[Any, Any, DiffusionConfig]:
    """The stock model with the published weights, its tokenizer, and how the two are read.

    Raises:
        ModelError: tensors or the mask token are missing.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind.model_type, **kind.model_settings(settings))
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=dtype, use_safetensors=True, trust_remote_code=False,
        output_loading_info=True, key_mapping=kind.key_mapping or None,
    )  # fmt: skip
    if info["missing_keys"]:
        raise ModelError(
            f"{folder} lacks {len(info['missing_keys'])} tensors of {kind.architecture}, such as "
            f"{min(info['missing_keys'])}; it is not a whole checkpoint"
        )
    tokenizer = kind.load_tokenizer(folder)
    mask_token_id = tokenizer.convert_tokens_to_ids(kind.mask_token)
    if mask_token_id is None or mask_token_id == tokenizer.unk_token_id:
        raise ModelError(f"the tokenizer of {folder} lacks the mask token {kind.mask_token}")
    return model, tokenizer, kind.diffusion_config(settings, mask_token_id)
