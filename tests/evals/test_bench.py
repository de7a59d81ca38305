"""Counting, on answers that are known."""

from types import SimpleNamespace

import pytest

from unmask.decode.options import DecodeOptions
from unmask.decode.stats import Nfe
from unmask.evals.bench import Point, summarise
from unmask.evals.problems import Problem


def answer(text, tokens, nfe):
    return SimpleNamespace(text=text, new_tokens=tokens, nfe=nfe)


def cell(*answers, mode="diffusion", seconds=2.0):
    config = SimpleNamespace(sub_block_size=8)
    model = SimpleNamespace(
        checkpoint=SimpleNamespace(name="m"), decode_config=lambda _options: config
    )
    problems = [Problem([], lambda text: text == "right") for _ in answers]
    return summarise(Point(model, DecodeOptions(mode=mode), 1), problems, list(answers), seconds)


def test_a_cell_is_the_hand_worked_one():
    got = cell(answer("right", 30, Nfe(1, 8, 2)), answer("wrong", 10, Nfe(1, 6, 0)))
    assert (got.correct, got.accuracy) == (1, 0.5)
    assert got.standard_error == pytest.approx((0.25 / 2) ** 0.5)
    assert (got.prefill, got.denoise, got.commit) == (1, 7, 1)
    assert got.tpf == 40 / 16
    assert got.tokens_per_s == 20


@pytest.mark.parametrize(("texts", "accuracy"), [(["right"] * 4, 1.0), (["wrong"] * 4, 0.0)])
def test_all_right_and_all_wrong(texts, accuracy):
    got = cell(*(answer(text, 5, Nfe(1, 4, 1)) for text in texts))
    assert (got.accuracy, got.standard_error) == (accuracy, 0.0)


def test_ar_has_no_threshold():
    assert cell(answer("right", 5, Nfe(1, 0, 4)), mode="ar").threshold is None
