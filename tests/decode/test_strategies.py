import pytest
import torch

from unmask.decode.options import DecodeOptions
from unmask.decode.strategy import Proposal, make_strategy
from unmask.errors import ConfigError
from unmask.plugins import plugin_names

NAMES = plugin_names("unmask.decode.strategies")


def propose(confidence, is_candidate=None):
    confidence = torch.tensor(confidence)
    if is_candidate is None:
        is_candidate = torch.ones_like(confidence, dtype=torch.bool)
    tokens = torch.zeros_like(confidence, dtype=torch.long)
    return Proposal(tokens, confidence, torch.as_tensor(is_candidate))


def select(proposal, name="threshold", **options):
    return make_strategy(DecodeOptions(strategy=name, **options)).select(proposal)


# By hand: τ = 0.9 accepts 0.95 and 0.91; nothing exceeds it in row two, so the best one; a tie
# goes left; 0.99 is no candidate.
def test_threshold_is_the_hand_worked_table():
    confidence = [[0.95, 0.2, 0.91], [0.3, 0.5, 0.4], [0.6, 0.6, 0.1], [0.99, 0.2, 0.1]]
    is_candidate = torch.ones(4, 3, dtype=torch.bool)
    is_candidate[3, 0] = False
    expected = [[True, False, True], [False, True, False], [True, False, False],
                [False, True, False]]  # fmt: skip
    assert select(propose(confidence, is_candidate), threshold=0.9).tolist() == expected


def test_threshold_one_accepts_exactly_one_even_of_certain_tokens():
    accepted = select(propose([[1.0, 1.0, 1.0]]), threshold=1.0)
    assert accepted.tolist() == [[True, False, False]]
    assert select(propose([[1.0, 1.0, 1.0]]), threshold=0.99).all()


EXTREMES = [
    [[0.0, 0.0, 0.0]],
    [[1.0, 0.0, 0.0]],
    [[0.5, 0.5, 0.5]],
    [[1e-30, 1.0, 1 - 1e-7]],
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("confidence", EXTREMES)
@pytest.mark.parametrize("threshold", [1e-6, 0.5, 1.0])
def test_contract(name, confidence, threshold):
    is_candidate = torch.tensor([[True, False, True]])
    proposal = propose(confidence, is_candidate)
    before = [t.clone() for t in (proposal.tokens_BS, proposal.confidence_BS, is_candidate)]
    accepted = select(proposal, name, threshold=threshold)
    assert not (accepted & ~is_candidate).any()  # a subset
    assert accepted.any(-1).all()  # at least one
    assert torch.equal(accepted, select(proposal, name, threshold=threshold))  # deterministic
    after = (proposal.tokens_BS, proposal.confidence_BS, proposal.is_candidate_BS)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))  # no mutation


@pytest.mark.parametrize("name", NAMES)
def test_rows_without_candidates_stay_empty(name):
    proposal = propose([[0.9, 0.9], [0.9, 0.9]], torch.tensor([[False, False], [True, True]]))
    assert select(proposal, name).any(-1).tolist() == [False, True]


def test_unknown_strategy_lists_the_closest():
    with pytest.raises(ConfigError, match="did you mean 'threshold'"):
        make_strategy(DecodeOptions(strategy="treshold"))
