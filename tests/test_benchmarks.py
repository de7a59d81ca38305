"""The benchmarks run, on shapes so small that their figures mean nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
