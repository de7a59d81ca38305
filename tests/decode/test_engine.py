import pytest
import torch
from conftest import MASK, make_backbone, make_config

from unmask.errors import ConfigError, ModelError
from unmask.verify.oracle import decode_one_at_a_time
from unmask.verify.subject import Subject


def subject(**settings):
    return Subject(backbone=make_backbone(), config=make_config(**settings))


def prompt(count, salt=0):
    generator = torch.Generator().manual_seed(salt)
    return torch.randint(3, MASK, (count,), generator=generator).tolist()


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16])
@pytest.mark.parametrize("context", ["block", "causal", "full"])
@pytest.mark.parametrize("shift", [True, False])
def test_threshold_one_is_the_plain_loop(length, context, shift):
    tried = subject(context=context, token_shift=shift)
    expected, _ = decode_one_at_a_time(tried.backbone, tried.config, prompt(length), 11)
    assert tried.decode([prompt(length)], 11)[0].tokens == expected


def test_the_plain_loop_does_not_decode_left_to_right():
    """Or the test above would hold for a decoder that ignores confidence."""
    tried = subject()
    _, order = decode_one_at_a_time(tried.backbone, tried.config, prompt(9), 11)
    assert order != sorted(order)


@pytest.mark.parametrize("new_tokens", [1, 2, 7, 8, 9, 17])
def test_budget_is_exact(new_tokens):
    for cache in ("none", "block", "dual"):
        done = subject().decode([prompt(5), prompt(8)], new_tokens, cache=cache, threshold=0.01)
        assert [len(sequence.tokens) for sequence in done] == [new_tokens] * 2
        assert not any(sequence.is_stopped for sequence in done)


def test_a_whole_canvas_is_seen_to_its_limit_and_nothing_is_committed():
    tried = subject(context="full")
    done = tried.decode([prompt(16), prompt(5)], 11)
    assert [(s.nfe.prefill, s.nfe.denoise, s.nfe.commit) for s in done] == [(0, 11, 0)] * 2
    longer = tried.decode([prompt(16)], 12)[0]
    assert longer.tokens[:11] != done[0].tokens  # the canvas is part of what is asked
    free = tried.decode([prompt(6)], 24)[0]
    ended = tried.decode([prompt(6)], 24, end_token_ids=frozenset({free.tokens[3]}))[0]
    assert ended.tokens == free.tokens[: free.tokens.index(free.tokens[3]) + 1]


def test_a_whole_canvas_has_no_cache():
    with pytest.raises(ConfigError, match="context full cannot use cache block"):
        subject(context="full").decode([prompt(5)], 4, cache="block")


def test_forwards_are_counted_by_kind():
    """Prompt of two blocks; 16 tokens one at a time: each block's first comes from a commit."""
    done = subject().decode([prompt(16)], 16)[0]
    assert (done.nfe.prefill, done.nfe.denoise, done.nfe.commit) == (1, 14, 1)


def test_accepting_everything_costs_one_denoise_per_sub_block():
    done = subject().decode([prompt(16)], 16, threshold=1e-9)[0]
    assert (done.nfe.prefill, done.nfe.denoise, done.nfe.commit) == (1, 4, 1)


def test_end_token_saves_forwards_and_nothing_follows_it():
    free = subject().decode([prompt(6)], 24)[0]
    end = free.tokens[3]
    done = subject().decode([prompt(6)], 24, end_token_ids=frozenset({end}))[0]
    assert done.tokens == free.tokens[: free.tokens.index(end) + 1]
    assert done.is_stopped
    assert done.nfe.total < free.nfe.total


def test_first_end_token_wins_when_two_are_accepted_at_once():
    free = subject().decode([prompt(8)], 8, threshold=1e-9)[0].tokens
    ends = frozenset({free[1], free[3]})
    done = subject().decode([prompt(8)], 8, threshold=1e-9, end_token_ids=ends)[0]
    assert done.tokens == free[:2]


@pytest.mark.parametrize("cache", ["block", "dual", "none"])
def test_more_requests_than_rows_are_all_answered_alike(cache):
    tried = subject()
    prompts = [prompt(length, salt=length) for length in (3, 8, 11, 16, 1, 9, 20)]
    few = tried.decode(prompts, 10, rows=2, cache=cache, threshold=0.05)
    alone = [tried.decode([p], 10, cache=cache, threshold=0.05)[0] for p in prompts]
    assert [s.tokens for s in few] == [s.tokens for s in alone]
    assert [s.nfe for s in few] == [s.nfe for s in alone]


def test_dual_with_one_sub_block_is_block():
    tried = subject(sub_block_size=8)
    for length in (5, 8):
        exact = tried.decode([prompt(length)], 20, cache="block", threshold=0.1)[0].tokens
        assert tried.decode([prompt(length)], 20, cache="dual", threshold=0.1)[0].tokens == exact


def test_dual_is_approximate_and_says_so_by_its_tokens():
    tried = subject(sub_block_size=2)
    exact = tried.decode([prompt(8)], 24, cache="block")[0].tokens
    assert tried.decode([prompt(8)], 24, cache="dual")[0].tokens != exact


def test_nan_is_an_error_not_a_token():
    tried = subject()
    tried.backbone.head.weight.data[5] = float("nan")
    with pytest.raises(ModelError, match="NaN"):
        tried.decode([prompt(8)], 4)


def test_a_model_in_love_with_the_mask_token_still_ends():
    tried = subject()
    with torch.no_grad():
        tried.backbone.head.weight[MASK] = 50 * tried.backbone.head.weight[:MASK].mean(0)
    tokens = tried.decode([prompt(8)], 16, threshold=0.5)[0].tokens
    assert MASK not in tokens
    assert len(tokens) == 16
