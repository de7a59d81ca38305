"""Windows of masks: where they open, what they see, what they learn."""

import math

import pytest
import torch
from conftest import MASK, make_denoiser
from torch.testing import assert_close

from unmask.core.masks import dense_mask
from unmask.train.chat import Sample
from unmask.train.objectives.denoiser import window_hidden, window_loss
from unmask.train.pack import pack_samples
from unmask.train.windows import window_layout, window_starts

SAMPLES = [Sample([10, 11, 12, 13, 14, 15], [False, False, True, True, True, True]),
           Sample([20, 21, 22, 23], [False, True, True, True])]  # fmt: skip


def layout(masks=3, windows=99, seed=0, samples=SAMPLES):
    generator = torch.Generator().manual_seed(seed)
    return window_layout(
        pack_samples(samples), masks=masks, windows=windows, mask_token_id=MASK, generator=generator
    )


def test_hand_worked_layout():
    """Masks at 1 2 3 | 2 3 4 | 3 4 | 4 of the first document, at 7 8 | 8 of the second."""
    row = layout()
    assert row.tokens[:10].tolist() == [10, 11, 12, 13, 14, 15, 20, 21, 22, 23]
    assert row.tokens[10:].tolist() == [MASK] * 12
    assert row.places.position[10:].tolist() == [1, 2, 3, 2, 3, 4, 3, 4, 4, 7, 8, 8]
    assert row.places.block[10:].tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 4, 7, 7, 8]
    assert row.position[10:].tolist() == [1, 2, 3, 2, 3, 4, 3, 4, 4, 1, 2, 2]
    assert row.denoise.label.tolist() == [12, 13, 14, 13, 14, 15, 14, 15, 15, 22, 23, 23]
    assert row.denoise.read.tolist() == list(range(10, 22))
    assert row.labels == 12


def test_a_window_sees_clean_tokens_before_it_and_its_own_earlier_masks():
    row = layout()
    mask = dense_mask(row.places[None], row.places[None], "draft")[0, 0]
    for query in range(10, 22):
        start, document = int(row.places.block[query]), int(row.places.document[query])
        for key in range(22):
            place = int(row.places.position[key])
            is_same = int(row.places.document[key]) == document
            if key < 10:
                wanted = is_same and place < start
            else:
                same_window = row.places.stream[key] == row.places.stream[query]
                wanted = bool(same_window) and place <= int(row.places.position[query])
            assert bool(mask[query, key]) == wanted
    assert not mask[:10, 10:].any()
    block = dense_mask(row.places[None], row.places[None], "block")[0, 0]
    assert (block != mask).any()  # the control: masks that see later ones


def test_starts_are_drawn_evenly_and_never_twice():
    packed = pack_samples(SAMPLES)
    seen = torch.zeros(10)
    for seed in range(300):
        starts = window_starts(packed, 2, torch.Generator().manual_seed(seed))
        assert len(starts.unique()) == 2
        seen[starts] += 1
    assert (seen > 0).nonzero()[:, 0].tolist() == [1, 2, 3, 4, 7, 8]
    assert seen[seen > 0].min() > 60


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_two_passes_are_one(family):
    """The frozen clean stream, computed first, against everything in one forward."""
    backbone, row = make_denoiser(family), layout()
    clean, noisy = window_hidden(backbone, row)
    mask = dense_mask(row.places[None], row.places[None], "draft")
    whole = backbone.hidden(row.tokens[None], row.position[None], mask, masks=12)[0]
    assert_close(clean, whole[:10], atol=1e-5, rtol=1e-4)
    assert_close(noisy, whole[10:], atol=1e-5, rtol=1e-4)
    assert not clean.requires_grad
    weights = [w for w in backbone.model.parameters() if w.requires_grad]
    one = torch.autograd.grad(noisy.square().sum(), weights)
    other = torch.autograd.grad(whole[10:].square().sum(), weights)
    for a, b in zip(one, other, strict=True):
        assert_close(a, b, atol=1e-3, rtol=1e-3)


def test_tokens_learnt_are_counted_once_and_terms_of_the_loss_all():
    row = layout()
    assert (row.targets, row.labels) == (6, 12)  # 12 13 14 15 | 22 23


def test_no_leak():
    """A mask never sees the token it predicts, nor any after its window's start."""
    backbone, row = make_denoiser(), layout()
    _, before = window_hidden(backbone, row)
    row.tokens[3:6] = 50
    _, after = window_hidden(backbone, row)
    starts = row.places.block[10:]
    untouched = (starts <= 3) | (row.places.document[10:] == 1)
    assert torch.equal(before[untouched], after[untouched])
    assert not torch.equal(before[~untouched], after[~untouched])


def test_loss_mixes_data_and_what_the_parent_says(monkeypatch):
    backbone, row = make_denoiser(), layout()

    def logits(hidden):  # p = 1/2, 1/4, 1/8 … whatever the state
        return (-math.log(2) * torch.arange(1.0, 10.0)).expand(len(hidden), -1)

    monkeypatch.setattr(backbone, "logits", logits)
    row.denoise.label[:] = 2
    total = sum(2.0**-n for n in range(1, 10))
    hard = 12 * -math.log(2.0**-3 / total)
    top = [2.0**-n for n in range(1, 9)]
    soft = 12 * -sum(p / sum(top) * math.log(p / total) for p in top)
    assert float(window_loss(backbone, row, 0.0)) == pytest.approx(hard, rel=1e-5)
    assert float(window_loss(backbone, row, 1.0)) == pytest.approx(soft, rel=1e-5)
    assert float(window_loss(backbone, row, 0.3)) == pytest.approx(0.7 * hard + 0.3 * soft)
