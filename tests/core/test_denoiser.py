"""A denoiser acts on masks alone; PEFT's own activated LoRA is the oracle."""

import pytest
import torch
from conftest import FAMILIES, MASK, make_denoiser, make_model
from torch.testing import assert_close

from unmask.core.backbone import Backbone
from unmask.core.denoiser import GatedLinear, add_denoiser
from unmask.errors import ModelError

TOKENS = torch.tensor([[5, 9, 3, MASK, MASK]])
POSITIONS = torch.arange(5)[None]
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]


@pytest.mark.parametrize("family", [*FAMILIES, "gemma3_text", "phi3"])
def test_without_masks_the_model_is_the_parent_bit_for_bit(family):
    parent = Backbone(make_model(family), mask_token_id=MASK)
    adapted = make_denoiser(family)
    plain = (torch.tensor([[5, 9, 3, 7, 8]]), POSITIONS, CAUSAL)
    assert torch.equal(adapted.hidden(*plain), parent.hidden(*plain))


def test_the_gate_is_open_for_masks_alone():
    adapted = make_denoiser()
    shut = adapted.hidden(TOKENS, POSITIONS, CAUSAL)
    opened = adapted.hidden(TOKENS, POSITIONS, CAUSAL, masks=2)
    assert torch.equal(opened[:, :3], shut[:, :3])
    assert (opened[:, 3:] - shut[:, 3:]).abs().amin(-1).max() > 1e-3
    assert adapted.gate.masks == 0  # shut again


def test_new_adapters_change_nothing():
    parent = Backbone(make_model(), mask_token_id=MASK)
    model = make_model()
    gate = add_denoiser(model, rank=4, alpha=8, mask_token_id=MASK)
    fresh = Backbone(model, mask_token_id=MASK, gate=gate).hidden(
        TOKENS, POSITIONS, CAUSAL, masks=2
    )
    assert torch.equal(fresh, parent.hidden(TOKENS, POSITIONS, CAUSAL))


def test_only_adapters_and_the_mask_embedding_are_trained():
    adapted = make_denoiser()
    adapted.hidden(TOKENS, POSITIONS, CAUSAL, masks=2).square().sum().backward()
    trained = {name for name, weight in adapted.model.named_parameters() if weight.requires_grad}
    with_gradient = {n for n, w in adapted.model.named_parameters() if w.grad is not None}
    assert with_gradient <= trained
    assert all(name.endswith(("lora_A", "lora_B", "embed_tokens.mask")) for name in trained)
    assert len(trained) == 2 * 2 * 7 + 1
    assert not any(isinstance(m, GatedLinear) for m in [adapted.head])


def test_a_model_without_linear_layers_is_refused():
    with pytest.raises(ModelError, match="no linear layers"):
        add_denoiser(make_model("gpt2"), rank=4, alpha=8, mask_token_id=MASK)


@pytest.mark.parametrize("masks", [1, 2])
def test_peft_computes_the_same(masks, tmp_path):
    from peft import PeftModel

    from unmask.store.denoiser import save_denoiser

    adapted = make_denoiser()
    ours = adapted.hidden(TOKENS, POSITIONS, CAUSAL, masks=masks)
    save_denoiser(tmp_path, adapted.model, parent="none", rank=4, alpha=8)
    theirs = PeftModel.from_pretrained(make_model(), tmp_path)
    logits = theirs(input_ids=TOKENS, alora_offsets=[masks]).logits
    assert_close(adapted.head(ours), logits, atol=1e-4, rtol=1e-4)
    other = theirs(input_ids=TOKENS, alora_offsets=[3 - masks]).logits
    assert (other - logits).abs().max() > 1e-2
