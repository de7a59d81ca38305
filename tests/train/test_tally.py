import pytest
import torch

from unmask.core.noise.linear import Linear
from unmask.train.chat import Sample
from unmask.train.corrupt import noisy_layout
from unmask.train.pack import pack_samples
from unmask.train.tally import BINS, Tally


@pytest.mark.parametrize("shift", [0, 1])
def test_losses_are_counted_where_they_stand(shift):
    """Recounted token by token from the layout itself."""
    size = 16
    row = noisy_layout(
        pack_samples([Sample(list(range(2, 50)), [i >= 5 for i in range(48)])]), block_size=size,
        mask_token_id=99, token_shift=bool(shift), noise=Linear(),
        generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    losses = torch.rand(len(row.denoise.read))
    tally = Tally()
    tally.add(row, losses, shift)
    wanted = torch.zeros(2, 2, BINS)
    for read, loss in zip(row.denoise.read.tolist(), losses.tolist(), strict=True):
        if row.places.stream[read] == 0:
            continue
        at = read + shift
        assert row.tokens[at] == 99
        same = (row.places.stream == row.places.stream[at]) & (
            row.places.block == row.places.block[at]
        )
        hidden = int((row.tokens[same] == 99).sum())
        place = int(row.places.position[at]) % size
        for kind, share in enumerate(((hidden - 1) / size, place / size)):
            wanted[kind, 0, int(share * BINS)] += loss
            wanted[kind, 1, int(share * BINS)] += 1
    torch.testing.assert_close(tally.sums, wanted)
    means = tally.means(tally.sums)
    filled = [mean for mean in means["loss_by_noise"] if mean is not None]
    assert 0 < min(filled) <= max(filled) < 1
    assert means["loss_by_noise"] != means["loss_by_place"]
