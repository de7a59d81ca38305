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


def todo(canvas):
    start = int(canvas.start_N[0])
    return [start + i for i in canvas.todo_BS(ROW)[0].nonzero()[:, 0].tolist()]


def test_the_active_sub_block_is_the_leftmost_unfinished_one():
    canvas = make(prompt=2)
    assert int(canvas.sub_block_start_B(ROW)) == 0
    accept(canvas, 2, 3)
    assert int(canvas.sub_block_start_B(ROW)) == 4


def test_what_is_to_do_stops_at_the_budget():
    assert todo(make(prompt=5, new=2)) == [5, 6]


def test_an_end_token_pulls_in_the_end_and_only_ever_in():
    canvas = Canvas(rows=1, max_len=16, block_size=8, sub_block_size=4, mask_token_id=96)
    canvas.open_row([1], 9, Sampling(), {7})
    accept(canvas, 5)
    assert int(canvas.end_N[0]) == 6
    accept(canvas, 2, 6)
    assert int(canvas.end_N[0]) == 3
    assert bool(canvas.is_stopped_N[0])


def test_what_is_revoked_is_hidden_again():
    canvas = make(prompt=2)
    before = canvas.tokens_NL.clone()
    accept(canvas, 2, 3)
    assert todo(canvas) == [4, 5, 6, 7]
    revoked = torch.zeros(1, 8, dtype=torch.bool)
    revoked[0, 2:4] = True
    canvas.revoke(ROW, revoked)
    assert todo(canvas) == [2, 3, 4, 5, 6, 7]
    assert torch.equal(canvas.tokens_NL, before)


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
    assert todo(canvas)[:4] == [8, 9, 10, 11]


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
