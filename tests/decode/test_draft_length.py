"""The choice of a draft's length, against brute force over made-up machines."""

import random

import pytest

from unmask.decode.draft_length import (
    MEMORY,
    PATIENCE,
    PULL,
    Draft,
    DraftLength,
    FixedLength,
)


def taught(longest, cost, hold, rounds=40, rows=1):
    """A chooser that has seen forwards of `cost(width)` seconds and drafts that hold so often."""
    chooser = DraftLength(longest)
    for width in (1, 1 + longest):
        chooser.saw_forward(rows, width, cost(width))
    for number in range(rounds):
        held = 0
        while held < longest and (number * 7 + held * 3) % 10 < 10 * hold:
            held += 1
        chooser.saw_drafts([held] * rows, longest)
    return chooser


def test_every_size_is_tried_first():
    chooser = DraftLength(6)
    assert chooser.choose(1, 20).count == 6
    chooser.saw_forward(1, 7, 1.5)
    assert chooser.choose(1, 20).count == 0
    chooser.saw_forward(1, 1, 1.0)
    assert chooser.choose(1, 20).count > 0


def test_good_drafts_on_a_machine_with_room_are_long():
    assert taught(6, lambda w: 1 + 0.01 * w, hold=1.0).choose(1, 20).count == 6


def test_bad_drafts_are_not_made():
    chooser = taught(6, lambda w: 1 + 0.2 * w, hold=0.0)
    assert chooser.choose(1, 20).count == 0


def test_dear_queries_shorten_the_draft():
    cheap = taught(6, lambda w: 1 + 0.02 * w, hold=0.8).choose(1, 20).count
    dear = taught(6, lambda w: 1 + 0.25 * w, hold=0.8).choose(1, 20).count
    assert 0 <= dear < cheap


def simulate(cost, hold, draft, cycles=20_000):
    """Tokens a second of a made-up machine whose drafts hold independently, by rolling dice."""
    dice, tokens, seconds, has_drafts = random.Random(0), 0, 0.0, False
    if not draft.count:
        return 1 / cost(1)
    for _ in range(cycles):
        if not has_drafts:
            tokens, seconds = tokens + 1, seconds + cost(1 + draft.count)
        held = 0
        while held < draft.count and dice.random() < hold:
            held += 1
        tokens += 1 + held
        seconds += cost(1 + draft.count * (1 + draft.is_chained))
        has_drafts = draft.is_chained and held == draft.count
    return tokens / seconds


@pytest.mark.parametrize("slope", [0.01, 0.05, 0.15, 0.4])
@pytest.mark.parametrize("hold", [0.2, 0.6, 0.8, 0.95])
def test_the_choice_is_the_best_of_all(slope, hold):
    def cost(width):
        return 1 + slope * (width - 1)

    chooser = DraftLength(5)
    for width in (1, 6):
        chooser.saw_forward(1, width, cost(width))
    dice = random.Random(1)
    for _ in range(4000):
        held = 0
        while held < 5 and dice.random() < hold:
            held += 1
        chooser.saw_drafts([held] * 4, 5)
    drafts = [Draft(0), *(Draft(n, chained) for n in range(1, 6) for chained in (False, True))]
    rates = {draft: simulate(cost, hold, draft) for draft in drafts}
    assert rates[chooser.choose(1, 20)] >= 0.95 * max(rates.values())
    assert min(rates.values()) < 0.93 * max(rates.values())  # the control: choices differ


def test_expected_is_a_sum_of_products():
    chooser = DraftLength(2)
    chooser.saw_drafts([0, 1, 2, 2], 2)
    common = (2 * 0.7 * MEMORY + 5) / (2 * MEMORY + 7)
    first = (0.7 * MEMORY + 3 + PULL * common) / (MEMORY + 4 + PULL)
    second = (0.7 * MEMORY + 2 + PULL * common) / (MEMORY + 3 + PULL)
    assert abs(chooser.expected(2) - (first + first * second)) < 1e-12


def test_a_single_bad_verdict_far_out_does_not_shorten_drafts_for_good():
    chooser = DraftLength(8)
    for width in (1, 9):
        chooser.saw_forward(1, width, 1 + 0.02 * width)
    chooser.saw_drafts([3], 8)
    for _ in range(20):
        chooser.saw_drafts([3], 3)
    assert chooser.choose(1, 20).count > 3


def test_a_disturbed_timing_of_a_narrow_forward_is_known_to_be_wrong():
    chooser = taught(6, lambda w: 1 + 0.05 * w, hold=0.8)
    before = chooser.choose(1, 20)
    chooser.saw_forward(1, 1 + before.count, 9.0)
    assert chooser.choose(1, 20).count >= before.count


def test_drafts_that_did_not_pay_are_tried_again_now_and_then():
    chooser = taught(4, lambda w: 1 + w, hold=0.0)
    choices = [chooser.choose(1, 20).count for _ in range(2 * (PATIENCE + 1))]
    assert choices.count(4) == 2
    assert choices.count(0) == 2 * PATIENCE


def test_a_slow_first_forward_is_forgotten():
    """As an engine would play it: kernels are loaded at the first forward, all others are quick."""
    chooser, seconds, chosen = DraftLength(6), 60.0, []
    for _ in range(4):
        draft = chooser.choose(1, 20)
        chosen.append(draft.count)
        for _ in range(2 if draft.count else 1):
            chooser.saw_forward(1, 1 + draft.count, seconds)
            seconds = 1.1
        if draft.count:
            chooser.saw_drafts([draft.count], draft.count)
    assert chosen[:2] == [6, 0]
    assert chosen[2:] == [6, 6]


def test_short_answers_learn_from_the_widest_forwards_they_have():
    chooser = DraftLength(8)
    assert chooser.choose(1, 3).count == 3
    chooser.saw_forward(1, 4, 5.0)
    assert chooser.choose(1, 3).count == 0
    chooser.saw_forward(1, 1, 1.0)
    assert chooser.choose(1, 3).count == 0  # five times the time for at most four tokens and a half


def test_never_more_than_is_of_use():
    chooser = taught(6, lambda w: 1.0, hold=1.0)
    assert [chooser.choose(1, most).count for most in (0, 1, 3, 9)] == [0, 1, 3, 6]
    assert [FixedLength(4).choose(1, most).count for most in (0, 3, 9)] == [0, 3, 4]
    assert FixedLength(4, is_chained=True).choose(1, 9) == Draft(4, True)
