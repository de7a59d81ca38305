"""What a caller may choose for one generation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from unmask.errors import ConfigError, unknown_name

Mode = Literal["diffusion", "ar", "speculative"]

Limit = tuple[Callable[[float], bool], str]
LIMITS: dict[str, Limit] = {
    "threshold": (lambda x: 0 < x <= 1, "above 0 and at most 1 (one token a step)"),
    "k": (lambda x: x >= 1, "at least 1"),
    "block_size": (lambda x: x >= 1, "at least 1"),
    "draft_length": (lambda x: x >= 0, "at least 0 (plain AR)"),
    "factor": (lambda x: x > 0, "above 0"),
    "gamma": (lambda x: x >= 0, "at least 0"),
    "max_new_tokens": (lambda x: x >= 1, "at least 1"),
    "temperature": (lambda x: x >= 0, "at least 0"),
    "top_p": (lambda x: 0 < x <= 1, "above 0 and at most 1"),
    "seed": (lambda x: 0 <= x < 2**63, "at least 0 and below 2^63"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """Settings of a generation. Immutable; checked when made."""

    mode: Mode | None = None
    """`diffusion` = denoise blocks; `ar` = one token after another, strictly causal;
    `speculative` = the tokens of `ar`, drafted and verified; None = what the checkpoint is for."""
    strategy: str = "threshold"
    """Which tokens a denoising step accepts: a file of `decode/strategies`."""
    threshold: float = 0.9
    """Accept what is more probable than this; 1 is one token a step (Fast-dLLM v2)."""
    k: int = 1
    """Tokens a step of the strategies `topk` and `random`."""
    factor: float = 1.0
    """Of the strategy `factor` (Fast-dLLM)."""
    gamma: float = 0.1
    """Nats that the strategy `entropy` may lose at a step."""
    cache: str | None = None
    """What is computed anew at each step: a file of `decode/policies`; None = what is exact."""
    fuse_commit: bool = False
    """Commit a block and begin the next in one forward."""
    block_size: int | None = None
    """Tokens denoised together; None = what the checkpoint says."""
    sub_block_size: int | None = None
    """Tokens decided before moving right; None = what the checkpoint says."""
    draft_length: int | None = None
    """Tokens drafted at a time in mode `speculative`; None = what pays most, by measurement."""
    max_new_tokens: int = 256
    temperature: float = 0.0
    """0 takes the most probable token."""
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    """Texts that end the answer; not part of it."""
    ignore_eos: bool = False
    """Go on past end tokens, for measuring."""

    def __post_init__(self) -> None:
        if self.mode is not None and self.mode not in get_args(Mode):
            raise ConfigError(unknown_name("mode", self.mode, get_args(Mode)))
        for name, (is_good, wanted) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not is_good(value):
                raise ConfigError(f"{name} must be {wanted}, got {getattr(self, name)}")
        if not all(self.stop):
            raise ConfigError("a stop text must not be empty")


class OptionValues(TypedDict, total=False):
    """The fields of `DecodeOptions` as keyword arguments."""

    mode: Mode | None
    strategy: str
    threshold: float
    k: int
    factor: float
    gamma: float
    cache: str | None
    fuse_commit: bool
    block_size: int | None
    sub_block_size: int | None
    draft_length: int | None
    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop: tuple[str, ...]
    ignore_eos: bool
