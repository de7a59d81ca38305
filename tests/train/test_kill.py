"""kill -9 at any moment: what is on disk is whole, and the run ends as if nothing had happened."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from unmask.decode.model import load

SETTINGS = {"block_size": 8, "sub_block_size": 4, "row_tokens": 64, "rows_per_step": 1,
            "learning_rate": 0.001, "save_every": 1}  # fmt: skip
STEPS = 40


def start(parent, data, out):
    command = [sys.executable, "-m", "unmask", "adapt", str(parent), "--data", str(data), "--out",
               str(out), "--steps", str(STEPS), "--device", "cpu", "--quiet"]  # fmt: skip
    for key, value in SETTINGS.items():
        command += ["--set", f"{key}={value}"]
    if (out / "trainer").exists():
        command.append("--resume")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_saves(process, out, seconds):
    """Until a step is saved, and a little longer."""
    while process.poll() is None and not (out / "trainer").exists():
        time.sleep(0.01)
    if process.poll() is None:
        time.sleep(seconds)


@pytest.mark.slow
def test_killed_runs_end_like_whole_ones(tmp_path, parent, data):
    whole, out, drawn, kills = tmp_path / "whole", tmp_path / "out", random.Random(0), 0
    start(parent, data, whole).communicate()
    for _ in range(3):
        process = start(parent, data, out)
        wait_for_saves(process, out, drawn.uniform(0.0, 0.3))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate()
        seen = json.loads((out / "trainer" / "state.json").read_text())["progress"]["step"]
        assert 1 <= seen <= STEPS
        assert load(str(out)).generate("hi", max_new_tokens=2)  # whole at any moment
    process = start(parent, data, out)
    _, told = process.communicate()
    assert process.returncode == 0, told[-2000:]
    assert kills
    for name, weight in load_file(whole / "model.safetensors").items():
        assert torch.equal(load_file(out / "model.safetensors")[name], weight), name
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".out")) == []
