import random

import pytest

from unmask.evals.order import global_ar_ness, local_ar_ness


@pytest.mark.parametrize(
    ("decided", "local", "overall"),
    [(list(range(20)), 1.0, 1.0), (list(range(20))[::-1], 0.0, 0.0), ([3] * 20, 0.5, 0.5),
     ([0, 2, 1, 3], 2 / 3, 5 / 6), ([0, 0, 1, 1], 2 / 3, 5 / 6), ([1, 0], 0.0, 0.0)],
)  # fmt: skip
def test_hand_worked_orders(decided, local, overall):
    assert local_ar_ness(decided) == pytest.approx(local)
    assert global_ar_ness(decided) == pytest.approx(overall)


def test_a_random_order_is_half_and_one_token_has_none():
    orders = [random.Random(seed).sample(range(64), 64) for seed in range(50)]
    for measure in (local_ar_ness, global_ar_ness):
        assert abs(sum(measure(order) for order in orders) / 50 - 0.5) < 0.03
        assert measure([4]) is None
