import math

import pytest
import torch
from conftest import MASK, make_backbone, make_model

from unmask.core.backbone import Backbone
from unmask.core.masks import Places
from unmask.core.noise.linear import Linear
from unmask.train import objective
from unmask.train.chat import Sample
from unmask.train.corrupt import Supervision, TrainingRow, clean_layout, noisy_layout
from unmask.train.objective import cross_entropy_sum, row_losses
from unmask.train.pack import pack_samples, pad_sample


def make_row(seed=0, shift=True, size=8, pairs=1):
    generator = torch.Generator().manual_seed(7)
    samples = []
    for length in (13, 16):
        ids = torch.randint(0, 90, (length,), generator=generator).tolist()
        samples.append(pad_sample(Sample(ids, [i > 3 for i in range(length)]), size, MASK))
    return noisy_layout(
        pack_samples(samples), block_size=size, mask_token_id=MASK, token_shift=shift,
        noise=Linear(), generator=torch.Generator().manual_seed(seed), pairs=pairs,
    )  # fmt: skip


class FixedHead:
    """A backbone whose logits are given: p = 1/2, 1/4, 1/4 for every state."""

    def logits(self, hidden_ME):
        return torch.tensor([0.5, 0.25, 0.25]).log().expand(len(hidden_ME), -1)


def test_loss_is_the_hand_worked_sum():
    supervision = Supervision(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2]))
    loss = cross_entropy_sum(FixedHead(), torch.zeros(3, 4), supervision)
    assert float(loss) == pytest.approx(math.log(2) + 2 * math.log(4))
    assert float(loss) != pytest.approx(3 * math.log(2))


def test_chunks_do_not_change_the_loss(monkeypatch):
    backbone, row = make_backbone(), make_row()
    whole, _ = row_losses(backbone, row, "block", with_next_token=False)
    monkeypatch.setattr(objective, "HEAD_CHUNK", 3)
    chunked, _ = row_losses(backbone, row, "block", with_next_token=False)
    torch.testing.assert_close(whole, chunked)


def test_next_token_loss_is_the_stock_models():
    """Hugging Face's own loss on one document, prompt ignored."""
    backbone = Backbone(make_model())
    ids = torch.randint(0, 90, (12,)).tolist()
    row = clean_layout(pack_samples([Sample(ids, [i > 3 for i in range(12)])]), 4)
    _, ours = row_losses(backbone, row, "causal", with_next_token=True)
    with backbone.stock() as model:
        labels = torch.tensor([[-100] * 4 + ids[4:]])
        theirs = model(input_ids=torch.tensor([ids]), labels=labels).loss
        on_prompt_too = model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss
    torch.testing.assert_close(ours / 8, theirs)
    assert (ours / 8 - on_prompt_too).abs().item() > 1e-3


def test_loss_does_not_change_with_more_padding():
    """Pad blocks behind the last document, and fillers behind the row."""
    backbone, row = make_backbone(), make_row()
    plain, _ = row_losses(backbone, row, "block", with_next_token=False)
    for document in (1, -1):
        padded, _ = row_losses(backbone, with_pads(row, document), "block", with_next_token=False)
        torch.testing.assert_close(plain, padded)
    seen = with_pads(row, 1, block=0)  # pads that stand inside an early block are seen
    assert (row_losses(backbone, seen, "block", with_next_token=False)[0] - plain).abs() > 1e-3


def with_pads(row, document, block=9):
    """The row with a block of pads at its end."""
    pads = torch.full((8,), MASK)
    places = (torch.full((8,), document), torch.full((8,), block), torch.zeros(8).long(),
              torch.arange(72, 80))  # fmt: skip
    before = (row.places.document, row.places.block, row.places.stream, row.places.position)
    joined = Places(*(torch.cat(pair) for pair in zip(before, places, strict=True)))
    return TrainingRow(torch.cat([row.tokens, pads]), torch.cat([row.position, places[3]]), joined,
                       row.denoise, row.next_token)  # fmt: skip


@pytest.mark.parametrize("context", ["block", "causal"])
def test_gradient_is_that_of_the_two_views_apart(context):
    """3L against two separate [clean | view] passes, in float64."""
    backbone, row = make_backbone(), make_row()
    backbone.model.double()

    def gradient(rows):
        backbone.model.zero_grad()
        for part in rows:
            row_losses(backbone, part, context, with_next_token=False)[0].backward()
        return [p.grad.clone() for p in backbone.model.parameters() if p.grad is not None]

    for ours, apart in zip(gradient([row]), gradient(split_views(row)), strict=True):
        torch.testing.assert_close(ours, apart, atol=1e-6, rtol=1e-6)
    half = gradient(split_views(row)[:1])
    assert any((a - b).abs().max() > 1e-3 for a, b in zip(gradient([row]), half, strict=True))


def test_gradient_of_two_pairs_is_that_of_each_pair_apart():
    backbone, row = make_backbone(), make_row(pairs=2)
    backbone.model.double()

    def gradient(rows):
        backbone.model.zero_grad()
        for part in rows:
            row_losses(backbone, part, "block", with_next_token=False)[0].backward()
        return [p.grad.clone() for p in backbone.model.parameters() if p.grad is not None]

    parts = [split_pair(row, pair) for pair in (0, 1)]
    for ours, apart in zip(gradient([row]), gradient(parts), strict=True):
        torch.testing.assert_close(ours, apart, atol=1e-6, rtol=1e-6)
    twice = gradient([parts[0], parts[0]])
    assert any((a - b).abs().max() > 1e-3 for a, b in zip(gradient([row]), twice, strict=True))


def split_pair(row, pair):
    """The row with one pair of views, and its share of what is read from the clean stream."""
    stream = row.places.stream
    index = ((stream == 0) | ((stream - 1) // 2 == pair)).nonzero()[:, 0]
    where = torch.full((len(row.tokens),), -1)
    where[index] = torch.arange(len(index))
    read, label = row.denoise.read, row.denoise.label
    is_start = stream[read] == 0
    is_mine = torch.isin(read, index) & ~is_start
    starts = is_start.nonzero()[:, 0]
    starts = starts[pair * len(starts) // 2 : (pair + 1) * len(starts) // 2]
    kept = torch.cat([is_mine.nonzero()[:, 0], starts])
    return TrainingRow(row.tokens[index], row.position[index], row.places[index],
                       Supervision(where[read[kept]], label[kept]), row.next_token)  # fmt: skip


def split_views(row):
    """The same row as two rows of one view; block starts stay with the first."""
    parts = []
    for view in (1, 2):
        kept = (row.places.stream == 0) | (row.places.stream == view)
        index = kept.nonzero()[:, 0]
        new_place = torch.full_like(row.tokens, -1)
        new_place[index] = torch.arange(len(index))
        stream = row.places.stream[row.denoise.read]
        mine = (stream == view) | ((stream == 0) & (view == 1))
        parts.append(
            TrainingRow(
                row.tokens[index], row.position[index], row.places[index],
                Supervision(new_place[row.denoise.read[mine]], row.denoise.label[mine]),
                Supervision(torch.zeros(0).long(), torch.zeros(0).long()),
            )
        )  # fmt: skip
    return parts
