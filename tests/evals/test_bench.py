"""Counting, on answers that are known; and a run with every kind of point."""

from types import SimpleNamespace

import pytest

from unmask.decode.model import load
from unmask.decode.options import DecodeOptions
from unmask.decode.stats import Nfe
from unmask.evals.baseline import TransformersBaseline
from unmask.evals.bench import in_order, run_bench
from unmask.evals.cell import Point, drift, summarise, wilson
from unmask.evals.problems import Problem


def answer(text, tokens, nfe):
    return SimpleNamespace(text=text, new_tokens=tokens, nfe=nfe, prompt_tokens=3,
                           first_token_s=0.5, accepted=[0] * tokens)  # fmt: skip


def cell(*answers, mode="diffusion", seconds=(2.0,)):
    problems = [Problem([], lambda text: text == "right") for _ in answers]
    point = Point(SimpleNamespace(name="m"), DecodeOptions(), 1, mode)
    return summarise(point, problems, list(answers), list(seconds))


def test_a_cell_is_the_hand_worked_one():
    got = cell(answer("right", 30, Nfe(1, 8, 2)), answer("wrong", 10, Nfe(1, 6, 0)))
    assert (got.correct, got.accuracy) == (1, 0.5)
    assert (got.prefill, got.denoise, got.commit) == (1, 7, 1)
    assert got.tpf == 40 / 16
    assert got.tokens_per_s == 20


def test_the_median_repeat_counts_and_the_spread_is_told():
    got = cell(answer("right", 40, Nfe(1, 8, 2)), seconds=(1.0, 2.0, 4.0))
    assert got.tokens_per_s == 20
    assert got.spread == (40 - 10) / 20


def test_intervals_are_wilsons():
    """From Brown, Cai and DasGupta's formula, worked by hand for 10 of 20."""
    assert wilson(10, 20) == pytest.approx((0.299, 0.701), abs=1e-3)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(0, 10)[1] > 0.2
    assert wilson(10, 10)[1] == pytest.approx(1.0)


@pytest.mark.parametrize("count", [1, 20, 50, 100, 200])
def test_an_interval_holds_its_share_at_both_ends(count):
    assert wilson(0, count)[0] == 0.0
    assert wilson(count, count)[1] == 1.0


def test_drift_counts_missing_tokens_too():
    assert drift([[1, 2]], [[1, 2]]) == 0.0
    assert drift([[1, 2, 3, 4], [5]], [[1, 9], [5]]) == 3 / 5


@pytest.fixture
def problems():
    ask = [{"role": "user", "content": "say it"}]
    return [Problem([*ask, {"role": "assistant", "content": c}, *ask], lambda text: True)
            for c in ("a", "bc", "def")]  # fmt: skip


def test_a_run_holds_everything_against_its_denominators(adapted, problems):
    model = load(str(adapted))
    plain = {"max_new_tokens": 12, "ignore_eos": True, "threshold": 0.1}
    points = [
        Point(model, DecodeOptions(cache="dual", **plain), 2, "diffusion"),
        Point(model, DecodeOptions(cache="block", **plain), 2, "diffusion"),
        Point(model, DecodeOptions(mode="ar", **plain), 2, "ar"),
        Point(TransformersBaseline(model), DecodeOptions(mode="ar", **plain), 2, "transformers"),
    ]
    cells = list(run_bench(in_order(points), problems, 2))
    assert [c.mode for c in cells] == ["transformers", "ar", "diffusion", "diffusion"]
    assert cells[0].ratio_transformers == cells[1].ratio == 1.0
    assert cells[2].drift == 0.0
    assert cells[3].drift > 0.0
    assert cells[3].ratio == cells[3].tokens_per_s / cells[1].tokens_per_s
    assert all(len(c.seconds) == 2 and c.first_token_s > 0 for c in cells)
    assert all(c.new_tokens == 36 for c in cells)


def test_the_baseline_answers_what_our_ar_mode_answers(adapted, problems):
    """The same weights, greedy: two implementations, one text. Another prompt: another text."""
    model = load(str(adapted))
    prompts = [problem.messages for problem in problems]
    ours = model.generate(prompts, mode="ar", max_new_tokens=9)
    theirs = TransformersBaseline(model).generate(prompts, max_new_tokens=9, ignore_eos=False)
    assert [g.token_ids for g in theirs] == [g.token_ids for g in ours]
    assert [g.finish_reason for g in theirs] == [g.finish_reason for g in ours]
    assert ours[0].token_ids != theirs[1].token_ids
