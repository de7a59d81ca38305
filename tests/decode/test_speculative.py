"""Speculative mode says what AR mode says, token for token, in fewer forwards where drafts hold."""

from itertools import product

import pytest
import torch
from conftest import FAMILIES, MASK, make_config, make_denoiser, make_model, save_parent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unmask.core.backbone import Backbone
from unmask.core.canvas import Sampling
from unmask.core.denoiser import add_denoiser
from unmask.decode.autoregressive import ar_config
from unmask.decode.draft_length import DraftLength, FixedLength
from unmask.decode.engine import Engine, Request
from unmask.decode.model import load
from unmask.decode.options import DecodeOptions
from unmask.decode.policies.block import BlockPolicy
from unmask.decode.speculative import SpeculativeEngine
from unmask.decode.strategy import make_strategy
from unmask.errors import ConfigError, ModelError
from unmask.train.adapt import adapt
from unmask.train.loop import Budget
from unmask.train.recipe import Recipe

LENGTHS = [FixedLength(0), FixedLength(1), FixedLength(5), FixedLength(3, is_chained=True),
           DraftLength(8)]  # fmt: skip


class Copier:
    """A model whose next token is a fixed function of the last, drafts and all: all of them hold.

    Masks at 1, 2, … places behind a token say what would follow 1, 2, … steps later, but for
    `wrong` places, where they say nonsense.
    """

    max_positions, device = 10_000, torch.device("cpu")

    def __init__(self, wrong=()):
        self.wrong = set(wrong)

    def new_cache(self, rows, max_len, borrower=None):
        return torch.zeros(rows, max_len, dtype=torch.long), {}

    def hidden(self, tokens, positions, mask, cache, *, masks=0):
        known = tokens.clone()
        for place in range(1, masks + 1):
            column = tokens.shape[1] - masks - 1 + place
            known[:, column] = (known[:, column - 1] * 3 + 1) % 50
        for column in range(tokens.shape[1] - masks, tokens.shape[1]):
            for row in range(len(tokens)):
                if int(positions[row, column]) in self.wrong:
                    known[row, column] = 7
        return known[..., None].double()

    def logits(self, hidden):
        return 9.0 * torch.nn.functional.one_hot((hidden[..., 0].long() * 3 + 1) % 50, 97).float()


class CopierForward:
    """Stands in for `Forward`: no attention, no cache."""

    def __init__(self, backbone, canvas):
        self.backbone, self.canvas = backbone, canvas

    def hidden_BQE(self, rows, first, width, open_B, *, masks=0):
        positions = first[:, None] + torch.arange(width)
        tokens = self.canvas.tokens_NL[rows[:, None], positions]
        return self.backbone.hidden(tokens, positions, None, None, masks=masks)

    def move_row(self, source, target):
        pass


def requests(plan, *, temperature=0.0, ends=frozenset(), stop=None):
    return [
        Request(prompt=[(3 + salt + i) % 90 for i in range(length)], max_new_tokens=count,
                end_token_ids=ends, stop=stop,
                sampling=Sampling(temperature=temperature, seed=salt))
        for salt, (length, count) in enumerate(plan)
    ]  # fmt: skip


def decode(engine, wanted):
    sequences = [engine.submit(request) for request in wanted]
    engine.run()
    return sequences


def ar_tokens(backbone, wanted, rows=1):
    strategy = make_strategy(DecodeOptions())
    engine = Engine(backbone, ar_config(97, MASK), BlockPolicy(), strategy, rows=rows, max_len=128)
    return [sequence.tokens for sequence in decode(engine, wanted)]


def speculative(backbone, wanted, length, rows=3):
    config = make_config(context="draft")
    return decode(SpeculativeEngine(backbone, config, length, rows=rows, max_len=128), wanted)


PLAN = [(1, 20), (7, 30), (12, 1), (9, 2), (10, 33), (5, 3)]


@pytest.mark.parametrize("family", [*FAMILIES, "gemma3_text", "phi3", "olmo2"])
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_tokens_are_those_of_ar_mode(family, temperature):
    backbone = make_denoiser(family, spread=0.02)
    wanted = requests(PLAN, temperature=temperature, ends=frozenset({5, 9}))
    expected = ar_tokens(backbone, wanted)
    for length in LENGTHS:
        got = speculative(backbone, wanted, length)
        assert [sequence.tokens for sequence in got] == expected
    other = ar_tokens(backbone, requests([(n + 1, m) for n, m in PLAN], temperature=temperature))
    assert other != expected  # the control: another prompt, another answer


def test_unverified_drafts_would_differ(monkeypatch):
    """The control of the whole mode: keep drafts unread, and the answer is another."""
    backbone, wanted = make_denoiser(spread=0.3), requests([(7, 30)])
    expected = ar_tokens(backbone, wanted)

    def keep_all(self, rows_B, drafts, _count):
        held_B = torch.full((len(rows_B),), drafts)
        tokens_BQ, confidence_BQ = self._read(rows_B, drafts, 0)
        places_BK = self.canvas.start_N[rows_B, None] + 1 + torch.arange(drafts)
        tokens_BQ[:, :-1] = self.canvas.tokens_NL[rows_B[:, None], places_BK]
        self.canvas.drafts_N[rows_B] = 0
        self._keep(rows_B, tokens_BQ, confidence_BQ, held_B)

    monkeypatch.setattr(SpeculativeEngine, "_verify", keep_all)
    assert speculative(backbone, wanted, FixedLength(5))[0].tokens != expected


def copier_engine(wrong, length, rows):
    backbone = Copier(wrong)
    engine = SpeculativeEngine(backbone, make_config(context="draft"), length, rows=rows,
                               max_len=128)  # fmt: skip
    engine.forward = CopierForward(backbone, engine.canvas)
    return engine


def following(token, count):
    answer = []
    for _ in range(count):
        token = (token * 3 + 1) % 50
        answer.append(token)
    return answer


def test_hand_worked_count_of_forwards():
    """Prompt of 3, 20 new tokens, 5 drafts that all hold: the prefill says the first token, then
    cycles of two forwards make 7 tokens each: 1 + 7 + 7 + 5, and the last drafts but 3.
    """
    (sequence,) = decode(copier_engine((), FixedLength(5), 1), requests([(3, 20)]))
    assert sequence.tokens == following(5, 20)
    assert (sequence.nfe.prefill, sequence.nfe.denoise, sequence.nfe.commit) == (1, 3, 3)
    assert sequence.accepted == [0] + [1] + [2] * 6 + [3] + [4] * 6 + [5] + [6] * 4


def test_chained_drafts_save_a_forward_a_cycle():
    """The same answer: one drafting forward, then 6 tokens a forward, 20 = 1 + 1 + 6 + 6 + 6."""
    engine = copier_engine((), FixedLength(5, is_chained=True), 1)
    (sequence,) = decode(engine, requests([(3, 20)]))
    assert sequence.tokens == following(5, 20)
    assert (sequence.nfe.prefill, sequence.nfe.denoise, sequence.nfe.commit) == (1, 1, 3)
    assert sequence.accepted == [0, 1] + [2] * 6 + [3] * 6 + [4] * 6


def test_a_broken_chain_begins_anew():
    """A wrong mask at 10 is met by the second window: the draft of 11 fails, then all is well."""
    engine = copier_engine({10}, FixedLength(5, is_chained=True), 1)
    (sequence,) = decode(engine, requests([(3, 20)]))
    assert sequence.tokens == following(5, 20)
    # tokens 3 | 4 | 5 … 10 (window behind 10: mask 10 drafts 11 wrongly) | 11 | 12 | 13 … 18 | …
    assert sequence.nfe.denoise == 2


def test_drafts_hold_up_to_the_first_wrong_one():
    """A wrong mask at position 6 spoils the draft of 7: the first cycle keeps the drafts before."""
    (sequence,) = decode(copier_engine({6}, FixedLength(5), 1), requests([(3, 12)]))
    assert sequence.tokens == following(5, 12)
    # token 4 exact, drafts of 5 and 6 hold, 7 is the bonus; then 8 exact, 9 … 13 hold, 14
    assert sequence.accepted == [0, 1, 2, 2, 2, 3, 4, 4, 4, 4, 4, 4]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    plan=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 40)), min_size=1, max_size=6),
    wrong=st.sets(st.integers(0, 60), max_size=30),
    length=st.integers(0, 9),
    is_chained=st.booleans(),
    rows=st.integers(1, 4),
    end=st.integers(0, 49),
    limit=st.integers(1, 40),
)
def test_any_mix_of_holding_and_failing_drafts(plan, wrong, length, is_chained, rows, end, limit):
    """Against the closed form: budgets, end tokens and stops are exact, whatever the batch."""

    def stop(tokens):
        return limit if len(tokens) >= limit else None

    wanted = requests(plan, ends=frozenset({end}), stop=stop)
    engine = copier_engine(wrong, FixedLength(length, is_chained=is_chained), rows)
    for request, sequence in zip(wanted, decode(engine, wanted), strict=True):
        answer = following(request.prompt[-1], min(limit, request.max_new_tokens))
        if end in answer:
            answer = answer[: answer.index(end) + 1]
        assert sequence.tokens == answer
        assert sequence.nfe.denoise + sequence.nfe.commit <= len(answer) - 1  # never more than AR
        assert sequence.is_stopped == (len(answer) == limit or answer[-1] == end)


@torch.no_grad()
def test_drawn_tokens_follow_the_models_distribution():
    """Chi-square over all answers of three tokens of a tiny model, against its probabilities."""
    model = make_model(vocab_size=6, initializer_range=0.4)
    gate = add_denoiser(model, rank=2, alpha=4, mask_token_id=5)
    backbone = Backbone(model, mask_token_id=5, gate=gate)
    config = make_config(context="draft", mask_token_id=5, embedding_rows=6)
    draws = 2000
    wanted = [Request(prompt=[1, 2], max_new_tokens=3, sampling=Sampling(temperature=1.0, seed=s))
              for s in range(draws)]  # fmt: skip
    engine = SpeculativeEngine(backbone, config, FixedLength(2), rows=64, max_len=8)
    answers = [tuple(sequence.tokens) for sequence in decode(engine, wanted)]
    statistic, cells = 0.0, 0
    for answer in product(range(5), repeat=3):
        ids, chance = [1, 2], 1.0
        for token in answer:
            length = len(ids)
            causal = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
            hidden = backbone.hidden(torch.tensor([ids]), torch.arange(length)[None], causal)
            chance *= float(backbone.logits(hidden[0, -1:]).softmax(-1)[0, token])
            ids.append(token)
        expected = draws * chance
        if expected >= 5:
            cells += 1
            statistic += (answers.count(answer) - expected) ** 2 / expected
    assert cells > 10
    assert statistic < cells + 4 * (2 * cells) ** 0.5
    flat = sum((answers.count(a) - draws / 125) ** 2 / (draws / 125)
               for a in product(range(5), repeat=3))  # fmt: skip
    assert flat > 125 + 10 * 250**0.5  # the control: not any distribution would do


def test_rows_near_the_last_position_hold_the_others_drafts_back():
    """A window past the model's last position would be refused, or computed wrongly."""
    backbone = make_denoiser("mistral", spread=0.0, sliding_window=24, max_position_embeddings=24)
    wanted = requests([(18, 6), (3, 21), (20, 2)])
    got = speculative(backbone, wanted, FixedLength(8, is_chained=True))
    assert [s.tokens for s in got] == ar_tokens(backbone, wanted)


def test_int8_and_too_long_drafts_are_refused(tmp_path, data):
    _, out = make_checkpoint(tmp_path, data)
    with pytest.raises(ConfigError, match="leave --quantize out"):
        load(str(out), quantize="int8").generate("hi", max_new_tokens=4)
    with pytest.raises(ConfigError, match="at most 4"):
        load(str(out)).generate("hi", max_new_tokens=4, draft_length=5)


def make_checkpoint(tmp_path, data, **settings):
    parent = save_parent(tmp_path / "parent")
    recipe = Recipe(**{"context": "draft", "trainable": "lora", "block_size": 4,
                       "sub_block_size": 4, "row_tokens": 64, "rows_per_step": 1,
                       "learning_rate": 1e-2, "lora_rank": 4, **settings})  # fmt: skip
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=recipe, budget=Budget(steps=3))
    return parent, out


def test_a_denoiser_checkpoint_answers_in_its_own_mode_as_its_parent_would(tmp_path, data):
    parent, out = make_checkpoint(tmp_path, data)
    model, prompts = load(str(out)), ["say red", "hi"]
    settings = {"max_new_tokens": 12, "ignore_eos": True}
    drafted = model.generate(prompts, **settings)
    assert [answer.mode for answer in drafted] == ["speculative"] * 2
    plain = load(str(parent)).generate(prompts, mode="ar", **settings)
    assert [a.token_ids for a in drafted] == [a.token_ids for a in plain]
    streamed = [e.generation for e in model.stream("hi", **settings) if e.generation]
    assert streamed[0].token_ids == drafted[1].token_ids
    fixed = model.generate("hi", draft_length=0, **settings)[0]
    assert (fixed.nfe.denoise, fixed.tpf) == (0, 12 / 11)


def test_modes_that_a_checkpoint_is_not_for_are_refused(tmp_path, data, adapted, parent):
    _, out = make_checkpoint(tmp_path / "x", data)
    with pytest.raises(ModelError, match="is a denoiser"):
        load(str(out)).generate("hi", mode="diffusion")
    with pytest.raises(ModelError, match="cannot verify its own drafts"):
        load(str(adapted)).generate("hi", mode="speculative")
    with pytest.raises(ModelError, match=r"no unmask\.json"):
        load(str(parent)).generate("hi", mode="speculative")
    with pytest.raises(ConfigError, match="draft_length"):
        load(str(out)).generate("hi", draft_length=-1)
