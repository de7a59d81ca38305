"""All promises hold on every family, and each check breaks when what it guards is broken."""

import pytest
import torch
from conftest import FAMILIES, MASK, make_backbone, make_config, make_denoiser

from unmask.core import canvas as canvas_module
from unmask.core.denoiser import GatedLinear
from unmask.core.masks import dense_mask
from unmask.decode import forward
from unmask.decode.speculative import SpeculativeEngine
from unmask.train.objectives import denoiser
from unmask.verify import draft_checks, engine_checks, model_checks
from unmask.verify.subject import Subject
from unmask.verify.suite import DIFFUSION_CHECKS, run_checks


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("context", ["block", "causal", "full"])
@pytest.mark.parametrize("shift", [True, False])
def test_all_promises_hold(family, context, shift):
    config = make_config(context=context, token_shift=shift)
    for check in run_checks(make_backbone(family), config):
        assert check.holds, check


def test_parent_is_checked_as_ar_only():
    assert len(list(run_checks(make_backbone(), None))) == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_all_promises_hold_for_a_denoiser(family):
    for check in run_checks(make_denoiser(family, spread=0.1), make_config(context="draft")):
        assert check.holds, check


def test_a_broken_denoiser_is_found(monkeypatch):
    tried = Subject(backbone=make_denoiser(spread=0.1), config=make_config(context="draft"))
    assert draft_checks.speculative_is_stock_generate(tried).holds

    def keep_wrong(self, rows, tokens, confidence, held):  # believes one draft too many
        keep(self, rows, tokens, confidence, (held + 1).clamp_max(tokens.shape[1] - 1))

    keep = SpeculativeEngine._keep
    with monkeypatch.context() as patch:
        patch.setattr(SpeculativeEngine, "_keep", keep_wrong)
        assert not draft_checks.speculative_is_stock_generate(tried).holds

    def always_open(self, input):
        return self.base(input) + input @ self.lora_A.T @ self.lora_B.T * self.scale

    with monkeypatch.context() as patch:
        patch.setattr(GatedLinear, "forward", always_open)
        assert not draft_checks.parent_is_untouched(tried).holds

    def sees_later_masks(query, key, _context):
        return dense_mask(query, key, "causal")

    with monkeypatch.context() as patch:
        patch.setattr(denoiser, "dense_mask", sees_later_masks)
        assert not draft_checks.window_logits_are_drafting_logits(tried).holds


def subject(**settings):
    return Subject(backbone=make_backbone(), config=make_config(**settings))


def test_a_mask_that_shows_too_much_is_found(monkeypatch):
    def everything(query, key, _context):
        shape = (query.block.shape[0], 1, query.block.shape[1], key.block.shape[1])
        return torch.ones(shape, dtype=torch.bool)

    monkeypatch.setattr(forward, "dense_mask", everything)
    assert not engine_checks.batched_is_single(subject()).holds
    assert not engine_checks.threshold_one_is_one_at_a_time(subject(context="causal")).holds


def test_a_leak_in_training_is_found(monkeypatch):
    from unmask.train import objective

    def leaky(query, key, context):
        seen = model_checks.dense_mask(query, key, context)
        same = (query.position[:, :, None] == key.position[:, None, :])[:, None]
        return seen | same  # a noisy token sees its own clean copy

    monkeypatch.setattr(objective, "dense_mask", leaky)
    assert not model_checks.no_leak(subject()).holds
    assert not model_checks.training_logits_are_decoding_logits(subject()).holds


def test_reading_block_starts_from_the_noisy_stream_would_be_wrong():
    """The plain shift reads a block's first token from the noisy token before it."""
    tried = subject()
    row = model_checks._training_row(tried)
    hidden = model_checks._hidden(tried, row)
    compared = 0
    for read in row.denoise.read[row.places.stream[row.denoise.read] == 0].tolist():
        is_same_place = row.places.position == row.places.position[read]
        for naive in (is_same_place & (row.places.stream > 0)).nonzero()[:, 0].tolist():
            assert (hidden[read] - hidden[naive]).abs().max() > 0.01
            compared += 1
    assert compared


def test_a_commit_that_is_skipped_is_found(monkeypatch):
    """Keys of the last denoising step are not those of the clean block."""
    monkeypatch.setattr(engine_checks, "_keys", _keys_before_the_commit)
    assert not engine_checks.committed_state_is_clean_state(subject()).holds


def _keys_before_the_commit(tried, prompt, until):
    engine = tried.engine([prompt], tried.config.block_size + 1)
    while engine.canvas.active == 0 or engine.canvas.todo_BS(torch.tensor([0])).any():
        engine.step()
    tokens = engine.canvas.tokens_NL[0, :until].tolist()
    return engine.forward.cache.layers[-1].keys[0, :, :until].clone(), tokens


def test_a_stale_canvas_is_found(monkeypatch):
    """A row that is reused with its predecessor's tokens still in it."""
    opened = canvas_module.Canvas.open_row

    def forgetful(self, prompt, max_new_tokens, sampling, ends):
        before = self.tokens_NL[self.active].clone()
        row = opened(self, prompt, max_new_tokens, sampling, ends)
        self.tokens_NL[row, len(prompt) :] = before[len(prompt) :]
        return row

    monkeypatch.setattr(canvas_module.Canvas, "open_row", forgetful)
    assert not engine_checks.batched_is_single(subject()).holds


def test_a_mask_token_that_can_be_predicted_is_found():
    tried = subject()
    tried.backbone.mask_token_id = None
    assert not model_checks.mask_token_is_never_predicted(tried).holds


def test_nan_never_passes():
    tried = subject()
    tried.backbone.head.weight.data[3] = float("nan")
    assert not model_checks.causal_logits_are_stock(tried).holds


def test_every_check_has_a_control_that_differs():
    for check in DIFFUSION_CHECKS:
        result = check(subject())
        assert result.control_difference > result.tolerance, result


def test_mask_id_is_the_one_of_the_tests():
    assert make_config().mask_token_id == MASK
