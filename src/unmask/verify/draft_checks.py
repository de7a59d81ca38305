"""Checks on a denoiser: drafts come from what was trained, and change no token of the answer."""

from dataclasses import replace

import torch
from torch import Tensor

from unmask.core.canvas import Sampling
from unmask.decode.autoregressive import ar_config
from unmask.decode.draft_length import FixedLength
from unmask.decode.engine import Request
from unmask.decode.speculative import SpeculativeEngine
from unmask.train.chat import Sample
from unmask.train.objectives.denoiser import window_hidden
from unmask.train.pack import pack_samples
from unmask.train.windows import window_layout
from unmask.verify.check import Check, logit_difference, token_difference
from unmask.verify.oracle import stock_generate, stock_logits
from unmask.verify.subject import Subject, as_logits

NEW_TOKENS = 12


def parent_is_untouched(subject: Subject) -> Check:
    """Clean tokens in a forward that drafts are computed by the parent's weights alone."""
    masks, tokens = subject.config.block_size, subject.tokens(24)
    expected = stock_logits(subject.backbone, tokens, None)
    tokens = tokens + [subject.config.mask_token_id] * masks
    return Check(
        promise="a drafting forward leaves the AR model's logits alone",
        oracle="stock model, no masks in sight",
        difference=logit_difference(_plain(subject, tokens, masks)[:24], expected),
        tolerance=subject.tolerance,
        control="adapters on clean tokens too",
        control_difference=logit_difference(
            _plain(subject, tokens, len(tokens))[:24], expected
        ),
    )  # fmt: skip


def window_logits_are_drafting_logits(subject: Subject) -> Check:
    """What the loss sees at a mask is what a draft would be read from."""
    size = subject.config.block_size
    lengths = (size + 5, 2 * size)
    samples = [Sample(subject.tokens(n, salt=n), [i > 2 for i in range(n)]) for n in lengths]
    generator = torch.Generator().manual_seed(subject.seed)
    row = window_layout(
        pack_samples(samples), masks=size, windows=6,
        mask_token_id=subject.config.mask_token_id, generator=generator,
    )  # fmt: skip
    with torch.no_grad():
        _, noisy_TE = window_hidden(subject.backbone, row.to(subject.backbone.device))
    got = as_logits(subject, noisy_TE)
    expected: list[Tensor] = []
    places = row.places[sum(lengths) :]
    for window in range(1, int(places.stream.max()) + 1):
        mine = places.stream == window
        start, document = int(places.block[mine][0]), int(places.document[mine][0])
        first = 0 if document == 0 else lengths[0]
        masks = [subject.config.mask_token_id] * int(mine.sum())
        tokens = row.tokens[first:start].tolist() + masks
        expected.append(_plain(subject, tokens, len(masks))[-len(masks) :])
    return Check(
        promise="training logits = drafting logits",
        oracle="prefix and masks alone, window by window",
        difference=logit_difference(got, torch.cat(expected)),
        tolerance=subject.tolerance,
        control="the neighbouring mask's",
        control_difference=logit_difference(got.roll(1, 0), torch.cat(expected)),
    )


def _plain(subject: Subject, tokens: list[int], masks: int) -> Tensor:
    """(L, V) logits of one causal forward whose last tokens are masks."""
    device, count = subject.backbone.device, len(tokens)
    causal = torch.ones(count, count, dtype=torch.bool, device=device).tril()[None, None]
    with torch.no_grad():
        hidden = subject.backbone.hidden(
            torch.tensor([tokens], device=device), torch.arange(count, device=device)[None],
            causal, masks=masks,
        )  # fmt: skip
    return as_logits(subject, hidden[0])


def speculative_is_stock_generate(subject: Subject) -> Check:
    """Greedy: the answers are the parent's own."""
    prompts = subject.ragged_prompts()
    got = _speculative(subject, prompts)
    expected = [stock_generate(subject.backbone, prompt, NEW_TOKENS) for prompt in prompts]
    return Check(
        promise="speculative mode = the model's own greedy generate",
        oracle="transformers generate, one prompt at a time",
        difference=token_difference(got, expected),
        tolerance=0.0,
        control="another prompt's answer",
        control_difference=token_difference(got[1:] + got[:1], expected),
    )


def speculative_draws_as_ar(subject: Subject) -> Check:
    """Drawing: the same seed draws the same tokens, drafted or not."""
    prompts = subject.ragged_prompts()
    got = _speculative(subject, prompts, temperature=1.0, is_chained=True)
    expected = [_drawn_by_ar(subject, prompt) for prompt in prompts]
    other = _speculative(subject, prompts, temperature=1.0, seed=1)
    return Check(
        promise="same seed, same tokens, drafted or not, whatever the batch",
        oracle="AR mode, one row alone",
        difference=token_difference(got, expected),
        tolerance=0.0,
        control="another seed",
        control_difference=token_difference(other, expected),
    )


def _drawn_by_ar(subject: Subject, prompt: list[int]) -> list[int]:
    """Temperature 1, seed 0, by the engine that knows no drafts."""
    ar = replace(subject, config=ar_config(subject.backbone.head.weight.shape[0]))
    return ar.decode([prompt], NEW_TOKENS, temperature=1.0, seeds=[0])[0].tokens


def _speculative(
    subject: Subject, prompts: list[list[int]], *, temperature: float = 0.0,
    is_chained: bool = False, seed: int = 0,
) -> list[list[int]]:  # fmt: skip
    length = FixedLength(subject.config.block_size, is_chained=is_chained)
    engine = SpeculativeEngine(
        subject.backbone, subject.config, length, rows=3,
        max_len=max(map(len, prompts)) + NEW_TOKENS,
    )  # fmt: skip
    sequences = [
        engine.submit(Request(prompt=prompt, max_new_tokens=NEW_TOKENS,
                              sampling=Sampling(temperature=temperature, seed=seed)))
        for prompt in prompts
    ]  # fmt: skip
    engine.run()
    return [sequence.tokens for sequence in sequences]
