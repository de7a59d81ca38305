"""Checks on decoding: what the engine answers, against slow and plain decoders."""

import torch

from unmask.decode.engine import Sequence
from unmask.verify.check import Check, logit_difference, token_difference
from unmask.verify.oracle import decode_one_at_a_time, stock_generate
from unmask.verify.subject import Subject

LOW = 1e-3
"""A threshold that accepts many tokens at once, so that a check is quick and parallel steps too are
checked."""


def _answers(sequences: list[Sequence]) -> list[list[int]]:
    return [sequence.tokens for sequence in sequences]


def cached_is_recomputed(subject: Subject) -> Check:
    """The block cache changes nothing, over several blocks."""
    size = subject.config.block_size
    prompts = [subject.tokens(size + 3, salt=1), subject.tokens(2 * size, salt=2)]
    cached = _answers(subject.decode(prompts, size + 2, cache="block", threshold=LOW))
    oracle = _answers(subject.decode(prompts, size + 2, cache="none", threshold=LOW))
    return Check(
        promise="block cache = recomputing everything",
        oracle="cache policy none",
        difference=token_difference(cached, oracle),
        tolerance=0.0,
        control="another prompt's answer",
        control_difference=token_difference(cached, oracle[::-1]),
    )


def committed_state_is_clean_state(subject: Subject) -> Check:
    """After a commit the cache holds what a prefill of the clean prefix would have put there."""
    size = subject.config.block_size
    prompt = subject.tokens(size, salt=3)
    held, tokens = _keys(subject, prompt, until=2 * size)
    clean, _ = _keys(subject, tokens, until=2 * size)
    return Check(
        promise="state after commit = state of the clean prefix",
        oracle="keys of a prefill over the final tokens",
        difference=logit_difference(held, clean),
        tolerance=subject.tolerance,
        control="the first block's keys for the second's",
        control_difference=logit_difference(held.roll(size, 1), clean),
    )


def _keys(subject: Subject, prompt: list[int], until: int) -> tuple[torch.Tensor, list[int]]:
    """Keys of the last layer (H, `until`, D) once that many tokens are committed, and those."""
    engine = subject.engine([prompt], subject.config.block_size + 1, threshold=LOW)
    while int(engine.canvas.start_N[0]) < until:
        engine.step()
    tokens = engine.canvas.tokens_NL[0, :until].tolist()
    assert engine.forward.cache is not None, "the block policy has a cache"
    return engine.forward.cache.layers[-1].keys[0, :, :until].clone(), tokens


def batched_is_single(subject: Subject) -> Check:
    """Rows of every awkward length, in one batch and alone; fewer places than rows, too."""
    prompts, new_tokens = subject.ragged_prompts()[::-1], subject.config.sub_block_size + 2
    batched = subject.decode(prompts, new_tokens, rows=3, threshold=LOW)
    single = [subject.decode([p], new_tokens, threshold=LOW)[0].tokens for p in prompts]
    swapped = single[1:] + single[:1]
    return Check(
        promise="batched = single (prompts of 1, S-1, S, S+1, 2S-1, 2S)",
        oracle="each row alone",
        difference=token_difference(_answers(batched), single),
        tolerance=0.0,
        control="another row's answer",
        control_difference=token_difference(_answers(batched), swapped),
    )


def threshold_one_is_one_at_a_time(subject: Subject) -> Check:
    """τ = 1 is exact sequential decoding."""
    size = subject.config.block_size
    new_tokens = subject.config.sub_block_size + 2
    prompts = [subject.tokens(size - 1, salt=5), subject.tokens(size, salt=6)]
    oracle = [
        decode_one_at_a_time(subject.backbone, subject.config, prompt, new_tokens)[0]
        for prompt in prompts
    ]
    got = subject.decode(prompts, new_tokens)
    fast = subject.decode(prompts, new_tokens, threshold=1e-9)
    return Check(
        promise="τ = 1 is one token at a time, in the right order",
        oracle="stock model, no cache, a plain loop",
        difference=token_difference(_answers(got), oracle),
        tolerance=0.0,
        control="τ ≈ 0 (forwards saved)",
        control_difference=float(sum(a.nfe.total for a in got) - sum(b.nfe.total for b in fast)),
    )


def budget_does_not_change_tokens(subject: Subject) -> Check:
    """How many blocks of hidden tokens still follow never matters."""
    size = subject.config.block_size
    prompt = subject.tokens(size // 2 + 1, salt=7)
    new_tokens = size - len(prompt)  # to the end of a block
    short = subject.decode([prompt], new_tokens, threshold=LOW)[0].tokens
    long = subject.decode([prompt], new_tokens + size, threshold=LOW)[0].tokens
    return Check(
        promise="any number of trailing masks: same tokens",
        oracle="the start of a longer answer",
        difference=token_difference([short], [long[: len(short)]]),
        tolerance=0.0,
        control="the next tokens of it",
        control_difference=float(len(long) - len(short)),
    )


def end_token_at_block_start_ends(subject: Subject) -> Check:
    """An end token that is a block's first token ends it, after a prefill and after a commit."""
    size = subject.config.block_size
    prompts = [subject.tokens(size, salt=8), subject.tokens(2 * size - 1, salt=9)]
    got, expected, longest = [], [], 0
    for place, prompt in enumerate(prompts):  # the block's first token is the new token at `place`
        free = subject.decode([prompt], 4)[0].tokens
        ends = frozenset({free[place]})
        got.append(subject.decode([prompt], 4, end_token_ids=ends)[0].tokens)
        expected.append(free[: free.index(free[place]) + 1])
        longest = max(longest, len(free))
    return Check(
        promise="an end token as a block's first token ends the answer",
        oracle="the free answer, cut by hand",
        difference=token_difference(got, expected),
        tolerance=0.0,
        control="no end token",
        control_difference=float(longest - len(got[0])),
    )


def seed_fixes_tokens(subject: Subject) -> Check:
    """Sampling depends on the row's seed, not on its company."""
    prompts, new_tokens = subject.ragged_prompts()[-3:], 6
    seeds = list(range(len(prompts)))
    together = subject.decode(prompts, new_tokens, temperature=1.0, seeds=seeds)
    alone = [
        subject.decode([prompt], new_tokens, temperature=1.0, seeds=[seed])[0].tokens
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]
    other = subject.decode(prompts, new_tokens, temperature=1.0, seeds=[s + 99 for s in seeds])
    return Check(
        promise="same seed, same tokens, whatever the batch",
        oracle="each row alone",
        difference=token_difference(_answers(together), alone),
        tolerance=0.0,
        control="another seed",
        control_difference=token_difference(_answers(other), alone),
    )


def ar_mode_is_stock_generate(subject: Subject) -> Check:
    """AR mode is the parent's greedy decoding. `subject.config` must be that of AR mode."""
    prompts = [subject.tokens(count, salt=count) for count in (1, 5, 17)]
    got = _answers(subject.decode(prompts, 16))
    expected = [stock_generate(subject.backbone, prompt, 16) for prompt in prompts]
    return Check(
        promise="AR mode = the model's own greedy generate",
        oracle="transformers generate",
        difference=token_difference(got, expected),
        tolerance=0.0,
        control="another prompt's answer",
        control_difference=token_difference(got, expected[1:] + expected[:1]),
    )
