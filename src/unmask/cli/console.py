"""What commands print with: data to stdout, words and bars to stderr."""

import dataclasses
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unmask.errors import ConfigError, unknown_name
from unmask.log import set_up_logging

if TYPE_CHECKING:
    import torch

    from unmask.decode.model import Model


class Output:
    """Where a command writes.

    Args:
        as_json: one JSON object on stdout instead of text and tables.
        quiet: nothing on stderr but errors.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        from rich.console import Console

        set_up_logging(quiet=quiet)
        self.as_json = as_json
        width = None if sys.stdout.isatty() else 120  # a file has room for a table
        self.data = Console(highlight=False, soft_wrap=True, width=width)
        self.words = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)

    def emit(self, value: Any) -> None:
        """One JSON object on stdout."""
        json.dump(self.plain(value), sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")

    def text(self, text: str) -> None:
        """A model's words on stdout, as they are."""
        sys.stdout.write(text + "\n")

    def plain(self, value: Any) -> Any:
        """What JSON can hold: dataclasses as dictionaries, NaN as null."""
        return _plain(value)

    @contextmanager
    def bar(self, title: str) -> Iterator[Any]:
        """A progress bar; call what it yields with (text, share done or None, seconds left)."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                   TextColumn("{task.fields[left]}"))  # fmt: skip
        with Progress(*columns, console=self.words, transient=True) as progress:
            task = progress.add_task(title, total=None, left="")

            def show(text: str, share: float | None, seconds_left: float | None = None) -> None:
                left = "" if seconds_left is None else f"{clock(seconds_left)} left"
                total = None if share is None else 1.0
                progress.update(
                    task, description=text, total=total, completed=share or 0.0, left=left
                )

            yield show


def clock(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes.

    >>> clock(75), clock(7500)
    ('1:15', '2h05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    return f"{hours}h{left:02d}" if hours else f"{minutes}:{rest:02d}"


def _plain(value: Any) -> Any:
    """Dataclasses as dictionaries, all the way down."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def pick_device(device: str) -> str:
    """`auto` is the first GPU, else the CPU.

    Raises:
        ConfigError: torch cannot compute there.
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device '{device}' is not to be had: {reason}") from error
    return device


def pick_dtype(dtype: str, device: str) -> "torch.dtype":
    """`auto` is bfloat16 on a GPU and float32 on the CPU."""
    import torch

    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if dtype not in known:
        raise ConfigError(unknown_name("dtype", dtype, known))
    return known[dtype]


def check_settings(settings: dict[str, Any]) -> None:
    """Let a wrong setting of a generation fail before anything is loaded.

    Raises:
        ConfigError: it cannot work.
    """
    from unmask.decode.options import DecodeOptions
    from unmask.decode.policy import make_policy
    from unmask.decode.strategy import make_strategy

    chosen = DecodeOptions(**settings)
    make_policy(chosen, make_strategy(chosen))


def load_model(
    name: str,
    output: Output,
    *,
    device: str,
    dtype: str,
    quantize: str | None = None,
    compile: bool = False,
) -> "Model":
    """Load MODEL with a bar for what takes long."""
    with output.bar(f"loading {name}") as show:
        from unmask.decode.model import check_levers, load, pick_quantize

        check_levers(pick_quantize(quantize), compile=compile)
        device = pick_device(device)
        return load(
            name, device=device, dtype=pick_dtype(dtype, device),
            quantize=pick_quantize(quantize), compile=compile, progress=show,
        )  # fmt: skip
