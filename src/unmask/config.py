"""`DiffusionConfig`: what makes a checkpoint a diffusion model; saved as `unmask.json`."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from unmask.errors import ConfigError, ModelError, unknown_name

FILE_NAME = "unmask.json"

Context = Literal["block", "causal", "draft", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionConfig:
    """How the weights beside it are meant to be read. Immutable; checked when made."""

    context: Context = "block"
    """What committed tokens attend to: `block` = bidirectional inside a block, causal across
    blocks (Fast-dLLM v2); `causal` = strictly causal, the AR model itself (ours); `draft` = causal
    for masks too, which may stand anywhere: they draft what the AR model verifies (ours); `full` =
    everything sees everything, to the end of the canvas (LLaDA, Dream, dQwen3.5)."""
    block_size: int = 32
    """S, tokens denoised together (Fast-dLLM v2)."""
    sub_block_size: int = 8
    """s, tokens decided before moving right inside the block (Fast-dLLM v2)."""
    token_shift: bool = True
    """Token i is read from hidden state i - 1, as the AR parent was trained (Fast-dLLM v2)."""
    mask_token: str = "<|mask|>"
    """The absorbing token as the tokenizer spells it."""
    mask_token_id: int
    """Its id; checked against the tokenizer when a checkpoint is loaded."""
    embedding_rows: int
    """Rows of the embedding, grown by one where the parent's vocabulary had no unused id."""
    base_model: str = ""
    """What the weights were adapted from."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Recipe, supervised tokens seen, version of unmask."""

    def __post_init__(self) -> None:
        if self.context not in get_args(Context):
            raise ConfigError(unknown_name("context", self.context, get_args(Context)))
        check_sub_block_size(self.block_size, self.sub_block_size)
        if not 0 <= self.mask_token_id < self.embedding_rows:
            raise ConfigError(
                f"mask_token_id {self.mask_token_id} is outside the embedding of "
                f"{self.embedding_rows} rows"
            )

    @property
    def read_offset(self) -> int:
        """Token i is read from hidden state i - `read_offset`."""
        return 1 if self.token_shift else 0

    @property
    def is_whole(self) -> bool:
        """The canvas is seen to its end at each step, so that nothing is ever committed."""
        return self.context == "full"

    @property
    def carries_start(self) -> bool:
        """A block's first token is read from the state that commits the block before."""
        return self.token_shift and not self.is_whole

    def save(self, folder: Path) -> None:
        """Write `unmask.json` into `folder`."""
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        (folder / FILE_NAME).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "DiffusionConfig":
        """Read `unmask.json` from `folder`.

        Raises:
            ModelError: the file is not JSON, or a key is missing or unknown.
            ConfigError: a value cannot work.
        """
        path = folder / FILE_NAME
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(**values)
        except (ValueError, TypeError) as error:  # ValueError: not JSON, not UTF-8
            raise ModelError(f"{path} is not a valid {FILE_NAME}: {error}") from error


def check_sub_block_size(block_size: int, sub_block_size: int) -> None:
    """Raise a ConfigError unless the sub-block divides the block."""
    if block_size < 1:
        raise ConfigError(f"block_size must be at least 1, got {block_size}")
    if sub_block_size < 1 or block_size % sub_block_size:
        divisors = [str(n) for n in range(1, block_size + 1) if block_size % n == 0]
        raise ConfigError(
            f"sub_block_size {sub_block_size} does not divide block_size {block_size}; "
            f"use {', '.join(divisors)}"
        )
