"""`Cell`: what was measured at one operating point, and how it is counted.

tokens/s = new tokens up to and including the end token / wall time of the generate calls.
TPF = new tokens / (denoise + commit forwards), over all answers.
"""

import math
import statistics
import sys
from dataclasses import dataclass
from typing import Protocol, Unpack

import torch

from unmask.decode.model import Generation
from unmask.decode.options import DecodeOptions, OptionValues
from unmask.decode.stats import Nfe, tokens_per_forward
from unmask.decode.strategy import Knob, make_strategy
from unmask.decode.text import Prompt
from unmask.evals.problems import Problem

DEFINITIONS = (
    "accuracy with its 95 % interval (Wilson); "
    "NFE = prefill+denoise+commit forwards per answer; "
    "TPF = new tokens up to and including the end token / (denoise + commit forwards); "
    "tok/s = new tokens / wall time, median of the repeats; "
    "×AR, ×HF = tok/s over our AR mode and over transformers.generate at the same batch size in "
    "this run; first s = median seconds to the first committed token; "
    "drift = share of tokens that differ from an exact cache policy's in this run, in mode "
    "speculative from AR mode's"
)


class Answerer(Protocol):
    """Whatever answers prompts: a `Model`, or a baseline that others are held against."""

    @property
    def name(self) -> str:
        """The checkpoint."""
        ...

    def generate(self, prompts: list[Prompt], **options: Unpack[OptionValues]) -> list[Generation]:
        """One answer a prompt, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Point:
    """What to run: who answers, with which settings, how many prompts at a time."""

    model: Answerer
    options: DecodeOptions
    batch_size: int
    mode: str
    """That of the options, or the name of a baseline."""
    has_own_ar: bool = True
    """The AR points of the run are this model's, or its parent's: `speculative` must equal them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One operating point, measured."""

    model: str
    mode: str
    options: DecodeOptions
    setting: str
    """What sets the pace: τ=0.9, k=4, c=5 drafts …; empty where nothing does."""
    batch_size: int
    problems: int
    correct: int
    accuracy: float
    low: float
    """The true accuracy lies between `low` and `high` in 95 of 100 runs."""
    high: float
    prefill: float
    """Forwards per answer, by kind."""
    denoise: float
    commit: float
    tpf: float
    prompt_tokens: int
    new_tokens: int
    seconds: list[float]
    """Wall time of each repeat over all problems."""
    tokens_per_s: float
    """Median over the repeats."""
    spread: float
    """Fastest less slowest repeat, over the median."""
    first_token_s: float
    """Median time from the start of a call to its first committed token."""
    peak_memory_gib: float
    """Most memory the process has held so far; on a GPU, of the GPU."""
    accepted: list[int]
    """Of the first answer: which forward decided each token."""
    drift: float | None = None
    """None where nothing exact was run beside it."""
    ratio: float | None = None
    """Speed over AR at this batch size; None where AR was not run."""
    ratio_transformers: float | None = None


def wilson(correct: int, count: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927); sensible at 0 and at 1 too.

    >>> [round(bound, 3) for bound in wilson(0, 80)]
    [0.0, 0.046]
    """
    z = 1.959964
    share = correct / count
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    low, high = (middle - half) / scale, (middle + half) / scale
    return max(0.0, min(share, low)), min(1.0, max(share, high))  # rounding at 0 and 1


def describe_setting(point: Point) -> str:
    """The strategy's knob and its value, in the letters of the papers."""
    options = point.options
    if point.mode == "speculative" and options.draft_length is not None:
        return f"c={options.draft_length}"
    if point.mode != "diffusion":
        return ""
    values: dict[Knob | None, str] = {
        "threshold": f"τ={options.threshold:g}", "k": f"k={options.k}",
        "factor": f"f={options.factor:g}", "gamma": f"γ={options.gamma:g}", None: "",
    }  # fmt: skip
    return values[make_strategy(options).knob]


def summarise(
    point: Point, problems: list[Problem], answers: list[Generation], seconds: list[float]
) -> Cell:
    """Count and average the answers to `problems`; `seconds` of each repeat."""
    count = len(answers)
    correct = sum(p.is_correct(a.text) for p, a in zip(problems, answers, strict=True))
    low, high = wilson(correct, count)
    new_tokens = sum(answer.new_tokens for answer in answers)
    nfe = Nfe(
        prefill=sum(answer.nfe.prefill for answer in answers),
        denoise=sum(answer.nfe.denoise for answer in answers),
        commit=sum(answer.nfe.commit for answer in answers),
    )
    speeds = sorted(new_tokens / each for each in seconds)
    median = statistics.median(speeds)
    return Cell(
        model=point.model.name,
        mode=point.mode,
        options=point.options,
        setting=describe_setting(point),
        batch_size=point.batch_size,
        problems=count,
        correct=correct,
        accuracy=correct / count,
        low=low,
        high=high,
        prefill=nfe.prefill / count,
        denoise=nfe.denoise / count,
        commit=nfe.commit / count,
        tpf=tokens_per_forward(new_tokens, nfe),
        prompt_tokens=sum(answer.prompt_tokens for answer in answers),
        new_tokens=new_tokens,
        seconds=seconds,
        tokens_per_s=median,
        spread=(speeds[-1] - speeds[0]) / median,
        first_token_s=statistics.median(answer.first_token_s for answer in answers),
        peak_memory_gib=peak_memory_gib(),
        accepted=answers[0].accepted,
    )


def drift(answers: list[list[int]], exact: list[list[int]]) -> float:
    """Share of token places that differ; a place that only one of two answers has differs.

    >>> drift([[1, 2, 3]], [[1, 5]])
    0.6666666666666666
    """
    differ = places = 0
    for got, wanted in zip(answers, exact, strict=True):
        places += max(len(got), len(wanted))
        differ += abs(len(got) - len(wanted))
        differ += sum(a != b for a, b in zip(got, wanted, strict=False))
    return differ / places


def peak_memory_gib() -> float:
    """Most memory held so far, by the GPU if there is one in use, else by the process."""
    if torch.cuda.is_available():
        used = [torch.cuda.max_memory_allocated(gpu) for gpu in range(torch.cuda.device_count())]
        if any(used):
            return sum(used) / 2**30
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
