"""The engine's figures on one machine: forwards, blocks, batches, memory. No text, no download.

    python benchmarks/engine.py runs/block            # a checkpoint, or
    python benchmarks/engine.py --shape tiny          # random weights, to see that it runs

--json for one object. Run nothing beside it.
"""

import argparse
import json
import resource
import statistics
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.core.int8 import use_int8_linear
from unmask.core.linear import use_few_rows_linear
from unmask.decode.autoregressive import ar_config
from unmask.decode.model import check_levers, load
from unmask.verify.subject import Subject

SHAPES = {
    "tiny": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 97},
    "smollm2": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
                "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
                "vocab_size": 49153},
}  # fmt: skip


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a checkpoint with unmask.json")
    parser.add_argument("--shape", choices=SHAPES, default="smollm2")
    parser.add_argument("--quantize", choices=["int8"])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--new-tokens", type=int, default=2048)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    subject = make_subject(chosen)
    figures = {
        "forward_ms": forward_costs(subject),
        "batch": batch_speed(subject),
        "block_ms": block_costs(subject, chosen.new_tokens),
        "memory_mib": memory(subject, chosen.requests),
    }
    if chosen.json:
        print(json.dumps(figures))
        return
    for title, rows in figures.items():
        print(f"\n{title}")
        for name, value in rows.items():
            print(f"  {name:32s} {value:10.2f}")


def make_subject(chosen: argparse.Namespace) -> Subject:
    """A checkpoint, or random weights of a shape with a mask token at the end of the vocabulary."""
    if chosen.model:
        model = load(chosen.model, quantize=chosen.quantize, compile=chosen.compile)
        assert model.config is not None, "a checkpoint with unmask.json"
        return Subject(backbone=model.backbone, config=model.config)
    check_levers(chosen.quantize, compile=chosen.compile)
    shape = SHAPES[chosen.shape]
    torch.manual_seed(0)
    config = AutoConfig.for_model("llama", max_position_embeddings=8192, **shape)
    model = AutoModelForCausalLM.from_config(config).eval()
    rows = shape["vocab_size"]
    backbone = Backbone(model, mask_token_id=rows - 1)
    use_int8_linear(model) if chosen.quantize else use_few_rows_linear(model)
    if chosen.compile:
        backbone.compile()
    sizes = {"block_size": 32, "sub_block_size": 8}
    return Subject(
        backbone=backbone,
        config=DiffusionConfig(mask_token_id=rows - 1, embedding_rows=rows, **sizes),
    )


def median_ms(call, repeats: int = 11) -> float:
    """Milliseconds of a call, after two that do not count."""
    times = []
    for _ in range(repeats + 2):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times[2:])


@torch.inference_mode()
def forward_costs(subject: Subject, context: int = 256) -> dict[str, float]:
    """A forward of Q queries behind a cached context, without the head; and over that of one."""
    costs: dict[str, float] = {}
    cache = subject.backbone.new_cache(1, context + 64)
    row = torch.tensor([0])

    def forward(first: int, count: int) -> None:
        positions = torch.arange(first, first + count)[None]
        cache.aim(row, positions, first + count, torch.device("cpu"))
        tokens = torch.tensor([subject.tokens(count)])
        subject.backbone.hidden(tokens, positions, None, cache)

    forward(0, context)
    for queries in (1, 8, 32):
        costs[f"Q={queries}"] = median_ms(lambda queries=queries: forward(context, queries))
    for queries in (8, 32):
        costs[f"Q={queries} / Q=1"] = costs[f"Q={queries}"] / costs["Q=1"]
    return costs


def speed(subject: Subject, prompts: list[list[int]], new_tokens: int, **settings) -> float:
    """Tokens a second of decoding prompts to their full length, best of two."""
    best = 0.0
    for _ in range(2):
        started = time.perf_counter()
        done = subject.decode(prompts, new_tokens, **settings)
        spent = time.perf_counter() - started
        best = max(best, sum(len(sequence.tokens) for sequence in done) / spent)
    return best


def batch_speed(subject: Subject, new_tokens: int = 64) -> dict[str, float]:
    """Eight rows of mixed lengths against one, one token a step; AR; and four tokens a step."""
    lengths = [20, 45, 64, 90, 33, 71, 28, 100]
    prompts = [subject.tokens(length, salt=length) for length in lengths]
    ar = Subject(backbone=subject.backbone, config=ar_config(subject.config.embedding_rows))
    one, eight = [prompts[2]], prompts
    slow = {"cache": "dual", "threshold": 1.0}
    fast = {"cache": "dual", "strategy": "topk", "k": 4}
    found = {
        "AR, batch 1, tok/s": speed(ar, one, new_tokens),
        "AR, batch 8, tok/s": speed(ar, eight, new_tokens),
        "τ=1, batch 1, tok/s": speed(subject, one, new_tokens, **slow),
        "τ=1, batch 8, tok/s": speed(subject, eight, new_tokens, **slow),
        "k=4, batch 1, tok/s": speed(subject, one, new_tokens, **fast),
        "k=4, batch 8, tok/s": speed(subject, eight, new_tokens, **fast),
    }
    for name in ("AR", "τ=1", "k=4"):
        batched, alone = (found[f"{name}, batch {size}, tok/s"] for size in (8, 1))
        found[f"{name}: batch 8 / batch 1"] = batched / alone
    found["k=4 / AR, batch 1"] = found["k=4, batch 1, tok/s"] / found["AR, batch 1, tok/s"]
    return found


def block_costs(subject: Subject, new_tokens: int) -> dict[str, float]:
    """Milliseconds a block, early and late in one long answer, four tokens a step."""
    new_tokens = min(new_tokens, subject.backbone.max_positions - 64)
    engine = subject.engine([subject.tokens(32)], new_tokens, cache="dual", strategy="topk", k=4)
    times: list[float] = []
    start, started = 0, time.perf_counter()
    while engine.waiting or engine.canvas.active:
        engine.step()
        if int(engine.canvas.start_N[0]) != start:
            times.append((time.perf_counter() - started) * 1e3)
            start, started = int(engine.canvas.start_N[0]), time.perf_counter()
    edge = max(1, len(times) // 8)
    early, late = statistics.median(times[1 : 1 + edge]), statistics.median(times[-edge:])
    return {"blocks": len(times), "first eighth": early, "last eighth": late, "ratio": late / early}


def memory(subject: Subject, requests: int) -> dict[str, float]:
    """Peak memory of the process after a tenth of the requests and after all of them."""
    peaks = []
    for number in range(requests):
        prompt = subject.tokens(1 + number % 40, salt=number)
        subject.decode([prompt], 2, cache="dual")
        if number in (requests // 10, requests - 1):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return {"after a tenth": peaks[0], "after all": peaks[-1], "growth": peaks[-1] - peaks[0]}


if __name__ == "__main__":
    main()
