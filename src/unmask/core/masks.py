"""Which token sees which: one rule, read off four integers per token. Knows no model.

1. Tokens of different documents never see each other (fillers have a document of their own).
2. clean → clean: the same or an earlier block (`block`), the same or an earlier place (else).
3. noisy → clean: strictly earlier blocks.
4. noisy → noisy: the same view of the same block; in context `draft` no later place of it.
5. clean → noisy: never.
6. In context `full` there is one stream, and all of a document sees all of it.

Source: Fast-dLLM v2, arXiv:2509.26328, its attention mask; rule 2 `causal` and several views
beside one clean half are ours. Training and decoding both come here.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from unmask.config import Context

CLEAN = 0
"""Stream number of clean tokens; the noisy views count from 1."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where tokens stand; four int64 tensors of one shape."""

    document: Tensor
    """Which document; -1 is a filler."""
    block: Tensor
    """Which block of the row."""
    stream: Tensor
    """0 clean, 1, 2, … the noisy views."""
    position: Tensor
    """Place in the row, the same for a token and its noisy copies."""

    def __getitem__(self, index: object) -> "Places":
        """Index all four alike."""
        fields = (self.document, self.block, self.stream, self.position)
        return Places(*(tensor[index] for tensor in fields))  # type: ignore[index]


def sees(query: Places, key: Places, context: Context) -> Tensor:
    """True where `query` may look at `key`; shapes broadcast.

    >>> one = torch.tensor
    >>> noisy = Places(one([0]), one([1]), one([1]), one([2]))
    >>> clean = Places(one([0, 0]), one([0, 1]), one([0, 0]), one([1, 2]))
    >>> sees(noisy, clean, "block")
    tensor([ True, False])
    """
    if context == "full":
        return query.document == key.document
    is_past = key.position <= query.position
    clean_to_clean = key.block <= query.block if context == "block" else is_past
    same_view = (query.stream == key.stream) & (query.block == key.block)
    if context == "draft":
        same_view &= is_past
    to_clean = torch.where(query.stream == CLEAN, clean_to_clean, key.block < query.block)
    seen = torch.where(key.stream == CLEAN, to_clean, same_view)
    return seen & (query.document == key.document)


def dense_mask(query_BQ: Places, key_BK: Places, context: Context) -> Tensor:
    """(B, 1, Q, K) bool for dense attention; True = visible."""
    return sees(query_BQ[:, :, None], key_BK[:, None, :], context)[:, None]


def flex_mask(places_BT: Places, context: Context) -> BlockMask:
    """The same rule as a flex_attention `BlockMask`, for self-attention over (B, T) tokens."""
    rows, length = places_BT.block.shape

    def rule(b: Tensor, _h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return sees(places_BT[b, q], places_BT[b, k], context)

    return create_block_mask(rule, rows, None, length, length, device=str(places_BT.block.device))
