"""Every strategy in the engine: it ends, keeps the budget, and does not see its neighbours."""

import pytest
import torch
from conftest import MASK, make_backbone, make_config
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.decode.strategy import Strategy
from unmask.errors import ConfigError
from unmask.plugins import plugin_names
from unmask.verify.subject import Subject

STRATEGIES = plugin_names("unmask.decode.strategies")
LOOK_AT_THE_BLOCK = ("adablock", "prophet", "slowfast")
POLICIES = plugin_names("unmask.decode.policies")


def subject(**settings):
    return Subject(backbone=make_backbone(), config=make_config(**settings))


def prompt(count, salt=0):
    generator = torch.Generator().manual_seed(salt)
    return torch.randint(3, MASK, (count,), generator=generator).tolist()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cache", POLICIES)
@pytest.mark.parametrize("fuse_commit", [False, True])
def test_batched_is_single_and_the_budget_is_exact(strategy, cache, fuse_commit):
    tried = subject()
    options = {"strategy": strategy, "cache": cache, "fuse_commit": fuse_commit,
               "threshold": 0.2, "k": 2, "temperature": 0.7}  # fmt: skip
    if strategy in LOOK_AT_THE_BLOCK and cache.startswith("dual"):
        with pytest.raises(ConfigError, match="use cache block"):
            tried.decode([prompt(5)], 13, **options)
        return
    prompts = [prompt(length, salt=length) for length in (1, 7, 8, 16)]
    together = tried.decode(prompts, 13, seeds=[4, 5, 6, 7], rows=3, **options)
    for place, alone in enumerate(prompts):
        single = tried.decode([alone], 13, seeds=[4 + place], **options)[0]
        assert together[place].tokens == single.tokens
        assert together[place].nfe == single.nfe
        assert together[place].accepted == single.accepted
        assert len(single.tokens) == 13
        assert MASK not in single.tokens


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_cached_is_recomputed(strategy):
    tried = subject()
    options = {"strategy": strategy, "threshold": 0.2, "k": 3}
    cached = tried.decode([prompt(11)], 30, cache="block", **options)[0]
    recomputed = tried.decode([prompt(11)], 30, cache="none", **options)[0]
    assert cached.tokens == recomputed.tokens
    assert cached.tokens != tried.decode([prompt(12)], 30, **options)[0].tokens


@pytest.mark.parametrize("cache", ["block", "dual"])
def test_fused_commit_saves_a_forward_a_block(cache):
    tried = subject()
    options = {"strategy": "topk", "k": 4, "cache": cache}
    apart = tried.decode([prompt(16)], 40, **options)[0]
    fused = tried.decode([prompt(16)], 40, fuse_commit=True, **options)[0]
    assert (apart.nfe.denoise, apart.nfe.commit) == (10, 4)
    assert (fused.nfe.denoise, fused.nfe.commit) == (6, 4)


def test_fused_forward_equals_commit_then_first_step():
    """With nothing carried into the block, both see the same masks behind the same clean tokens."""
    tried = subject(token_shift=False)
    options = {"strategy": "topk", "k": 4, "threshold": 0.2}
    apart = tried.decode([prompt(8)], 40, **options)[0].tokens
    assert tried.decode([prompt(8)], 40, fuse_commit=True, **options)[0].tokens == apart
    shifted = subject()
    carried = shifted.decode([prompt(8)], 40, **options)[0].tokens
    assert shifted.decode([prompt(8)], 40, fuse_commit=True, **options)[0].tokens != carried


def test_a_token_knows_the_forward_that_decided_it():
    done = subject().decode([prompt(16)], 16, strategy="topk", k=4)[0]
    first = [0, 1, 2]  # the prefill decides a block's first token; two steps a sub-block of four
    assert done.accepted[0] == 0
    assert sorted(set(done.accepted)) == list(range(done.nfe.total))
    assert set(done.accepted[:4]) <= set(first)


@pytest.mark.parametrize("cache", ["block", "none", "dual"])
def test_revoking_is_bounded_and_happens(cache):
    revoked = 0

    class Counting(Strategy):
        revokes = True

        def select(self, proposal):
            decision = wino.select(proposal)
            nonlocal revoked
            revoked += int(decision.revoke_BS.sum())
            return decision

    tried = subject(sub_block_size=8)
    engine = tried.engine([prompt(9)], 40, strategy="wino", threshold=1.0, cache=cache)
    wino, engine.proposer.strategy = engine.proposer.strategy, Counting(None)
    sequence = engine.waiting[0]
    sharp = tried.backbone.head.weight.data
    sharp *= 4  # so that several pass at once
    engine.run()
    assert revoked > 0
    assert sequence.nfe.denoise <= 40
    assert len(sequence.tokens) == 40


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    sizes=st.sampled_from([(4, 1), (4, 2), (4, 4), (8, 4), (8, 8), (1, 1), (2, 1)]),
    context=st.sampled_from(["block", "causal"]),
    shift=st.booleans(),
    threshold=st.floats(0.01, 1.0),
    cache=st.sampled_from(POLICIES),
    new_tokens=st.integers(1, 14),
    rows=st.integers(1, 4),
    end=st.integers(0, 96),
)
def test_any_mix_decodes_as_single_rows(
    lengths, sizes, context, shift, threshold, cache, new_tokens, rows, end
):
    block, sub_block = sizes
    tried = subject(block_size=block, sub_block_size=sub_block, context=context, token_shift=shift)
    options = {"cache": cache, "threshold": threshold, "end_token_ids": frozenset({end})}
    prompts = [prompt(length, salt=place) for place, length in enumerate(lengths)]
    together = tried.decode(prompts, new_tokens, rows=rows, **options)
    for alone, got in zip(prompts, together, strict=True):
        single = tried.decode([alone], new_tokens, **options)[0]
        assert (got.tokens, got.nfe) == (single.tokens, single.nfe)
        assert len(got.tokens) == new_tokens or got.tokens[-1] == end
        assert end not in got.tokens[:-1]
