"""Cache policies: which positions a forward computes anew. One file each."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from unmask.core.canvas import Canvas
from unmask.decode.options import DecodeOptions
from unmask.decode.strategy import Strategy
from unmask.errors import ConfigError
from unmask.plugins import load_plugin


@dataclass(frozen=True, slots=True)
class Spans:
    """For each row, the positions [first, first + width) that the next forward computes."""

    first_B: Tensor
    width_B: Tensor


class Policy(Protocol):
    """A cache policy."""

    uses_cache: bool
    """False: every forward computes its whole context."""
    covers_block: bool
    """Every denoising step computes all of the open block, so that nothing stale is read: exact."""

    def plan(self, canvas: Canvas, rows_B: Tensor, is_full_B: Tensor, read_offset: int) -> Spans:
        """Spans of the next forward.

        Args:
            canvas: where the rows stand.
            rows_B: the rows.
            is_full_B: their block is decoded and is to be committed.
            read_offset: 1 where token i is read from hidden state i - 1, else 0.
        """
        ...


def make_policy(options: DecodeOptions, strategy: Strategy, *, is_whole: bool = False) -> Policy:
    """The cache policy that the options name, or the exact one.

    Raises:
        ConfigError: there is no such policy, or the strategy would not see what it looks at.
    """
    name = options.cache or ("none" if is_whole else "block")
    if is_whole and name != "none":
        raise ConfigError(
            f"context full cannot use cache {name}: each decided token changes all that was "
            "computed; leave --cache out"
        )
    policy: Policy = load_plugin("unmask.decode.policies", name)()
    if strategy.scope == "block" and not policy.covers_block:
        raise ConfigError(
            f"strategy {options.strategy} looks at the whole block, cache {name} computes "
            "a part of it; use cache block"
        )
    return policy
