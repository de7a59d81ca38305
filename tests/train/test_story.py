"""The whole idea in one small model: learn a pattern by denoising, then decode it in parallel."""

import pytest
import torch
from conftest import make_config, make_model

from unmask.core.backbone import Backbone
from unmask.core.noise.linear import Linear
from unmask.train.chat import Sample
from unmask.train.corrupt import noisy_layout
from unmask.train.objective import row_losses
from unmask.train.pack import pack_samples
from unmask.verify.subject import Subject

MASK, SIZE = 511, 16


def counting(start, count):
    """The text: count up by three from a start, modulo 100."""
    return [(start + 3 * i) % 100 for i in range(count)]


def train(backbone, context, steps=400):
    optimizer = torch.optim.AdamW(backbone.model.parameters(), 3e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        starts = torch.randint(0, 100, (2,), generator=generator).tolist()
        samples = [Sample(counting(s, 64), [i >= SIZE for i in range(64)]) for s in starts]
        row = noisy_layout(
            pack_samples(samples), block_size=SIZE, mask_token_id=MASK, token_shift=True,
            noise=Linear(), generator=generator,
        )  # fmt: skip
        denoise, next_token = row_losses(backbone, row, context, with_next_token=True)
        loss = (denoise + 0.3 * next_token) / row.targets
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("context", ["block", "causal"])
def test_a_model_learns_to_fill_in_and_decodes_many_tokens_a_forward(context):
    model = make_model("qwen3", vocab_size=512, hidden_size=64, intermediate_size=128,
                       num_hidden_layers=3, head_dim=16, initializer_range=0.02)  # fmt: skip
    backbone = Backbone(model, mask_token_id=MASK)
    train(backbone, context)
    config = make_config(context=context, block_size=SIZE, sub_block_size=8, mask_token_id=MASK,
                         embedding_rows=512)  # fmt: skip
    subject = Subject(backbone=backbone, config=config)
    prompts = [counting(start, 20) for start in (3, 40, 77)]
    fast = subject.decode(prompts, 44, threshold=0.9)
    expected = [counting(start, 64)[20:] for start in (3, 40, 77)]
    assert [sequence.tokens for sequence in fast] == expected
    for sequence in fast:
        assert 44 / (sequence.nfe.denoise + sequence.nfe.commit) > 4
    slow = subject.decode(prompts, 44, threshold=1.0)
    assert [sequence.tokens for sequence in slow] == expected
    assert slow[0].nfe.total > 4 * fast[0].nfe.total  # the control: τ = 1 saves nothing
