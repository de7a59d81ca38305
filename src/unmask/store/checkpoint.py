"""Reading a checkpoint: an ordinary Hugging Face or PEFT folder, plus `unmask.json` if adapted."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from unmask.config import FILE_NAME, DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.denoiser import Gate
from unmask.errors import ModelError
from unmask.store.adapter import ADAPTER_CONFIG, adapter_weights
from unmask.store.denoiser import load_denoiser
from unmask.store.embedded import Progress
from unmask.store.foreign import find_published, load_published
from unmask.store.resolve import resolve_model
from unmask.store.vocabulary import (
    check_mask_token,
    embedding_rows,
    end_token_ids,
    make_room,
    name_mask_token,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a folder holds, in memory."""

    name: str
    """As the user typed it."""
    folder: Path
    model: Any
    """The stock Hugging Face model, any adapter merged into it."""
    tokenizer: Any
    config: DiffusionConfig | None
    """None for a model that is not adapted."""
    gate: Gate | None = None
    """Of the denoiser, where the model has one."""

    def backbone(self) -> Backbone:
        """The model behind our one call site."""
        mask_token_id = None if self.config is None else self.config.mask_token_id
        return Backbone(self.model, mask_token_id=mask_token_id, gate=self.gate)

    def end_token_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return end_token_ids(self.model, self.tokenizer)


def load_checkpoint(
    name: str,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    progress: Progress = lambda _text, _share: None,
) -> Checkpoint:
    """Load MODEL: a folder, an alias, or a hub id.

    Raises:
        ModelError: missing, truncated, or its parts do not belong together.
    """
    folder = resolve_model(name, progress)
    config = DiffusionConfig.load(folder) if (folder / FILE_NAME).exists() else None
    try:
        if (folder / ADAPTER_CONFIG).exists():
            model, tokenizer, gate = _load_adapted(folder, config, dtype, progress)
        else:
            gate, published = None, find_published(folder)
            if config is None and published is not None:
                model, tokenizer, config = load_published(folder, *published, dtype)
            else:
                model, tokenizer = _load_plain(folder, dtype), _load_tokenizer(folder)
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{name} is not a readable checkpoint: {reason}") from error
    if config is not None:
        check_mask_token(config, model, tokenizer)
    model = model.to(device).eval()
    return Checkpoint(
        name=name, folder=folder, model=model, tokenizer=tokenizer, config=config, gate=gate
    )


def _load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def _load_plain(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
    )
    if info["missing_keys"]:
        raise ModelError(
            f"{folder} lacks {len(info['missing_keys'])} of the model's tensors, such as "
            f"{min(info['missing_keys'])}; it is not a whole checkpoint"
        )
    return model


def _load_adapted(
    folder: Path, config: DiffusionConfig | None, dtype: torch.dtype, progress: Progress
) -> tuple[Any, Any, Gate | None]:
    """Load the parent that a PEFT folder names, and merge the adapter into it.

    A denoiser is put beside the parent's weights instead. A folder without a tokenizer uses its
    parent's.
    """
    from peft import PeftModel

    adapter_weights(folder)
    settings = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    parent_name = settings["base_model_name_or_path"]
    checkpoint = load_checkpoint(parent_name, dtype=dtype, progress=progress)
    parent, tokenizer = checkpoint.model, checkpoint.tokenizer
    if (folder / "tokenizer_config.json").exists():
        tokenizer = _load_tokenizer(folder)
    elif config is not None:
        name_mask_token(tokenizer)
    if config is not None:
        _grow(parent, config)
        if config.context == "draft":
            return parent, tokenizer, load_denoiser(folder, parent, config.mask_token_id)
    return PeftModel.from_pretrained(parent, folder).merge_and_unload(), tokenizer, None


def _grow(parent: Any, config: DiffusionConfig) -> None:
    rows = embedding_rows(parent)
    if rows not in (config.embedding_rows, config.mask_token_id):
        raise ModelError(
            f"vocabulary mismatch: the adapter was made for a parent of {config.embedding_rows} "
            f"embedding rows (mask token included), {config.base_model} has {rows}"
        )
    make_room(parent, config.mask_token_id)
