import torch

from unmask.core.sampling import Warmth, sample, uniform


def warmth(count, seed=1, temperature=1.0, top_p=None):
    index = torch.arange(count)
    return Warmth(
        torch.full((count,), temperature),
        None if top_p is None else torch.full((count,), top_p),
        torch.full_like(index, seed),
        index,
        torch.zeros_like(index),
    )


def test_uniform_is_flat_and_in_range():
    for words, count in ((warmth(100_000), 1), (warmth(1), 100_000)):
        drawn = uniform(words.seed_M, words.position_M, words.draw_M, count)
        assert drawn.min() > 0
        assert drawn.max() <= 1
        counts = torch.histc(drawn, bins=20, min=0, max=1)
        chi_square = ((counts - 5000) ** 2 / 5000).sum()
        assert chi_square < 43.8  # 19 degrees of freedom, p = 0.001


def test_uniform_depends_on_every_word():
    one = torch.tensor([3])
    words = ((one, one, one), (one + 1, one, one), (one, one + 1, one), (one, one, one + 1))
    drawn = [uniform(*word, 2) for word in words]
    assert len({float(number) for pair in drawn for number in pair[0]}) == 8


def draw(logits, count=20_000, temperature=1.0, top_p=None):
    rows = torch.tensor(logits).expand(count, -1)
    return sample(rows, warmth(count, temperature=temperature, top_p=top_p))


def test_rounding_hardly_ever_changes_a_token():
    """Even over a flat distribution, where a cumulative sum would flip one draw in twenty."""
    logits = torch.randn(200, 20_000) * 0.1
    tokens, _ = sample(logits, warmth(200))
    rounded, _ = sample(logits + torch.randn_like(logits) * 1e-6, warmth(200))
    assert torch.equal(tokens, rounded)
    other, _ = sample(logits, warmth(200, seed=2))
    assert (tokens != other).float().mean() > 0.9


def test_cold_rows_beside_warm_ones_take_the_most_probable():
    mixed = warmth(100)
    mixed.temperature_M[::2] = 0.0
    tokens, _ = sample(torch.tensor([0.0, 0.1, 0.0]).expand(100, -1), mixed)
    assert tokens[::2].eq(1).all()
    assert not tokens[1::2].eq(1).all()
    assert sample(torch.tensor([[0.0, 0.1]]))[0].tolist() == [1]


def test_greedy_takes_the_most_probable():
    tokens, confidence = draw([0.0, 2.0, 1.0], count=1, temperature=0.0)
    expected = torch.tensor([0.0, 2.0, 1.0]).softmax(-1)[1]
    assert tokens.tolist() == [1]
    torch.testing.assert_close(confidence[0], expected)


def test_sampling_follows_the_distribution():
    logits = [0.0, 1.0, 2.0]
    tokens, _ = draw(logits, temperature=2.0)
    expected = (torch.tensor(logits) / 2).softmax(-1)
    shares = torch.bincount(tokens, minlength=3) / len(tokens)
    torch.testing.assert_close(shares, expected, atol=0.015, rtol=0)
    colder = (torch.tensor(logits) / 0.5).softmax(-1)
    assert (shares - colder).abs().max() > 0.1  # the wrong temperature is told apart


def test_top_p_keeps_the_smallest_nucleus():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    tokens, _ = draw(logits, top_p=0.7)
    assert set(tokens.tolist()) == {0, 1}
    shares = torch.bincount(tokens, minlength=2) / len(tokens)
    torch.testing.assert_close(shares, torch.tensor([0.625, 0.375]), atol=0.015, rtol=0)


def test_confidence_ignores_temperature_and_top_p():
    tokens, confidence = draw([0.0, 1.0], count=100, temperature=3.0, top_p=0.99)
    expected = torch.tensor([0.0, 1.0]).softmax(-1)[tokens]
    torch.testing.assert_close(confidence, expected)


def test_forbidden_tokens_are_never_drawn():
    tokens, _ = draw([0.0, float("-inf"), 0.0], temperature=5.0)
    assert set(tokens.tolist()) == {0, 2}
