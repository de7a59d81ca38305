"""The mask token: an unused id where the vocabulary has one, else one row more."""

from typing import Any

import torch

from unmask.config import DiffusionConfig
from unmask.errors import ModelError

MASK_TOKEN = "<|mask|>"


def embedding_rows(model: Any) -> int:
    """Rows of the model's input embedding."""
    return int(model.get_input_embeddings().weight.shape[0])


def end_token_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer, by the generation config and by the tokenizer."""
    ids = model.generation_config.eos_token_id
    listed = ids if isinstance(ids, list) else [ids]
    return frozenset(int(i) for i in (*listed, tokenizer.eos_token_id) if i is not None)


def add_mask_token(model: Any, tokenizer: Any) -> int:
    """Give tokenizer and model a mask token; return its id.

    Its row starts at the mean of the embedding: a token that means nothing in particular.
    A tokenizer that has the token already is left as it is.
    """
    known = tokenizer.convert_tokens_to_ids(MASK_TOKEN)
    if known is not None and known != tokenizer.unk_token_id:
        return int(known)
    mask_token_id = name_mask_token(tokenizer)
    make_room(model, mask_token_id)
    return mask_token_id


def name_mask_token(tokenizer: Any) -> int:
    """Give a tokenizer the mask token, behind all others; return its id."""
    tokenizer.add_special_tokens({"extra_special_tokens": [MASK_TOKEN]})
    return int(tokenizer.convert_tokens_to_ids(MASK_TOKEN))


def make_room(model: Any, mask_token_id: int) -> None:
    """Give the mask token a row in both embeddings, at the mean of the others."""
    rows = embedding_rows(model)
    if mask_token_id >= rows:
        model.resize_token_embeddings(mask_token_id + 1, mean_resizing=False)
    used = min(rows, mask_token_id)
    with torch.no_grad():
        for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
            layer.weight[mask_token_id] = layer.weight[:used].mean(0)


def check_mask_token(config: DiffusionConfig, model: Any, tokenizer: Any) -> None:
    """Raise a ModelError where unmask.json, tokenizer and weights do not agree."""
    got = tokenizer.convert_tokens_to_ids(config.mask_token)
    if got != config.mask_token_id:
        raise ModelError(
            f"wrong mask token: unmask.json says {config.mask_token} is {config.mask_token_id}, "
            f"the tokenizer says {got}; the checkpoint and its tokenizer do not belong together"
        )
    rows = embedding_rows(model)
    if rows != config.embedding_rows:
        raise ModelError(
            f"vocabulary mismatch: unmask.json was written for {config.embedding_rows} embedding "
            f"rows, the model has {rows}; the adapter and its parent do not belong together"
        )
