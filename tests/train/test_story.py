"""The whole idea in one small model: learn a pattern by denoising, then decode it in parallel."""

import pytest
import torch
from conftest import make_config, make_model

from unmask.core.backbone import Backbone
from unmask.core.denoiser import add_denoiser
from unmask.core.noise.linear import Linear
from unmask.decode.draft_length import FixedLength
from unmask.decode.engine import Request
from unmask.decode.speculative import SpeculativeEngine
from unmask.train.chat import Sample
from unmask.train.corrupt import clean_layout, noisy_layout
from unmask.train.objective import row_losses
from unmask.train.objectives.denoiser import window_loss
from unmask.train.pack import pack_samples
from unmask.train.windows import window_layout
from unmask.verify.oracle import stock_generate
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


def small_model():
    return make_model("qwen3", vocab_size=512, hidden_size=64, intermediate_size=128,
                      num_hidden_layers=3, head_dim=16, initializer_range=0.02)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("context", ["block", "causal"])
def test_a_model_learns_to_fill_in_and_decodes_many_tokens_a_forward(context):
    backbone = Backbone(small_model(), mask_token_id=MASK)
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


def optimise(model, loss_of, steps, rate):
    optimizer = torch.optim.AdamW([w for w in model.parameters() if w.requires_grad], rate)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        start = int(torch.randint(0, 100, (1,), generator=generator))
        packed = pack_samples([Sample(counting(start, 64), [i >= 4 for i in range(64)])])
        optimizer.zero_grad()
        loss_of(packed, generator).backward()
        optimizer.step()


@pytest.mark.slow
def test_a_denoiser_learns_to_draft_what_its_parent_says():
    model = small_model()
    parent = Backbone(model, mask_token_id=MASK)

    def next_token(packed, _generator):
        row = clean_layout(packed, 1)
        return row_losses(parent, row, "causal", with_next_token=True)[1] / row.targets

    optimise(model, next_token, 200, 3e-3)
    before = [weight.clone() for weight in model.parameters()]
    gate = add_denoiser(model, rank=16, alpha=16, mask_token_id=MASK)
    backbone = Backbone(model, mask_token_id=MASK, gate=gate)
    config = make_config(context="draft", mask_token_id=MASK, embedding_rows=512)
    prompts = [counting(start, 20) for start in (3, 40, 77)]

    def forwards():
        engine = SpeculativeEngine(backbone, config, FixedLength(6), rows=2, max_len=80)
        done = [engine.submit(Request(prompt=p, max_new_tokens=44)) for p in prompts]
        engine.run()
        expected = [stock_generate(backbone, prompt, 44) for prompt in prompts]
        assert [sequence.tokens for sequence in done] == expected
        return sum(sequence.nfe.denoise + sequence.nfe.commit for sequence in done)

    untrained = forwards()

    def drafts(packed, generator):
        row = window_layout(packed, masks=6, windows=24, mask_token_id=MASK, generator=generator)
        return window_loss(backbone, row, 0.5) / row.targets

    optimise(model, drafts, 260, 5e-3)
    assert 3 * 44 / forwards() > 3
    assert untrained > 2 * forwards()  # the control: without learning drafts do not hold
    frozen = [weight for weight in model.parameters() if not weight.requires_grad]
    assert all(any(torch.equal(a, b) for b in frozen) for a in before)  # the parent is as it was
