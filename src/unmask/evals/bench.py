"""Speed and quality in one run: every point decodes the same problems."""

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import torch

import unmask
from unmask.decode.model import Generation, Model
from unmask.decode.policy import Policy
from unmask.decode.text import Prompt
from unmask.evals.cell import Cell, Point, describe_setting, drift, summarise
from unmask.evals.problems import Problem
from unmask.plugins import load_plugin


def run_point(
    point: Point,
    problems: list[Problem],
    repeats: int,
    on_share: Callable[[float], None],
    *,
    full_warm_up: bool = False,
) -> tuple[Cell, list[Generation]]:
    """Decode all problems at one operating point, `repeats` times, after an uncounted warm-up.

    The warm-up is a few tokens of the first batch, or a whole repeat.
    """
    options: dict[str, Any] = asdict(point.options)
    prompts: list[Prompt] = [problem.messages for problem in problems]
    batches = [
        prompts[first : first + point.batch_size]
        for first in range(0, len(prompts), point.batch_size)
    ]
    few = {**options, "max_new_tokens": min(8, point.options.max_new_tokens)}
    for batch in batches if full_warm_up else batches[:1]:
        point.model.generate(batch, **(options if full_warm_up else few))
    seconds: list[float] = []
    for repeat in range(repeats):
        answers: list[Generation] = []
        seconds.append(0.0)
        for batch in batches:
            started = time.perf_counter()
            answers += point.model.generate(batch, **options)
            seconds[-1] += time.perf_counter() - started
            on_share((repeat + len(answers) / len(problems)) / repeats)
    return summarise(point, problems, answers, seconds), answers


def run_bench(
    points: list[Point],
    problems: list[Problem],
    repeats: int = 1,
    on_share: Callable[[str, float], None] = lambda _text, _share: None,
    *,
    full_warm_up: bool = False,
) -> Iterator[Cell]:
    """Run the points in order; those that others are held against come first (`in_order`).

    `full_warm_up` is for models that compile what they meet: nothing new may be met while timed.
    """
    speeds: dict[tuple[str, int], float] = {}
    exact: dict[Any, list[list[int]]] = {}
    for number, point in enumerate(points):
        title = f"{describe_point(point)} batch {point.batch_size}"

        def tell(share: float, title: str = title, number: int = number) -> None:
            on_share(title, (number + share) / len(points))

        cell, answers = run_point(point, problems, repeats, tell, full_warm_up=full_warm_up)
        speeds[cell.mode, cell.batch_size] = cell.tokens_per_s
        tokens = [answer.token_ids for answer in answers]
        wanted = None
        if point.mode != "transformers":
            twin = _exact_twin(point)
            if is_exact(point):
                exact.setdefault(twin, tokens)
            wanted = exact.get(twin) if point.mode != "ar" and point.has_own_ar else None
        yield replace(
            cell,
            drift=None if wanted is None else drift(tokens, wanted),
            ratio=_over(cell, speeds, "ar"),
            ratio_transformers=_over(cell, speeds, "transformers"),
        )


def _over(cell: Cell, speeds: dict[tuple[str, int], float], mode: str) -> float | None:
    base = speeds.get((mode, cell.batch_size))
    return None if base is None else cell.tokens_per_s / base


def _exact_twin(point: Point) -> Any:
    """What an exact run with the same answers has in common with this one."""
    if point.mode == "diffusion":
        return point.batch_size, replace(point.options, cache="")
    return point.batch_size, point.options.max_new_tokens


def is_exact(point: Point) -> bool:
    """Whether others may be held against it: AR mode, or a cache policy that changes nothing."""
    if point.mode != "diffusion":
        return point.mode == "ar"
    if point.options.cache is None:
        return True
    policy: Policy = load_plugin("unmask.decode.policies", point.options.cache)
    return policy.covers_block


def in_order(points: list[Point]) -> list[Point]:
    """Denominators first, then exact cache policies, then the rest as they were."""
    modes = ["transformers", "ar", "speculative", "diffusion"]
    return sorted(points, key=lambda p: (modes.index(p.mode), not is_exact(p)))


def describe_point(point: Point | Cell) -> str:
    """Mode and settings in a few words."""
    options = point.options
    setting = point.setting if isinstance(point, Cell) else describe_setting(point)
    if point.mode != "diffusion":
        return f"{point.mode} {setting}".strip()
    sizes = filter(None, (options.block_size, options.sub_block_size))
    size = "".join(f"/{each}" for each in sizes)
    fused = "+fused" if options.fuse_commit else ""
    return " ".join(
        filter(None, (options.strategy, setting, f"{options.cache or 'exact'}{size}{fused}"))
    )


def machine_stamp(model: Model) -> dict[str, Any]:
    """Where the figures come from."""
    device = model.backbone.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    return {
        "unmask": unmask.__version__,
        "torch": torch.__version__,
        "device": name or platform.machine(),
        "dtype": model.quantize or str(model.backbone.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
    }
