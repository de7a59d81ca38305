"""Checks on logits: our forwards against the stock model's, position by position."""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_mask

from unmask.core.backbone import Backbone
from unmask.core.masks import Places, dense_mask, flex_mask, sees
from unmask.core.noise.linear import Linear
from unmask.train.chat import Sample
from unmask.train.corrupt import TrainingRow, noisy_layout
from unmask.train.objective import row_hidden
from unmask.train.pack import pack_samples, pad_sample
from unmask.verify.check import Check, logit_difference
from unmask.verify.oracle import decoding_mask, stock_logits
from unmask.verify.subject import Subject, as_logits


def causal_logits_are_stock(subject: Subject) -> Check:
    """Our causal forward is the parent's."""
    tokens = subject.tokens(48)
    expected = stock_logits(subject.backbone, tokens, None)
    causal = torch.ones(48, 48, dtype=torch.bool).tril()
    return Check(
        promise="causal logits are the AR model's",
        oracle="stock model, no mask passed",
        difference=logit_difference(_plain(subject.backbone, tokens, causal), expected),
        tolerance=subject.tolerance,
        control="see everything",
        control_difference=logit_difference(
            _plain(subject.backbone, tokens, torch.ones_like(causal)), expected
        ),
    )


def _plain(backbone: Backbone, tokens: list[int], mask: Tensor) -> Tensor:
    """(L, V) logits of one uncached forward through our backbone."""
    device = backbone.device
    with torch.no_grad():
        hidden = backbone.hidden(
            torch.tensor([tokens], device=device),
            torch.arange(len(tokens), device=device)[None],
            mask[None, None].to(device),
        )
        return backbone.logits(hidden[0]).cpu()


def mask_token_is_never_predicted(subject: Subject) -> Check:
    """A model that would predict the mask token would loop for ever."""
    hidden = torch.randn(4, subject.backbone.head.weight.shape[1])
    hidden = hidden.to(subject.backbone.head.weight)
    ours = as_logits(subject, hidden)[:, subject.config.mask_token_id]
    with torch.no_grad():
        raw = subject.backbone.head(hidden)[:, subject.config.mask_token_id]
    return Check(
        promise="the mask token is never predicted",
        oracle="probability 0",
        difference=float(ours.exp().max()),
        tolerance=0.0,
        control="the bare head",
        control_difference=float(raw.float().exp().max()),
    )


def dense_mask_is_flex_mask(subject: Subject) -> Check:
    """Dense attention on CPU and flex_attention on GPU follow one rule."""
    row = _training_row(subject)
    places = row.places[None]
    context = subject.config.context
    dense = dense_mask(places, places, context)
    block_mask = flex_mask(places, context)
    length = dense.shape[-1]
    flex = create_mask(block_mask.mask_mod, 1, 1, length, length, device="cpu")
    other = dense_mask(places, places, "causal" if context == "block" else "block")
    return Check(
        promise="dense mask = flex mask",
        oracle="flex_attention's own dense rendering",
        difference=float((dense != flex).sum()),
        tolerance=0.0,
        control="the other context",
        control_difference=float((other != flex).sum()),
    )


def training_mask_is_pairwise(subject: Subject) -> Check:
    """The vectorised mask rule is the one written out pair by pair."""
    places = _training_row(subject).places
    listed = [t.tolist() for t in (places.document, places.block, places.stream, places.position)]
    pairs = [[_sees(q, k, subject.config.context) for k in zip(*listed, strict=True)]
             for q in zip(*listed, strict=True)]  # fmt: skip
    expected = torch.tensor(pairs)
    got = sees(places[:, None], places[None, :], subject.config.context)
    return Check(
        promise="training mask = the paper's rule",
        oracle="pair by pair in plain Python",
        difference=float((got != expected).sum()),
        tolerance=0.0,
        control="no documents",
        control_difference=float(
            (sees(*_one_document(places), subject.config.context) != expected).sum()
        ),
    )


def _sees(query: tuple[int, ...], key: tuple[int, ...], context: str) -> bool:
    (doc_q, block_q, stream_q, place_q), (doc_k, block_k, stream_k, place_k) = query, key
    if doc_q != doc_k or (stream_q == 0 and stream_k != 0):
        return False
    if stream_q == 0:
        return block_k <= block_q if context == "block" else place_k <= place_q
    if stream_k == 0:
        return block_k < block_q
    return stream_q == stream_k and block_q == block_k


def _one_document(places: Places) -> tuple[Places, Places]:
    one = torch.zeros_like(places.document)
    flat = Places(one, places.block, places.stream, places.position)
    return flat[:, None], flat[None, :]


def training_logits_are_decoding_logits(subject: Subject) -> Check:
    """What the loss sees at a target is what decoding would see there, block starts included."""
    row = _training_row(subject)
    got = as_logits(subject, _hidden(subject, row)[row.denoise.read])
    expected = _decoding_logits(subject, row)
    shifted = row.denoise.read + 1  # the neighbouring state: a wrong token shift
    wrong = as_logits(subject, _hidden(subject, row)[shifted.clamp_max(len(row.tokens) - 1)])
    return Check(
        promise="training logits = decoding logits",
        oracle="stock model on prefix + open block, block by block",
        difference=logit_difference(got, expected),
        tolerance=subject.tolerance,
        control="token shift off by one",
        control_difference=logit_difference(wrong, expected),
    )


def _decoding_logits(subject: Subject, row: TrainingRow) -> Tensor:
    """(M, V) logits of the supervised places, each from its document's prefix and its own view."""
    places, reads = row.places, row.denoise.read
    logits = torch.zeros(len(reads), subject.backbone.head.weight.shape[0])
    keys = torch.stack([places.document, places.block, places.stream], 1)
    for document, block, stream in torch.unique(keys[reads], dim=0).tolist():
        chosen = _visible(row, document, block, stream)
        open_at = len(chosen) - subject.config.block_size if stream else len(chosen)
        mask = decoding_mask(len(chosen), open_at, subject.config)
        tokens, positions = row.tokens[chosen].tolist(), row.position[chosen].tolist()
        stock = stock_logits(subject.backbone, tokens, mask, positions)
        mine = (keys[reads] == torch.tensor([document, block, stream])).all(1)
        logits[mine] = stock[torch.searchsorted(chosen, reads[mine])]
    return logits


def _visible(row: TrainingRow, document: int, block: int, stream: int) -> Tensor:
    """Places that a block of a stream sees in this document: its prefix, then itself."""
    places = row.places
    past = block if stream else block + 1
    is_prefix = (places.stream == 0) & (places.document == document) & (places.block < past)
    is_own = (places.stream == stream) & (places.block == block) & (stream > 0)
    return torch.cat([is_prefix.nonzero()[:, 0], is_own.nonzero()[:, 0]])


def no_leak(subject: Subject) -> Check:
    """A target's own clean token, and what comes after it, never reach its logits."""
    row = _training_row(subject)
    before = as_logits(subject, _hidden(subject, row)[row.denoise.read])
    # In the last block of the clean stream everything is either a target or after one.
    last = int(row.places.block[row.places.stream == 0].max())
    in_last = (row.places.stream == 0) & (row.places.block == last)
    is_read_there = row.places.block[row.denoise.read] == last
    after = as_logits(subject, _hidden(subject, _changed(row, in_last))[row.denoise.read])
    noisy = row.places.stream[row.denoise.read] > 0
    kept = is_read_there & noisy
    earlier = (row.places.stream == 0) & (row.places.block == last - 1)
    control = as_logits(subject, _hidden(subject, _changed(row, earlier))[row.denoise.read])
    return Check(
        promise="no leak: a target's clean token never reaches its logits",
        oracle="the same row with the clean block changed",
        difference=logit_difference(after[kept], before[kept]),
        tolerance=subject.tolerance,
        control="change the block before",
        control_difference=logit_difference(control[kept], before[kept]),
    )


def _changed(row: TrainingRow, where: Tensor) -> TrainingRow:
    tokens = torch.where(where, (row.tokens + 1) % int(row.tokens.max()), row.tokens)
    return TrainingRow(tokens, row.position, row.places, row.denoise, row.next_token)


def _hidden(subject: Subject, row: TrainingRow) -> Tensor:
    with torch.no_grad():
        row = row.to(subject.backbone.device)
        return row_hidden(subject.backbone, row, subject.config.context)


def _training_row(subject: Subject) -> TrainingRow:
    """Two documents: one that ends inside a block, one that fills its blocks."""
    size, mask = subject.config.block_size, subject.config.mask_token_id
    lengths = (2 * size - 1, 2 * size)
    samples = [
        Sample(subject.tokens(n, salt=n), [i >= size // 2 for i in range(n)]) for n in lengths
    ]
    packed = pack_samples([pad_sample(sample, size, mask) for sample in samples])
    return noisy_layout(
        packed,
        block_size=size,
        mask_token_id=mask,
        token_shift=subject.config.token_shift,
        noise=Linear(),
        generator=torch.Generator().manual_seed(subject.seed),
    )
