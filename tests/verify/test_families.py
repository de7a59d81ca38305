"""Every promise on every family, and a reason for each family that is refused."""

import pytest
from conftest import MASK, make_config, make_model

from unmask.core.backbone import Backbone
from unmask.errors import ModelError
from unmask.verify.subject import Subject
from unmask.verify.suite import DIFFUSION_CHECKS

FAMILIES = {
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    "mistral": {"sliding_window": None},
    "gemma3_text": {"sliding_window": 512, "query_pre_attn_scalar": 8},
    "olmo2": {},
    "phi3": {},
    "smollm3": {"no_rope_layers": [1, 0]},
    "granite": {"logits_scaling": 8.0, "embedding_multiplier": 2.0, "attention_multiplier": 0.2},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512},
}
REFUSED = {
    "gemma2": ({"sliding_window": 512}, "soft-capping"),
    "gpt_oss": ({"num_local_experts": 4}, "sinks"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_all_promises_hold(family):
    backbone = Backbone(make_model(family, **FAMILIES[family]), mask_token_id=MASK)
    subject = Subject(backbone=backbone, config=make_config())
    for check in DIFFUSION_CHECKS:
        result = check(subject)
        assert result.holds, result


@pytest.mark.parametrize("family", REFUSED)
def test_what_would_be_computed_wrongly_is_refused(family):
    settings, reason = REFUSED[family]
    with pytest.raises(ModelError, match=reason):
        Backbone(make_model(family, **settings))
