"""Two processes and one: the same steps."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from unmask.errors import ConfigError
from unmask.train.adapt import adapt
from unmask.train.loop import Budget
from unmask.train.recipe import Recipe
from unmask.train.world import Together

RECIPE = {"block_size": 8, "sub_block_size": 4, "row_tokens": 64, "rows_per_step": 4,
          "learning_rate": 0.001, "save_every": 2}  # fmt: skip


def launch(parent, data, out, steps, *more):
    """`unmask adapt` by torchrun, on CPUs (gloo)."""
    settings = [word for key, value in RECIPE.items() for word in ("--set", f"{key}={value}")]
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "unmask", "adapt", str(parent), "--data", str(data), "--out", str(out),
         "--steps", str(steps), "--device", "cpu", "--json", *settings, *more],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def read_log(out):
    lines = (out / "trainer" / "log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one_and_either_resumes_the_other(tmp_path, parent, data):
    alone = adapt(str(parent), str(data), tmp_path / "alone", recipe=Recipe(**RECIPE),
                  budget=Budget(steps=4))  # fmt: skip
    done = launch(parent, data, tmp_path / "two", 2)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)  # one process speaks
    assert (told["steps"], told["plan"]["processes"]) == (2, 2)
    adapt(str(parent), str(data), tmp_path / "two", recipe=Recipe(**RECIPE),
          budget=Budget(steps=3), resume=True)  # fmt: skip
    done = launch(parent, data, tmp_path / "two", 4, "--resume")
    assert done.returncode == 0, done.stderr[-2000:]
    for mine, theirs in zip(read_log(alone), read_log(tmp_path / "two"), strict=True):
        for key in ("denoise_loss", "gradient_norm", "learning_rate", "targets", "tokens"):
            assert theirs[key] == pytest.approx(mine[key], rel=1e-4), key
    one, two = (load_file(out / "model.safetensors") for out in (alone, tmp_path / "two"))
    began = load_file(parent / "model.safetensors")
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=2e-5, rtol=1e-3)
    moved = max(float((one[name] - began[name]).abs().max()) for name in one if name in began
                and one[name].shape == began[name].shape)  # fmt: skip
    assert moved > 1e-3  # twenty times what the two may differ by


@pytest.mark.slow
def test_rows_that_cannot_be_shared_out_are_refused(tmp_path, parent, data):
    done = launch(parent, data, tmp_path / "out", 1, "--set", "rows_per_step=3")
    assert done.returncode != 0
    assert "rows_per_step 3 cannot be shared out to 2 processes; use a multiple, such as 4" in (
        done.stderr)  # fmt: skip


def test_shares_are_even_and_whole():
    world = Together.__new__(Together)
    world.rank, world.size = 1, 2
    assert world.mine([10, 11, 12, 13]) == [11, 13]
    with pytest.raises(ConfigError, match="use a multiple, such as 4"):
        world.mine([10, 11, 12])
