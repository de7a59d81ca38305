"""Every strategy keeps the contract; each follows a table worked by hand from its paper."""

import math
from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.decode.options import DecodeOptions
from unmask.decode.strategy import Decision, Proposal, Strategy, best, make_strategy, rank
from unmask.errors import ConfigError
from unmask.plugins import plugin_names

NAMES = plugin_names("unmask.decode.strategies")
NEWLINE = 5


def make(name, **options):
    return make_strategy(DecodeOptions(strategy=name, **options), frozenset({NEWLINE}))


def propose(confidence, *, candidates=None, revocable=None, measure=None, memory=None, tokens=None):
    confidence = torch.tensor(confidence)
    if confidence.ndim == 1:
        confidence = confidence[None]

    def like(value, default):
        return default if value is None else torch.as_tensor(value).view(confidence.shape)

    no = torch.zeros_like(confidence, dtype=torch.bool)
    rows, size = confidence.shape
    return Proposal(
        tokens_BS=like(tokens, no.long()), confidence_BS=confidence,
        is_candidate_BS=like(candidates, ~no), is_revocable_BS=like(revocable, no),
        measure_BS=like(measure, torch.zeros_like(confidence)),
        memory_BS=like(memory, torch.zeros_like(confidence)),
        positions_BS=torch.arange(rows * size).view(rows, size),
        step_B=torch.zeros(rows, dtype=torch.long), seed_B=torch.arange(rows),
    )  # fmt: skip


def accepted(name, confidence, options=None, **given):
    decision = make(name, **(options or {})).select(propose(confidence, **given))
    return decision.accept_BS.nonzero()[:, 1].tolist()


def test_threshold_accepts_above_it_and_always_the_best():
    assert accepted("threshold", [0.95, 0.5, 0.91], {"threshold": 0.9}) == [0, 2]
    assert accepted("threshold", [0.2, 0.5, 0.4], {"threshold": 0.9}) == [1]
    assert accepted("threshold", [0.9, 0.9, 0.1], {"threshold": 0.9}) == [0]  # strict; leftmost
    assert accepted("threshold", [1.0, 1.0], {"threshold": 1.0}) == [0]


def test_topk_accepts_k_or_what_there_is():
    assert accepted("topk", [0.1, 0.9, 0.5, 0.7], {"k": 2}) == [1, 3]
    assert accepted("topk", [0.1, 0.9], {"k": 8}) == [0, 1]


def test_margin_goes_by_the_lead_not_by_confidence():
    given = {"measure": [0.1, 0.6, 0.2]}
    assert accepted("margin", [0.9, 0.7, 0.8], {"threshold": 0.5}, **given) == [1]
    assert accepted("margin", [0.9, 0.7, 0.8], {"threshold": 0.15}, **given) == [1, 2]


def test_factor_is_the_papers_table():
    """(n + 1)(1 - c_n) < f: n = 1: 0.10, n = 2: 0.24, n = 3: 0.48, n = 4: 1.0."""
    confidence = [0.95, 0.92, 0.88, 0.80]
    assert accepted("factor", confidence, {"factor": 0.3}) == [0, 1]
    assert accepted("factor", confidence, {"factor": 0.5}) == [0, 1, 2]
    assert accepted("factor", confidence, {"factor": 1.01}) == [0, 1, 2, 3]
    assert accepted("factor", confidence, {"factor": 0.01}) == [0]


def test_entropy_is_the_papers_bound():
    """Sums less the largest, sorted 0.01 0.05 0.2 0.9: 0, 0.01, 0.06, 0.26."""
    given = {"measure": [0.2, 0.01, 0.9, 0.05]}
    assert accepted("entropy", [0.5] * 4, {"gamma": 0.0}, **given) == [1]
    assert accepted("entropy", [0.5] * 4, {"gamma": 0.02}, **given) == [1, 3]
    assert accepted("entropy", [0.5] * 4, {"gamma": 0.1}, **given) == [0, 1, 3]
    assert accepted("entropy", [0.5] * 4, {"gamma": 0.3}, **given) == [0, 1, 2, 3]


def test_klass_waits_for_two_stable_steps():
    given = {"candidates": [True, True, True, False], "measure": [0.001, 0.5, 0.001, 0.0]}
    confidence = [0.95, 0.99, 0.5, 0.0]
    first = make("klass").select(propose(confidence, **given))
    assert first.accept_BS.nonzero()[:, 1].tolist() == [1]  # nothing stable twice: the best
    assert first.memory_BS.tolist() == [[1.0, 0.0, 1.0, 0.0]]
    second = make("klass").select(propose(confidence, memory=first.memory_BS, **given))
    assert second.accept_BS.nonzero()[:, 1].tolist() == [0]  # 2 is stable but not confident


def test_prophet_commits_when_the_lead_reaches_the_bar_of_its_progress():
    assert accepted("prophet", [0.5, 0.6, 0.4], measure=[7.0, 8.0, 7.6]) == [0, 1, 2]
    assert accepted("prophet", [0.5, 0.6, 0.4], measure=[7.0, 7.0, 7.0]) == [1]
    late = {"candidates": [False, False, False, True], "measure": [0.0, 0.0, 0.0, 2.6]}
    assert accepted("prophet", [0.0, 0.0, 0.0, 0.4], **late) == [3]


def test_slowfast_goes_fast_once_the_stretch_stands_still():
    slow = make("slowfast").select(propose([0.9, 0.5, 0.3, 0.05]))
    assert slow.accept_BS.tolist() == [[True, False, False, False]]
    assert slow.memory_BS.tolist() == [[0.0, 0.0, 1.0, 0.0]]  # one slow step, ends at 2
    given = {"candidates": [False, True, True, True]}
    again = make("slowfast").select(propose([0.0, 0.5, 0.3, 0.05], memory=slow.memory_BS, **given))
    assert again.memory_BS.tolist() == [[-1.0, -1.0, -1.0, 0.0]]
    given = {"candidates": [False, False, True, True], "memory": again.memory_BS}
    fast = make("slowfast").select(propose([0.0, 0.0, 0.86, 0.99], **given))
    assert fast.accept_BS.tolist() == [[False, False, True, False]]  # 3 is outside the stretch


def test_wino_takes_back_fewer_than_the_last_step_accepted():
    given = {"candidates": [True, True, False, False, False],
             "revocable": [False, False, True, True, True],
             "memory": [0.0, 0.0, 1.0, 1.0, 0.0]}  # fmt: skip
    decision = make("wino").select(propose([0.7, 0.65, 0.1, 0.2, 0.95], **given))
    assert decision.accept_BS.nonzero()[:, 1].tolist() == [0, 1]
    assert decision.revoke_BS.nonzero()[:, 1].tolist() == [2]
    alone = make("wino").select(propose([0.7, 0.1, 0.1, 0.2, 0.95], **given))
    assert not alone.revoke_BS.any()  # one accepted: taking one back would stand still


def test_adablock_stops_at_a_confident_line_end():
    tokens = [1, NEWLINE, 1, NEWLINE]
    sure = [0.95, 0.6, 0.99, 0.2]
    assert accepted("adablock", sure, tokens=tokens) == [0]  # stretch: 0 and 1
    options = {"sub_block_size": 3}
    assert accepted("adablock", [0.95, 0.4, 0.99, 0.2], options, tokens=tokens) == [0, 2]
    held = make("adablock").select(propose([0.95, 0.6, 0.99, 0.2], tokens=tokens)).memory_BS
    assert held.tolist() == [[1.0, 1.0, 0.0, 0.0]]


def test_random_follows_the_seed_and_nothing_else():
    drawn = make("random").select(propose([[0.1] * 8] * 64)).accept_BS
    assert drawn.sum(-1).tolist() == [1] * 64
    assert drawn.sum(0).min() > 0
    again = make("random").select(propose([[0.9] * 8] * 64)).accept_BS
    assert torch.equal(drawn, again)


def probabilities(rows, size):
    number = st.one_of(
        st.sampled_from([0.0, 1e-30, 0.5, 1.0 - 1e-7, 1.0]), st.floats(0, 1, width=32)
    )
    return st.lists(number, min_size=rows * size, max_size=rows * size)


@st.composite
def proposals(draw):
    rows, size = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    confidence = torch.tensor(draw(probabilities(rows, size))).view(rows, size)
    state = draw(st.lists(st.sampled_from("hdp"), min_size=rows * size, max_size=rows * size))
    hidden = torch.tensor([each == "h" for each in state]).view(rows, size)
    decided = torch.tensor([each == "d" for each in state]).view(rows, size)
    hidden[:, 0] |= ~hidden.any(-1)
    return propose(
        confidence.tolist(), candidates=hidden, revocable=decided & ~hidden,
        measure=torch.tensor(draw(probabilities(rows, size))) * 9,
        memory=torch.tensor(draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]),
                                          min_size=rows * size, max_size=rows * size))),
        tokens=draw(st.lists(st.integers(0, 7), min_size=rows * size, max_size=rows * size)),
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_contract(name, data):
    threshold = data.draw(st.sampled_from([1e-6, 0.5, 1.0]))
    check_contract(make(name, k=2, threshold=threshold), data.draw(proposals()))


def check_contract(strategy, proposal):
    """A subset of the candidates, one at least, revokes less than it accepts, changes nothing."""
    before = [getattr(proposal, field.name).clone() for field in fields(proposal)]
    decision = strategy.select(proposal)
    for field, value in zip(fields(proposal), before, strict=True):
        assert torch.equal(getattr(proposal, field.name), value)
    assert not (decision.accept_BS & ~proposal.is_candidate_BS).any()
    assert torch.equal(decision.accept_BS.any(-1), proposal.is_candidate_BS.any(-1))
    if decision.revoke_BS is not None:
        assert not (decision.revoke_BS & ~proposal.is_revocable_BS).any()
        last = (proposal.memory_BS > 0).sum(-1)
        assert (decision.revoke_BS.sum(-1) <= (last - 1).clamp_min(0)).all()
    again = strategy.select(proposal)
    assert torch.equal(again.accept_BS, decision.accept_BS)


@pytest.mark.parametrize("name", NAMES)
def test_rows_without_candidates_stay_empty(name):
    proposal = propose([[0.9, 0.9], [0.9, 0.9]], candidates=[False, False, True, True])
    check_contract(make(name), proposal)
    assert make(name).select(proposal).accept_BS.any(-1).tolist() == [False, True]


class Greedy(Strategy):
    def select(self, proposal):
        return Decision(torch.ones_like(proposal.is_candidate_BS))


class Idle(Strategy):
    def select(self, proposal):
        return Decision(torch.zeros_like(proposal.is_candidate_BS))


class Fickle(Strategy):
    def select(self, proposal):
        return Decision(proposal.is_candidate_BS, proposal.is_revocable_BS)


class Meddling(Strategy):
    def select(self, proposal):
        proposal.confidence_BS.zero_()
        return Decision(proposal.is_candidate_BS)


@pytest.mark.parametrize("bad", [Greedy, Idle, Fickle, Meddling])
def test_the_contract_can_fail(bad):
    proposal = propose([0.5, 0.6], candidates=[True, False], revocable=[False, True])
    check_contract(make("threshold"), proposal)
    with pytest.raises(AssertionError):
        check_contract(bad(DecodeOptions()), proposal)


@pytest.mark.parametrize("name", NAMES)
def test_measure_is_finite_on_extreme_logits(name):
    """One-hot, tied and far apart, with the mask token forbidden."""
    logits = torch.tensor([[0.0] * 6, [1e4, -1e4, 0, 0, 0, 0], [3.0, 3.0, -3, 0, 1, 2]])
    logits[:, 5] = float("-inf")
    measured = make(name).measure(logits, logits.clone())
    assert measured is None or measured.isfinite().all()


def test_measures_are_what_they_say():
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
    assert make("margin").measure(logits, None)[0] == pytest.approx(0.25)
    assert make("entropy").measure(logits, None)[0] == pytest.approx(1.5 * math.log(2))
    assert make("prophet").measure(logits, None)[0] == pytest.approx(math.log(2))
    last = torch.tensor([[0.25, 0.5, 0.25]]).log()
    assert make("klass").measure(logits, last)[0] == pytest.approx(0.25 * math.log(2))
    never = torch.full_like(last, float("nan"))
    assert make("klass").measure(logits, never)[0] == float("inf")


def test_rank_and_best_leave_others_out():
    score, candidates = torch.tensor([[9.0, 1.0, 2.0]]), torch.tensor([[False, True, True]])
    assert rank(score, candidates)[0, 1:].tolist() == [1, 0]
    assert best(score, candidates).tolist() == [[False, False, True]]


def test_unknown_strategy_lists_the_known_and_the_closest():
    with pytest.raises(ConfigError, match="did you mean 'threshold'") as caught:
        make("treshold")
    assert "entropy" in str(caught.value)
