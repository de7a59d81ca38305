import pytest
import torch

from unmask.errors import DataError
from unmask.train.chat import Sample
from unmask.train.pack import Packer, pack_samples, pad_sample


def sample(count, first=10):
    return Sample(list(range(first, first + count)), [i > 0 for i in range(count)])


def packer(lengths, taken=0):
    return Packer(
        lambda index: sample(lengths[index % len(lengths)], first=100 * index),
        row_tokens=16,
        block_size=4,
        mask_token_id=9,
        taken=taken,
    )


@pytest.mark.parametrize(("count", "padded"), [(1, 4), (3, 4), (4, 4), (5, 8), (8, 8)])
def test_padding_never_adds_a_spare_block(count, padded):
    got = pad_sample(sample(count), 4, 9)
    assert len(got.ids) == len(got.is_target) == padded
    assert got.ids[count:] == [9] * (padded - count)
    assert not any(got.is_target[count:])


def test_a_row_is_the_hand_worked_one():
    row = pack_samples([pad_sample(sample(3), 4, 9), pad_sample(sample(5, 20), 4, 9)])
    assert row.tokens.tolist() == [10, 11, 12, 9, 20, 21, 22, 23, 24, 9, 9, 9]
    assert row.document.tolist() == [0] * 4 + [1] * 8
    assert row.position.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]
    assert row.is_target.tolist() == [False, True, True, False] + [False] + [True] * 4 + [False] * 3


def test_no_sample_is_split_and_no_block_is_shared():
    packing = packer([3, 5, 9, 16, 1, 7])
    for _ in range(20):
        row = packing.next_row()
        assert len(row.tokens) <= 16
        blocks = row.document.view(-1, 4)
        assert (blocks == blocks[:, :1]).all()
        for document in row.document.unique():
            tokens = row.tokens[(row.document == document) & (row.tokens != 9)]
            assert tokens[0] % 100 == 0  # its first token is there …
            lengths = [3, 5, 9, 16, 1, 7]
            assert len(tokens) == lengths[int(tokens[0]) // 100 % 6]  # … and so are all others


def test_every_sample_is_used_once_and_in_order():
    packing = packer([3, 5, 9, 16, 1, 7])
    firsts = []
    for _ in range(12):
        row = packing.next_row()
        firsts += [int(row.tokens[row.document == d][0]) // 100 for d in row.document.unique()]
    assert firsts == list(range(len(firsts)))
    assert packing.taken == len(firsts)


def test_going_on_from_where_it_stopped_gives_the_same_rows():
    whole, first = packer([3, 5, 9, 16, 1, 7]), packer([3, 5, 9, 16, 1, 7])
    rows = [whole.next_row().tokens for _ in range(6)]
    for _ in range(3):
        first.next_row()
    second = packer([3, 5, 9, 16, 1, 7], taken=first.taken)
    for expected in rows[3:]:
        assert torch.equal(second.next_row().tokens, expected)


def test_samples_that_are_too_long_are_counted_and_left_out():
    packing = packer([3, 17, 30, 5])
    for _ in range(4):
        row = packing.next_row()
        assert len(row.tokens) <= 16
    assert packing.too_long > 0
    assert packing.too_long < packing.taken


def test_only_samples_that_are_too_long_is_an_error():
    with pytest.raises(DataError, match="row_tokens"):
        packer([17]).next_row()
