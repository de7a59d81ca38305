"""Checks on context `full`: training and decoding compute the same thing, views stay apart."""

import torch
from torch import Tensor

from unmask.core.noise.linear import Linear
from unmask.train.chat import Sample
from unmask.train.corrupt import TrainingRow, whole_layout
from unmask.train.objective import row_hidden
from unmask.train.pack import pack_samples
from unmask.verify.check import Check, logit_difference
from unmask.verify.oracle import stock_logits
from unmask.verify.subject import Subject, as_logits


def views_are_apart(subject: Subject) -> Check:
    """A view never sees the other, where its own hidden tokens stand open."""
    row = _training_row(subject)
    is_first = row.places.stream == 1
    reads_first = is_first[row.denoise.read]
    before = _logits(subject, row)
    after = _logits(subject, _changed(row, ~is_first))
    control = _logits(subject, _changed(row, is_first & (row.places.position == 0)))
    return Check(
        promise="no leak: the complementary view never reaches a view's logits",
        oracle="the same row with the other views changed",
        difference=logit_difference(after[reads_first], before[reads_first]),
        tolerance=subject.tolerance,
        control="change a token of its own",
        control_difference=logit_difference(control[reads_first], before[reads_first]),
    )


def training_logits_are_decoding_logits(subject: Subject) -> Check:
    """What the loss sees at a target is what a forward over that canvas alone would see."""
    row = _training_row(subject)
    got = _logits(subject, row)
    expected, causal = torch.zeros_like(got), torch.zeros_like(got)
    for document in set(row.places.document.tolist()):
        index = (row.places.document == document).nonzero()[:, 0]
        mine = torch.isin(row.denoise.read, index)
        tokens, inside = row.tokens[index].tolist(), row.denoise.read[mine] - index[0]
        all_seen = [[True] * len(tokens)] * len(tokens)
        expected[mine] = stock_logits(subject.backbone, tokens, all_seen)[inside]
        causal[mine] = stock_logits(subject.backbone, tokens, None)[inside]
    return Check(
        promise="training logits = decoding logits",
        oracle="stock model on one canvas, everything seen",
        difference=logit_difference(got, expected),
        tolerance=subject.tolerance,
        control="a causal mask",
        control_difference=logit_difference(causal, expected),
    )


def _logits(subject: Subject, row: TrainingRow) -> Tensor:
    with torch.no_grad():
        row = row.to(subject.backbone.device)
        hidden = row_hidden(subject.backbone, row, "full")
    return as_logits(subject, hidden[row.denoise.read])


def _changed(row: TrainingRow, where: Tensor) -> TrainingRow:
    tokens = torch.where(where, (row.tokens + 1) % int(row.tokens.max()), row.tokens)
    return TrainingRow(tokens, row.position, row.places, row.denoise, row.next_token)


def _training_row(subject: Subject) -> TrainingRow:
    """Two documents of different lengths."""
    samples = [
        Sample(subject.tokens(n, salt=n), [i >= 4 for i in range(n)]) for n in (11, 16)
    ]  # fmt: skip
    return whole_layout(
        pack_samples(samples),
        mask_token_id=subject.config.mask_token_id,
        token_shift=subject.config.token_shift,
        noise=Linear(),
        generator=torch.Generator().manual_seed(subject.seed),
    )
