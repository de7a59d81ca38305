"""What a caller may choose for one generation."""

from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from unmask.errors import ConfigError, unknown_name

Mode = Literal["diffusion", "ar"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """Settings of a generation. Immutable; checked when made."""

    mode: Mode = "diffusion"
    """`diffusion` = denoise blocks; `ar` = one token after another, strictly causal."""
    strategy: str = "threshold"
    """Which tokens a denoising step accepts: a file of `decode/strategies`."""
    threshold: float = 0.9
    """Accept what is more probable than this; 1 is one token a step (Fast-dLLM v2)."""
    cache: str = "block"
    """What is computed anew at each step: a file of `decode/policies`."""
    sub_block_size: int | None = None
    """Tokens decided before moving right; None = what the checkpoint says."""
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
        if self.mode not in get_args(Mode):
            raise ConfigError(unknown_name("mode", self.mode, get_args(Mode)))
        if not 0 < self.threshold <= 1:
            raise ConfigError(
                f"threshold must be above 0 and at most 1, got {self.threshold}; "
                "1 decodes one token a step"
            )
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if self.temperature < 0:
            raise ConfigError(f"temperature must be at least 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be at least 0 and below 2^63, got {self.seed}")
        if not all(self.stop):
            raise ConfigError("a stop text must not be empty")


class OptionValues(TypedDict, total=False):
    """The fields of `DecodeOptions` as keyword arguments."""

    mode: Mode
    strategy: str
    threshold: float
    cache: str
    sub_block_size: int | None
    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop: tuple[str, ...]
    ignore_eos: bool
