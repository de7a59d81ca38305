"""Every schedule, over a whole run."""

import itertools
import json

import pytest

from unmask.errors import TrainingError
from unmask.plugins import load_plugin, plugin_names
from unmask.train.adapt import adapt
from unmask.train.loop import Budget
from unmask.train.optim import learning_rate
from unmask.train.recipe import Recipe

NAMES = plugin_names("unmask.train.schedules")


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_starts_at_one_and_never_rises(name):
    factors = [load_plugin("unmask.train.schedules", name)().factor(n / 50) for n in range(51)]
    assert factors[0] == 1.0
    assert all(a >= b >= 0 for a, b in itertools.pairwise(factors))
    assert (factors[-1] < 0.2) == (name != "constant")


def test_warm_up_comes_first_and_the_schedule_multiplies():
    recipe = Recipe(learning_rate=2.0, warmup_steps=4, schedule="warmup-stable-decay")
    assert learning_rate(1, 0.1, recipe) == 1.0
    assert learning_rate(90, 0.9, recipe) == pytest.approx(1.0)


def test_a_run_of_six_steps_follows_its_schedule(tmp_path, parent, data):
    recipe = Recipe(block_size=8, sub_block_size=4, row_tokens=64, rows_per_step=1, warmup_steps=0,
                    learning_rate=1e-3, schedule="cosine")  # fmt: skip
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=recipe, budget=Budget(steps=6))
    lines = (out / "trainer" / "log.jsonl").read_text().splitlines()
    rates = [json.loads(line)["learning_rate"] for line in lines]
    assert rates == pytest.approx([learning_rate(step, step / 6, recipe) for step in range(6)])
    assert rates[5] < rates[0] / 4


def test_a_resumed_run_of_minutes_cannot_follow_a_schedule(tmp_path, parent, data):
    recipe = Recipe(block_size=8, sub_block_size=4, row_tokens=64, schedule="cosine")
    with pytest.raises(TrainingError, match="use --steps or --tokens"):
        adapt(str(parent), str(data), tmp_path, recipe=recipe, budget=Budget(minutes=1),
              resume=True)  # fmt: skip
