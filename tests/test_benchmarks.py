"""The benchmarks run, on shapes so small that their figures mean nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from unmask.core.denoiser import gated_parts
from unmask.decode.model import load
from unmask.train.adapt import adapt
from unmask.train.loop import Budget
from unmask.train.recipe import Recipe

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script, *arguments):
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_engine_benchmark_tells_every_figure():
    told = json.loads(run("engine.py", "--shape", "tiny", "--requests", 10, "--new-tokens", 320,
                          "--json"))  # fmt: skip
    assert set(told) == {"forward_ms", "batch", "block_ms", "memory_mib"}
    assert all(value > 0 for value in told["batch"].values())
    assert told["block_ms"]["blocks"] == 10


@pytest.mark.slow
def test_gpu_benchmark_is_ready_for_a_gpu():
    told = run("gpu.py", "--shapes", "tiny", "--device", "cpu", "--batches", "2",
               "--new-tokens", 8, "--levers", "eager")  # fmt: skip
    assert "| tiny: cached = recomputed in torch.float32 | 6 of 6 answers |" in told
    assert "supervised tokens/s" in told
    assert "eager, batch 2" in told


@pytest.mark.slow
def test_training_benchmark_tells_speed_and_memory(parent, data):
    small = (parent, "--data", data, "--row-tokens", 64, "--block-size", 8)
    told = run("training.py", *small).splitlines()
    assert [line.split(",")[0] for line in told] == [
        "published layout", "ours", "ours", "ours", "denoiser LoRA"]  # fmt: skip
    told = run("training.py", *small, "--memory").splitlines()
    assert [line.split(",")[0] for line in told] == ["ours", "published"]


def test_our_decoder_says_what_a_plain_one_says(adapted, data):
    told = run("plain_decoder.py", adapted, "--data", data, "--prompts", 2, "--new-tokens", 20)
    assert [line.split()[0] for line in told.splitlines()] == ["block", "dual-reference", "dual"]
    assert all("2 of 2 answers equal" in line for line in told.splitlines()[:2])


def test_a_packed_adapter_is_its_run_in_bfloat16(tmp_path, parent, data):
    chosen = Recipe(context="draft", trainable="lora", lora_rank=2, block_size=8, sub_block_size=8,
                    row_tokens=64, rows_per_step=1, learning_rate=1e-2)  # fmt: skip
    made = adapt(str(parent), str(data), tmp_path / "run", recipe=chosen, budget=Budget(steps=1))
    packed = tmp_path / "packed"
    run("pack_adapter.py", made, packed, parent)
    assert not (packed / "trainer").exists()
    before, after = load(str(made)), load(str(packed))
    for (_, a), (_, b) in zip(*(gated_parts(m.checkpoint.model) for m in (before, after)),
                              strict=True):  # fmt: skip
        for one, other in zip(a.parameters(recurse=False), b.parameters(recurse=False),
                              strict=True):  # fmt: skip
            torch.testing.assert_close(one, other, atol=1e-8, rtol=2**-8)
    answers = [m.generate("hi", max_new_tokens=8, ignore_eos=True)[0] for m in (before, after)]
    assert answers[0].token_ids == answers[1].token_ids  # the parent's, whatever is drafted
