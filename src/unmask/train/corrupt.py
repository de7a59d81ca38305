"""The forward process, and the layout [clean | view m | view m̄] that both streams share.

1. Each block draws its noise level t ~ U(0, 1); a target is masked with probability p(t).
2. The complementary view masks exactly the targets that the first one left.
3. With token shift, the first token of a block is read from the committed state before it, at
   training as at decoding: it stays visible in its own block and is learnt from the clean stream.
4. So over clean stream and both views every target is learnt exactly once; more pairs of views
   share the same clean stream, and every target is learnt once for each.
5. Noisy copies exist only of blocks that have a masked token.

Source: Fast-dLLM v2, arXiv:2509.26328 (per-block noise, complementary masks, token shift); point 3
and the clean stream shared by both views are ours.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unmask.core.masks import CLEAN, Places
from unmask.train.pack import PackedRow


class Noise(Protocol):
    """A noise schedule."""

    def mask_probability(self, t: Tensor) -> Tensor:
        """Probability that a token is masked at noise level t."""
        ...


@dataclass(frozen=True, slots=True)
class Supervision:
    """Which hidden state is to predict which token; both (M,) int64."""

    read: Tensor
    label: Tensor


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One row as the model sees it: T tokens, and what is read from them."""

    tokens: Tensor
    position: Tensor
    """For the rotary embedding."""
    places: Places
    """For the attention mask."""
    denoise: Supervision
    """Masked tokens and, with token shift, block starts."""
    next_token: Supervision
    """Every target, read causally from the clean stream."""

    def to(self, device: torch.device) -> "TrainingRow":
        """The same row where the model is."""
        places = self.places
        return TrainingRow(
            self.tokens.to(device),
            self.position.to(device),
            Places(*(t.to(device) for t in
                     (places.document, places.block, places.stream, places.position))),
            Supervision(self.denoise.read.to(device), self.denoise.label.to(device)),
            Supervision(self.next_token.read.to(device), self.next_token.label.to(device)),
        )  # fmt: skip

    @property
    def targets(self) -> int:
        """Different tokens learnt from this row."""
        masks = self.places.position[self.denoise.read]
        return len(self.next_token.label) or len(torch.unique(masks))

    @property
    def labels(self) -> int:
        """Terms of the loss: windows overlap and pairs of views repeat, so tokens may recur."""
        return len(self.denoise.label) or len(self.next_token.label)


def complementary_masks(
    can_mask_NS: Tensor, noise: Noise, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Two views that share out the maskable tokens of each block; both (N, S) bool."""
    t_N1 = torch.rand(len(can_mask_NS), 1, generator=generator)
    is_hit_NS = torch.rand(can_mask_NS.shape, generator=generator) < noise.mask_probability(t_N1)
    return can_mask_NS & is_hit_NS, can_mask_NS & ~is_hit_NS


def clean_layout(row: PackedRow, block_size: int) -> TrainingRow:
    """The clean stream alone: next-token prediction."""
    index = torch.arange(len(row.tokens))
    places = Places(row.document, index // block_size, torch.full_like(index, CLEAN), index)
    targets = row.is_target.nonzero()[:, 0]
    nothing = torch.zeros(0, dtype=torch.long)
    return TrainingRow(
        tokens=row.tokens,
        position=row.position,
        places=places,
        denoise=Supervision(nothing, nothing),
        next_token=Supervision(targets - 1, row.tokens[targets]),
    )


def whole_layout(
    row: PackedRow,
    *,
    mask_token_id: int,
    token_shift: bool,
    noise: Noise,
    generator: torch.Generator,
    pairs: int = 1,
) -> TrainingRow:
    """Pairs of complementary noisy views of whole documents, each a document of its own.

    There is no clean stream; every target is learnt once for each pair. One noise level a document.

    Source: LLaDA, arXiv:2502.09992 (one level a sequence); complementary views as in Fast-dLLM v2.
    """
    documents, index = int(row.document.max()) + 1, torch.arange(len(row.tokens))
    sources, masked, numbers = [], [], []
    for pair in range(pairs):
        t_L = torch.rand(documents, generator=generator)[row.document]
        is_hit = torch.rand(len(index), generator=generator) < noise.mask_probability(t_L)
        for view, is_masked in enumerate((row.is_target & is_hit, row.is_target & ~is_hit)):
            is_kept = torch.isin(row.document, row.document[is_masked])
            sources.append(index[is_kept])
            masked.append(is_masked[is_kept])
            numbers.append(torch.full((int(is_kept.sum()),), 2 * pair + view))
    source, is_masked, number = torch.cat(sources), torch.cat(masked), torch.cat(numbers)
    read = is_masked.nonzero()[:, 0]
    nothing = torch.zeros(0, dtype=torch.long)
    return TrainingRow(
        tokens=torch.where(is_masked, mask_token_id, row.tokens[source]),
        position=row.position[source],
        places=Places(row.document[source] + documents * number, source * 0, number + 1, source),
        denoise=Supervision(read - int(token_shift), row.tokens[source[read]]),
        next_token=Supervision(nothing, nothing),
    )


def noisy_layout(
    row: PackedRow,
    *,
    block_size: int,
    mask_token_id: int,
    token_shift: bool,
    noise: Noise,
    generator: torch.Generator,
    pairs: int = 1,
) -> TrainingRow:
    """The clean stream followed by pairs of complementary noisy views of its blocks."""
    clean = clean_layout(row, block_size)
    can_mask_NS = row.is_target.view(-1, block_size).clone()
    starts = torch.zeros(0, dtype=torch.long)
    if token_shift:
        starts = can_mask_NS[:, 0].nonzero()[:, 0] * block_size
        can_mask_NS[:, 0] = False
    index_NS = clean.places.position.view(-1, block_size)
    sources, masked = [clean.places.position], [torch.zeros_like(row.is_target)]
    views = [complementary_masks(can_mask_NS, noise, generator) for _ in range(pairs)]
    for is_masked_NS in (view_NS for pair in views for view_NS in pair):
        kept_N = is_masked_NS.any(1)
        sources.append(index_NS[kept_N].flatten())
        masked.append(is_masked_NS[kept_N].flatten())
    source, is_masked = torch.cat(sources), torch.cat(masked)
    stream = torch.cat([torch.full_like(s, n) for n, s in enumerate(sources)])
    read, starts = is_masked.nonzero()[:, 0], starts.repeat(pairs)
    return TrainingRow(
        tokens=torch.where(is_masked, mask_token_id, row.tokens[source]),
        position=row.position[source],
        places=Places(row.document[source], source // block_size, stream, source),
        denoise=Supervision(
            torch.cat([read - int(token_shift), starts - 1]),
            row.tokens[torch.cat([source[read], starts])],
        ),
        next_token=clean.next_token,
    )
