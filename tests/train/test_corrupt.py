import pytest
import torch

from unmask.core.noise.linear import Linear
from unmask.train.chat import Sample
from unmask.train.corrupt import clean_layout, complementary_masks, noisy_layout, whole_layout
from unmask.train.pack import pack_samples, pad_sample

MASK = 99


def packed(*lengths, size=4, prompt=2):
    samples = [Sample(list(range(1, n + 1)), [i >= prompt for i in range(n)]) for n in lengths]
    return pack_samples([pad_sample(sample, size, MASK) for sample in samples])


def layout(row, seed=0, shift=True, size=4, pairs=1):
    return noisy_layout(
        row, block_size=size, mask_token_id=MASK, token_shift=shift, noise=Linear(),
        generator=torch.Generator().manual_seed(seed), pairs=pairs,
    )  # fmt: skip


def coverage(row, training_row, shift):
    """How often each clean place is learnt."""
    counts = torch.zeros(len(row.tokens), dtype=torch.long)
    for read, label in zip(training_row.denoise.read, training_row.denoise.label, strict=True):
        place = int(training_row.places.position[read]) + int(shift)
        assert row.tokens[place] == label
        counts[place] += 1
    return counts


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_every_target_is_learnt_exactly_once_and_nothing_else(seed, shift):
    row = packed(7, 12, 4, 9)
    counts = coverage(row, layout(row, seed, shift), shift)
    assert torch.equal(counts, row.is_target.long())


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("pairs", [2, 4])
def test_more_pairs_learn_every_target_as_often_over_one_clean_stream(pairs, shift):
    row = packed(7, 12, 4, 9)
    noisy = layout(row, shift=shift, pairs=pairs)
    assert torch.equal(coverage(row, noisy, shift), pairs * row.is_target.long())
    assert int((noisy.places.stream == 0).sum()) == len(row.tokens)
    assert set(noisy.places.stream.tolist()) <= set(range(2 * pairs + 1))
    assert (noisy.targets, noisy.labels) == (int(row.is_target.sum()), pairs * noisy.targets)
    first = noisy.tokens[noisy.places.stream == 1]
    others = [noisy.tokens[noisy.places.stream == 2 * n + 1] for n in range(1, pairs)]
    assert not all(torch.equal(first, other) for other in others)  # drawn anew


@pytest.mark.parametrize("size", [2, 4])
def test_rows_packed_for_large_blocks_hold_small_ones(size):
    row = packed(7, 12, 4, 9, size=8)
    noisy = layout(row, size=size)
    assert torch.equal(coverage(row, noisy, True), row.is_target.long())
    assert int(noisy.places.block.max()) + 1 == len(row.tokens) // size
    for block in noisy.places.block.unique():
        held = noisy.places.document[noisy.places.block == block]
        assert len(held.unique()) == 1  # never two documents


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_whole_documents_are_learnt_once_a_pair(seed, pairs, shift):
    row = packed(7, 12, 4, 9)
    views = whole_layout(row, mask_token_id=MASK, token_shift=shift, noise=Linear(), pairs=pairs,
                         generator=torch.Generator().manual_seed(seed))  # fmt: skip
    assert torch.equal(coverage(row, views, shift), pairs * row.is_target.long())
    is_hidden = views.tokens != row.tokens[views.places.position]
    assert row.is_target[views.places.position[is_hidden]].all()
    read = views.denoise.read + int(shift)
    assert torch.equal(read.sort().values, is_hidden.nonzero()[:, 0])  # hidden where it is learnt
    same = views.places.document[views.denoise.read] == views.places.document[read]
    assert same.all()
    for document in views.places.document.unique():
        places = views.places.position[views.places.document == document]
        assert len(row.document[places].unique()) == 1
        assert len(places) == int((row.document == row.document[places[0]]).sum())  # all of it


def test_one_view_alone_would_not_cover():
    row = packed(7, 12, 4, 9)
    masked, rest = complementary_masks(
        row.is_target.view(-1, 4), Linear(), torch.Generator().manual_seed(0)
    )
    assert not torch.equal(masked.flatten(), row.is_target)
    assert torch.equal((masked ^ rest).flatten(), row.is_target)


def test_only_targets_are_hidden_and_block_starts_stay_visible():
    row = packed(7, 12, 4, 9)
    noisy = layout(row)
    for token, place, stream in zip(
        noisy.tokens, noisy.places.position, noisy.places.stream, strict=True
    ):
        if token == row.tokens[place]:
            continue
        assert token == MASK
        assert stream > 0
        assert row.is_target[place]
        assert place % 4 != 0


def test_clean_stream_comes_first_and_untouched():
    row = packed(7, 12)
    noisy = layout(row)
    length = len(row.tokens)
    assert torch.equal(noisy.tokens[:length], row.tokens)
    assert noisy.places.stream[:length].eq(0).all()
    assert noisy.places.stream[length:].gt(0).all()


def test_noisy_copies_exist_only_of_blocks_with_hidden_tokens():
    row = packed(16, prompt=14)  # targets in the last block alone
    noisy = layout(row)
    assert set(noisy.places.block[16:].tolist()) == {3}
    assert len(noisy.tokens) <= 16 + 2 * 4


def test_a_position_keeps_its_rotary_place_in_every_copy():
    row = packed(7, 12)
    noisy = layout(row)
    assert torch.equal(noisy.position, row.position[noisy.places.position])


def test_share_of_hidden_tokens_is_the_noise_level():
    targets = torch.ones(4000, 32, dtype=torch.bool)
    masked, _ = complementary_masks(targets, Linear(), torch.Generator().manual_seed(0))
    shares = masked.float().mean(1)
    assert abs(float(shares.mean()) - 0.5) < 0.02  # t ~ U(0, 1)
    assert abs(float(shares.std()) - (1 / 12 + 1 / (6 * 32)) ** 0.5) < 0.01


def test_clean_layout_reads_every_target_from_the_token_before():
    row = packed(7, 12)
    clean = clean_layout(row, 4)
    places = row.is_target.nonzero()[:, 0]
    assert clean.next_token.read.tolist() == (places - 1).tolist()
    assert clean.next_token.label.tolist() == row.tokens[places].tolist()
    assert clean.targets == len(places)
