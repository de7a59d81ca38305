"""A recipe: everything that decides what a run computes, read from TOML, saved with the run."""

import dataclasses
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from unmask.config import Context, check_sub_block_size
from unmask.errors import ConfigError, unknown_name
from unmask.plugins import load_plugin

Objective = Literal["diffusion", "ar"]
Trainable = Literal["full", "lora"]


CHOICES = {"objective": Objective, "context": Context, "trainable": Trainable}

Limit = tuple[Callable[[float], bool], str]
POSITIVE: Limit = (lambda number: number > 0, "above 0")
AT_LEAST_ONE: Limit = (lambda number: number >= 1, "at least 1")
NOT_NEGATIVE: Limit = (lambda number: number >= 0, "at least 0")
SHARE: Limit = (lambda number: 0 <= number < 1, "at least 0 and below 1")

LIMITS: dict[str, Limit] = {
    **dict.fromkeys(("learning_rate", "clip_norm"), POSITIVE),
    **dict.fromkeys(("row_tokens", "rows_per_step", "steps", "save_every", "lora_rank",
                     "lora_alpha", "windows", "view_pairs"), AT_LEAST_ONE),
    **dict.fromkeys(("soft_weight", "cut_share"),
                    (lambda number: 0 <= number <= 1, "between 0 and 1")),
    **dict.fromkeys(("warmup_steps", "weight_decay", "ar_coefficient", "keep", "seed"),
                    NOT_NEGATIVE),
    **dict.fromkeys(("beta1", "beta2"), SHARE),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings of an adaptation. Immutable; checked when made.

    Defaults are those of `smollm2_cpu`; ours unless a source is named.
    """

    objective: Objective = "diffusion"
    """`diffusion` = denoise blocks; `ar` = next-token fine-tuning, the denominator."""
    context: Context = "block"
    """What committed tokens attend to (see DiffusionConfig)."""
    block_size: int = 32
    """S (Fast-dLLM v2)."""
    sub_block_size: int = 8
    """s, written into the checkpoint as its default (Fast-dLLM v2)."""
    token_shift: bool = True
    """Token i is read from hidden state i - 1 (Fast-dLLM v2)."""
    noise: str = "linear"
    """File name of the schedule (Fast-dLLM v2)."""
    view_pairs: int = 1
    """Pairs of complementary views that share a clean stream (Fast-dLLM v2: 1; more is ours)."""
    block_sizes: str = "fixed"
    """File name of how rows choose theirs: fixed, growing or mixed."""
    windows: int = 24
    """Context `draft`: windows of `block_size` masks opened in a row (ours)."""
    soft_weight: float = 0.5
    """Context `draft`: share of what the clean stream would say in the labels (ours)."""
    ar_coefficient: float = 0.3
    """Weight of the next-token loss on the clean stream in context `causal`."""
    cut_share: float = 0.0
    """Share of samples cut short at a random token, so that not every canvas ends an answer
    (dQwen3.5; its share is not published)."""
    row_tokens: int = 448
    """L, clean tokens a packed row may hold."""
    rows_per_step: int = 4
    """Rows of one optimizer step, one at a time."""
    learning_rate: float = 1e-4
    warmup_steps: int = 10
    """Linear warm-up, before the schedule."""
    schedule: str = "constant"
    """File name of how the rate goes on: constant, cosine or warmup-stable-decay."""
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    """Largest norm of the gradient."""
    trainable: Trainable = "full"
    """`full` = every weight; `lora` = adapters on all linear layers and the mask embedding; in
    context `draft` they act on masks only."""
    lora_rank: int = 16
    lora_alpha: int = 32
    gradient_checkpointing: bool = False
    """Compute activations twice to hold them once."""
    steps: int = 200
    """Length of the run where --steps, --minutes and --tokens are silent."""
    save_every: int = 50
    """Optimizer steps between checkpoints."""
    keep: int = 0
    """Checkpoints to keep in OUT.steps as well, the last so many, for `unmask average`."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in get_args(choices):
                raise ConfigError(unknown_name(name, getattr(self, name), get_args(choices)))
        for name, (is_good, wanted) in LIMITS.items():
            if not is_good(getattr(self, name)):
                raise ConfigError(f"{name} must be {wanted}, got {getattr(self, name)}")
        load_plugin("unmask.core.noise", self.noise)
        load_plugin("unmask.train.block_sizes", self.block_sizes)
        load_plugin("unmask.train.schedules", self.schedule)
        check_sub_block_size(self.block_size, self.sub_block_size)
        if self.objective == "ar" and self.context != "causal":
            raise ConfigError("objective ar needs context causal: a block would show the answer")
        if self.context == "draft":
            self._check_draft()
        if self.row_tokens % self.block_size:
            raise ConfigError(
                f"row_tokens {self.row_tokens} is not a multiple of block_size {self.block_size}; "
                f"use {self.row_tokens // self.block_size * self.block_size or self.block_size}"
            )

    def _check_draft(self) -> None:
        if self.trainable != "lora" or not self.token_shift or self.gradient_checkpointing:
            raise ConfigError(
                "context draft leaves the parent as it is: it needs trainable lora, token_shift "
                "true and gradient_checkpointing false"
            )


def recipe_names() -> list[str]:
    """Recipes that ship with unmask."""
    files = resources.files("unmask.recipes").iterdir()
    return sorted(Path(file.name).stem for file in files if file.name.endswith(".toml"))


def load_recipe(name: str, overrides: dict[str, str] | None = None) -> Recipe:
    """Read a recipe by name or file; `overrides` (from --set) win.

    Raises:
        ConfigError: no such recipe, not TOML, an unknown key, or a value that cannot work.
    """
    values = _read(name)
    fields = {field.name: field for field in dataclasses.fields(Recipe)}
    for key in (*values, *(overrides or {})):
        if key not in fields:
            raise ConfigError(unknown_name("recipe key", key, fields))
    for key, text in (overrides or {}).items():
        values[key] = _parse(key, text)
    defaults = {name: field.default for name, field in fields.items()}
    for key, value in values.items():
        values[key] = _of_kind(key, value, type(defaults[key]))
    return Recipe(**values)


def _read(name: str) -> dict[str, Any]:
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise ConfigError(f"no recipe file {name}")
        text = path.read_text(encoding="utf-8")
    elif name in recipe_names():
        text = resources.files("unmask.recipes").joinpath(f"{name}.toml").read_text("utf-8")
    else:
        raise ConfigError(unknown_name("recipe", name, recipe_names()))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"recipe {name} is not TOML: {error}") from error


def _parse(key: str, text: str) -> Any:
    try:
        return tomllib.loads(f"{key} = {text}")[key]
    except tomllib.TOMLDecodeError:
        return text  # a bare word, such as --set context=causal


def _of_kind(key: str, value: Any, kind: type) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ConfigError(f"{key} expects {kind.__name__}, got {value!r}")
    return value
