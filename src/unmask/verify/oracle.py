"""Oracles: slow and plain, sharing no code with what they judge but the Hugging Face model."""

from typing import Any

import torch
from torch import Tensor

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone


def stock_logits(backbone: Backbone, tokens: list[int], mask: list[list[bool]] | None,
                 positions: list[int] | None = None) -> Tensor:  # fmt: skip
    """(L, V) float32 logits of the stock model; causal where `mask` is None."""
    device = backbone.device
    options: dict[str, Any] = {}
    if mask is not None:
        options["attention_mask"] = torch.tensor(mask, device=device)[None, None]
    places = torch.arange(len(tokens)) if positions is None else torch.tensor(positions)
    with backbone.stock() as model, torch.no_grad():
        logits = model(
            input_ids=torch.tensor([tokens], device=device),
            position_ids=places[None].to(device),
            use_cache=False,
            **options,
        ).logits[0]
    logits = logits.float().cpu()
    if backbone.mask_token_id is not None:
        logits[:, backbone.mask_token_id] = float("-inf")
    return logits  # type: ignore[no-any-return]


def decoding_mask(length: int, open_at: int, config: DiffusionConfig) -> list[list[bool]]:
    """Who sees whom while the block that starts at `open_at` is open, pair by pair."""
    size = config.block_size

    def sees(query: int, key: int) -> bool:
        if config.is_whole:
            return True
        if query >= open_at or config.context == "block":
            return key // size <= query // size
        return key <= query

    return [[sees(query, key) for key in range(length)] for query in range(length)]


def decode_one_at_a_time(
    backbone: Backbone, config: DiffusionConfig, prompt: list[int], new_tokens: int
) -> tuple[list[int], list[int]]:
    """Greedy decoding of one token per forward, without a cache: the most confident candidate.

    Returns:
        the new tokens, and the order in which their positions were decided.
    """
    size, sub, offset = config.block_size, config.sub_block_size, config.read_offset
    end = len(prompt) + new_tokens
    canvas = end if config.is_whole else -(-end // size) * size
    tokens = prompt + [config.mask_token_id] * (canvas - len(prompt))
    order: list[int] = []
    while len(order) < new_tokens:
        first = next(i for i in range(len(prompt), end) if i not in order)
        open_at = first // size * size
        is_carried = config.carries_start and first == open_at  # from the state of the commit
        length = open_at if is_carried else open_at + size
        length = canvas if config.is_whole else length
        open_from = length if is_carried else open_at
        logits = stock_logits(backbone, tokens[:length], decoding_mask(length, open_from, config))
        sub_end = open_at + ((first - open_at) // sub + 1) * sub
        candidates = [first] if is_carried else [
            i for i in range(first, min(sub_end, end)) if i not in order
        ]  # fmt: skip
        probabilities = logits[[i - offset for i in candidates]].softmax(-1)
        best = int(probabilities.max(-1).values.argmax())
        tokens[candidates[best]] = int(probabilities[best].argmax())
        order.append(candidates[best])
    return tokens[len(prompt) : end], order


def stock_generate(backbone: Backbone, prompt: list[int], new_tokens: int) -> list[int]:
    """Greedy `generate` of the stock model, the mask token suppressed, end tokens ignored."""
    suppressed = None if backbone.mask_token_id is None else [backbone.mask_token_id]
    ids = torch.tensor([prompt], device=backbone.device)
    with backbone.stock() as model, torch.no_grad():
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, do_sample=False,
            eos_token_id=None, pad_token_id=0, suppress_tokens=suppressed,
        )  # fmt: skip
    return output[0, len(prompt) :].tolist()  # type: ignore[no-any-return]
