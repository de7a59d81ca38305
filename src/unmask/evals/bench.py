"""Speed and quality in one run: every cell decodes the same problems.

tokens/s = new tokens up to and including the end token / wall time of the generate calls.
TPF = new tokens / (denoise + commit forwards), over all answers.
ratio = tokens/s over that of our own AR mode at the same batch size in this run.
"""

import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

import unmask
from unmask.decode.model import Generation, Model
from unmask.decode.options import DecodeOptions
from unmask.decode.stats import Nfe, tokens_per_forward
from unmask.evals.problems import Problem

DEFINITIONS = (
    "NFE = prefill+denoise+commit forwards per answer; "
    "TPF = new tokens up to and including the end token / (denoise + commit forwards); "
    "ratio = tokens/s over our AR mode at the same batch size in this run; "
    "± is one standard error"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One operating point."""

    model: str
    mode: str
    threshold: float | None
    """None where the mode has none."""
    cache: str
    sub_block_size: int
    max_new_tokens: int
    batch_size: int
    problems: int
    correct: int
    accuracy: float
    standard_error: float
    prefill: float
    """Forwards per sequence, by kind."""
    denoise: float
    commit: float
    tpf: float
    new_tokens: int
    seconds: float
    tokens_per_s: float
    ratio: float | None = None
    """To AR at this batch size; None where AR was not run."""


@dataclass(frozen=True, slots=True)
class Point:
    """What to run: a model, a mode and its settings."""

    model: Model
    options: DecodeOptions
    batch_size: int


def run_point(point: Point, problems: list[Problem], on_share: Callable[[float], None]) -> Cell:
    """Decode all problems at one operating point, after a warm-up that is not counted."""
    options: dict[str, Any] = asdict(point.options)
    point.model.generate(problems[0].messages, **{**options, "max_new_tokens": 8})
    answers: list[Generation] = []
    seconds = 0.0
    for first in range(0, len(problems), point.batch_size):
        prompts: list[Any] = [p.messages for p in problems[first : first + point.batch_size]]
        started = time.perf_counter()
        answers += point.model.generate(prompts, **options)
        seconds += time.perf_counter() - started
        on_share(len(answers) / len(problems))
    return summarise(point, problems, answers, seconds)


def summarise(
    point: Point, problems: list[Problem], answers: list[Generation], seconds: float
) -> Cell:
    """Count and average."""
    count = len(answers)
    correct = sum(p.is_correct(a.text) for p, a in zip(problems, answers, strict=True))
    accuracy = correct / count
    new_tokens = sum(answer.new_tokens for answer in answers)
    nfe = Nfe(*(sum(getattr(a.nfe, kind) for a in answers)
                for kind in ("prefill", "denoise", "commit")))  # fmt: skip
    is_ar = point.options.mode == "ar"
    return Cell(
        model=point.model.checkpoint.name,
        mode=point.options.mode,
        threshold=None if is_ar else point.options.threshold,
        cache=point.options.cache,
        sub_block_size=point.model.decode_config(point.options).sub_block_size,
        max_new_tokens=point.options.max_new_tokens,
        batch_size=point.batch_size,
        problems=count,
        correct=correct,
        accuracy=accuracy,
        standard_error=math.sqrt(accuracy * (1 - accuracy) / count),
        prefill=nfe.prefill / count,
        denoise=nfe.denoise / count,
        commit=nfe.commit / count,
        tpf=tokens_per_forward(new_tokens, nfe),
        new_tokens=new_tokens,
        seconds=seconds,
        tokens_per_s=new_tokens / seconds,
    )


def run_bench(
    points: list[Point],
    problems: list[Problem],
    on_share: Callable[[str, float], None] = lambda _text, _share: None,
) -> Iterator[Cell]:
    """Run the points in order; AR points first give the others their denominator."""
    baseline: dict[int, float] = {}
    for number, point in enumerate(points):
        title = f"{point.options.mode} τ={point.options.threshold} batch {point.batch_size}"

        def tell(share: float, title: str = title, number: int = number) -> None:
            on_share(title, (number + share) / len(points))

        cell = run_point(point, problems, tell)
        if cell.mode == "ar":
            baseline[cell.batch_size] = cell.tokens_per_s
        ratio = None
        if cell.batch_size in baseline:
            ratio = cell.tokens_per_s / baseline[cell.batch_size]
        yield replace(cell, ratio=ratio)


def machine_stamp(model: Model) -> dict[str, Any]:
    """Where the figures come from."""
    device = model.backbone.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    return {
        "unmask": unmask.__version__,
        "torch": torch.__version__,
        "device": name or platform.machine(),
        "dtype": str(model.backbone.dtype),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
    }
