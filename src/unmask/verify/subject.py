"""What is being verified: a checkpoint, and the token sequences that it is tried on."""

from dataclasses import dataclass
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.canvas import Sampling
from unmask.decode.engine import Engine, Request, Sequence
from unmask.decode.options import DecodeOptions
from unmask.decode.policy import make_policy
from unmask.decode.strategy import make_strategy
from unmask.verify.check import tolerance_of


class EngineSettings(TypedDict, total=False):
    """Keyword arguments of `Subject.engine`."""

    rows: int | None
    cache: str | None
    strategy: str
    threshold: float
    k: int
    fuse_commit: bool
    temperature: float
    seeds: list[int] | None
    end_token_ids: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A checkpoint under test."""

    backbone: Backbone
    config: DiffusionConfig
    seed: int = 0

    @property
    def tolerance(self) -> float:
        """For logits in this dtype."""
        return tolerance_of(self.backbone.dtype)

    def tokens(self, count: int, salt: int = 0) -> list[int]:
        """Random token ids, never the mask token."""
        generator = torch.Generator().manual_seed(self.seed * 1009 + salt)
        most = min(self.config.mask_token_id, self.config.embedding_rows)
        return torch.randint(0, max(2, most), (count,), generator=generator).tolist()

    def ragged_prompts(self) -> list[list[int]]:
        """Prompts of every length that blocks can trip over: 1, S-1, S, S+1, 2S-1, 2S."""
        size = self.config.block_size
        lengths = sorted({1, max(1, size - 1), size, size + 1, 2 * size - 1, 2 * size})
        return [self.tokens(length, salt=length) for length in lengths]

    def engine(
        self,
        prompts: list[list[int]],
        new_tokens: int,
        *,
        rows: int | None = None,
        cache: str | None = None,
        strategy: str = "threshold",
        threshold: float = 1.0,
        k: int = 1,
        fuse_commit: bool = False,
        temperature: float = 0.0,
        seeds: list[int] | None = None,
        end_token_ids: frozenset[int] = frozenset(),
    ) -> Engine:
        """An engine with these prompts submitted."""
        options = DecodeOptions(
            strategy=strategy, threshold=threshold, k=k, cache=cache,
            sub_block_size=self.config.sub_block_size,
        )  # fmt: skip
        chosen = make_strategy(options)
        engine = Engine(
            self.backbone,
            self.config,
            make_policy(options, chosen, is_whole=self.config.is_whole),
            chosen,
            rows=rows or len(prompts),
            max_len=max(map(len, prompts)) + new_tokens,
            fuse_commit=fuse_commit,
        )
        for prompt, seed in zip(prompts, seeds or [0] * len(prompts), strict=True):
            engine.submit(
                Request(
                    prompt=prompt,
                    max_new_tokens=new_tokens,
                    end_token_ids=end_token_ids,
                    sampling=Sampling(temperature=temperature, seed=seed),
                )
            )
        return engine

    def decode(
        self, prompts: list[list[int]], new_tokens: int, **settings: Unpack[EngineSettings]
    ) -> list[Sequence]:
        """Decode prompts to their end; `settings` are those of `engine`."""
        engine = self.engine(prompts, new_tokens, **settings)
        sequences = engine.waiting
        engine.run()
        return sequences


def as_logits(subject: Subject, hidden_TE: Tensor) -> Tensor:
    """Logits without gradient, on the CPU."""
    with torch.no_grad():
        return subject.backbone.logits(hidden_TE).cpu()
