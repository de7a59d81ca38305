import torch

from unmask.core.canvas import Canvas, Sampling

ROW = torch.tensor([0])


def make(prompt=5, new=9):
    canvas = Canvas(rows=2, max_len=16, block_size=8, sub_block_size=4, mask_token_id=96)
    canvas.open_row(list(range(prompt)), new, Sampling())
    return canvas


def accept(canvas, *positions):
    chosen = torch.zeros(1, 8, dtype=torch.bool)
    chosen[0, torch.tensor(positions) - int(canvas.start_N[0])] = True
    canvas.accept(ROW, chosen, torch.full((1, 8), 7), torch.full((1, 8), 0.5))


def candidates(canvas):
    start = int(canvas.start_N[0])
    return [start + i for i in canvas.candidates_BS(ROW)[0].nonzero()[:, 0].tolist()]


def test_candidates_lie_in_the_leftmost_unfinished_sub_block():
    canvas = make(prompt=2)
    assert candidates(canvas) == [2, 3]
    accept(canvas, 2, 3)
    assert candidates(canvas) == [4, 5, 6, 7]


def test_candidates_stop_at_the_budget():
    canvas = make(prompt=5, new=2)
    assert candidates(canvas) == [5, 6]


def test_row_is_finished_only_when_all_before_its_end_is_decided():
    canvas = make(prompt=5, new=2)
    accept(canvas, 6)
    assert not canvas.is_finished_B(ROW)
    accept(canvas, 5)
    assert canvas.is_finished_B(ROW)


def test_commit_opens_the_next_block_and_restarts_its_steps():
    canvas = make()
    accept(canvas, 5, 6, 7)
    canvas.step_N[0] = 3
    canvas.commit(ROW, torch.tensor([8]))
    assert int(canvas.start_N[0]) == 8
    assert int(canvas.step_N[0]) == 0
    assert candidates(canvas) == [8, 9, 10, 11]


def test_closing_a_row_moves_the_last_one_into_its_place():
    canvas = make(prompt=5)
    canvas.open_row([9, 9, 9], 4, Sampling(seed=3))
    assert canvas.close_row(0) == 1
    assert canvas.active == 1
    assert canvas.tokens_NL[0, :3].tolist() == [9, 9, 9]
    assert int(canvas.seed_N[0]) == 3


def test_a_reused_row_remembers_nothing():
    canvas = make(prompt=5)
    accept(canvas, 5, 6)
    canvas.close_row(0)
    canvas.open_row([1, 2], 4, Sampling())
    assert canvas.tokens_NL[0, 2:].eq(96).all()
    assert canvas.is_masked_NL[0, 2:].all()
    assert int(canvas.start_N[0]) == 0
