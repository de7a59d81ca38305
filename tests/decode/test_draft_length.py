"""The choice of a draft's length, against brute force over made-up machines."""

from unmask.decode.draft_length import MEMORY, PATIENCE, DraftLength, FixedLength


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
    assert chooser.choose(1, 20) == 6
    chooser.saw_forward(1, 7, 1.5)
    assert chooser.choose(1, 20) == 0
    chooser.saw_forward(1, 1, 1.0)
    assert chooser.choose(1, 20) > 0


def test_good_drafts_on_a_machine_with_room_are_long():
    assert taught(6, lambda w: 1 + 0.01 * w, hold=1.0).choose(1, 20) == 6


def test_bad_drafts_are_not_made():
    chooser = taught(6, lambda w: 1 + 0.2 * w, hold=0.0)
    assert chooser.choose(1, 20) == 0


def test_dear_queries_shorten_the_draft():
    cheap = taught(6, lambda w: 1 + 0.02 * w, hold=0.8).choose(1, 20)
    dear = taught(6, lambda w: 1 + 0.25 * w, hold=0.8).choose(1, 20)
    assert 0 <= dear < cheap


def test_the_choice_is_the_best_of_all():
    chooser = taught(5, lambda w: 1 + 0.1 * w, hold=0.7)
    rates = {0: 1 / 1.1}
    for count in range(1, 6):
        rates[count] = (2 + chooser.expected(count)) / (2 * (1 + 0.1 * (1 + count)))
    assert chooser.choose(1, 20) == max(rates, key=rates.get)


def test_expected_is_a_sum_of_products():
    chooser = DraftLength(2)
    chooser.saw_drafts([0, 1, 2, 2], 2)
    first = (0.7 * MEMORY + 3) / (MEMORY + 4)
    second = (0.7 * MEMORY + 2) / (MEMORY + 3)
    assert abs(chooser.expected(2) - (first + first * second)) < 1e-12


def test_drafts_that_did_not_pay_are_tried_again_now_and_then():
    chooser = taught(4, lambda w: 1 + w, hold=0.0)
    choices = [chooser.choose(1, 20) for _ in range(2 * (PATIENCE + 1))]
    assert choices.count(4) == 2
    assert choices.count(0) == 2 * PATIENCE


def test_a_slow_first_forward_is_forgotten():
    chooser = taught(6, lambda w: 1 + 0.01 * w, hold=1.0)
    chooser.saw_forward(2, 7, 60.0)  # kernels were loaded
    for _ in range(3):
        chooser.saw_forward(2, 7, 1.1)
    chooser.saw_forward(2, 1, 1.0)
    assert chooser.choose(2, 20) == 6


def test_never_more_than_is_of_use():
    chooser = taught(6, lambda w: 1.0, hold=1.0)
    assert [chooser.choose(1, most) for most in (0, 1, 3, 9)] == [0, 1, 3, 6]
    assert [FixedLength(4).choose(1, most) for most in (0, 3, 9)] == [0, 3, 4]
