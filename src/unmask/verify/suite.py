"""The list of checks, and how they are run."""

from collections.abc import Callable, Iterator

from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.decode.autoregressive import ar_config
from unmask.verify import draft_checks, engine_checks, full_checks, model_checks
from unmask.verify.check import Check
from unmask.verify.subject import Subject

AR_CHECKS: tuple[Callable[[Subject], Check], ...] = (
    model_checks.causal_logits_are_stock,
    engine_checks.ar_mode_is_stock_generate,
)
"""What holds for any causal language model."""

DIFFUSION_CHECKS: tuple[Callable[[Subject], Check], ...] = (
    model_checks.training_mask_is_pairwise,
    model_checks.dense_mask_is_flex_mask,
    model_checks.training_logits_are_decoding_logits,
    model_checks.no_leak,
    model_checks.mask_token_is_never_predicted,
    engine_checks.threshold_one_is_one_at_a_time,
    engine_checks.cached_is_recomputed,
    engine_checks.committed_state_is_clean_state,
    engine_checks.batched_is_single,
    engine_checks.budget_does_not_change_tokens,
    engine_checks.end_token_at_block_start_ends,
    engine_checks.seed_fixes_tokens,
)
"""What holds for one that is adapted to fill blocks."""

SPECULATIVE_CHECKS: tuple[Callable[[Subject], Check], ...] = (
    draft_checks.speculative_is_stock_generate,
    draft_checks.speculative_draws_as_ar,
)
"""What holds where the model can verify its own drafts."""

DRAFT_CHECKS: tuple[Callable[[Subject], Check], ...] = (
    draft_checks.parent_is_untouched,
    draft_checks.window_logits_are_drafting_logits,
    model_checks.mask_token_is_never_predicted,
    *SPECULATIVE_CHECKS,
)
"""What holds for a denoiser."""


FULL_CHECKS: tuple[Callable[[Subject], Check], ...] = (
    full_checks.views_are_apart,
    full_checks.training_logits_are_decoding_logits,
    model_checks.mask_token_is_never_predicted,
    engine_checks.threshold_one_is_one_at_a_time,
    engine_checks.batched_is_single,
    engine_checks.seed_fixes_tokens,
)
"""What holds where everything sees everything; nothing is cached or committed."""


def run_checks(
    backbone: Backbone, config: DiffusionConfig | None, *, seed: int = 0
) -> Iterator[Check]:
    """Run all checks that apply, one after another.

    Args:
        backbone: the model.
        config: None for a model that is not adapted: AR checks only.
        seed: of the token sequences that the checks try.
    """
    rows = backbone.head.weight.shape[0]
    ar_subject = Subject(backbone=backbone, config=ar_config(rows), seed=seed)
    for check in AR_CHECKS:
        yield check(ar_subject)
    if config is not None:
        for check in _checks_of(config):
            yield check(Subject(backbone=backbone, config=config, seed=seed))


def count_checks(config: DiffusionConfig | None) -> int:
    """How many checks `run_checks` will yield."""
    return len(AR_CHECKS) + (len(_checks_of(config)) if config is not None else 0)


def _checks_of(config: DiffusionConfig) -> tuple[Callable[[Subject], Check], ...]:
    if config.context == "draft":
        return DRAFT_CHECKS
    if config.is_whole:
        return FULL_CHECKS
    if config.context == "causal" and config.token_shift:
        return DIFFUSION_CHECKS + SPECULATIVE_CHECKS
    return DIFFUSION_CHECKS
