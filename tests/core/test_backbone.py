import pytest
import torch
from conftest import make_backbone, make_model

from unmask.core.attention import attention
from unmask.core.backbone import Backbone
from unmask.core.masks import Places, dense_mask, flex_mask
from unmask.errors import ModelError


def test_no_mask_means_see_everything_not_causal():
    backbone = make_backbone()
    tokens, positions = torch.arange(6)[None], torch.arange(6)[None]
    with torch.no_grad():
        unmasked = backbone.hidden(tokens, positions, None)
        full = backbone.hidden(tokens, positions, torch.ones(1, 1, 6, 6, dtype=torch.bool))
        causal = backbone.hidden(tokens, positions, torch.ones(6, 6).tril().bool()[None, None])
    torch.testing.assert_close(unmasked, full)
    assert (unmasked - causal).abs().max() > 0.1


def with_head(change):
    model = make_model()
    plain = model.forward

    def changed(*args, **kwargs):
        output = plain(*args, **kwargs)
        output.logits = change(output.logits)
        return output

    model.forward = changed
    return model


def test_head_that_scales_its_logits_is_followed():
    assert Backbone(make_model()).logit_scale == 1.0
    scaled = Backbone(with_head(lambda logits: logits / 8))
    assert scaled.logit_scale == pytest.approx(1 / 8)
    hidden = torch.randn(3, 32)
    torch.testing.assert_close(scaled.logits(hidden), scaled.head(hidden) / 8)


def test_head_that_caps_its_logits_is_refused():
    with pytest.raises(ModelError, match="times a number"):
        Backbone(with_head(lambda logits: 5 * (logits / 5).tanh()))


def test_nan_is_traced_to_the_weights_or_to_the_dtype():
    backbone = make_backbone()
    assert "overflows" in backbone.explain_nan()
    backbone.decoder.layers[1].mlp.up_proj.weight.data[3, 4] = float("nan")
    assert "layers.1.mlp.up_proj.weight" in backbone.explain_nan()


def test_zero_rotary_frequencies_are_refused():
    model = make_model()
    model.model.rotary_emb.inv_freq.zero_()
    with pytest.raises(ModelError, match="inv_freq"):
        Backbone(model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"s_aux": torch.zeros(4)}, "sinks"),
        ({"softcap": 30.0}, "soft-capping"),
        ({"sliding_window": 3}, "sliding window"),
    ],
)
def test_attention_features_that_would_be_dropped_are_refused(options, message):
    states = torch.zeros(1, 1, 4, 8)
    with pytest.raises(ModelError, match=message):
        attention(torch.nn.Module(), states, states, states, None, **options)


def test_stock_gives_the_model_back_its_attention():
    backbone = make_backbone()
    with backbone.stock() as model:
        assert model.config._attn_implementation == "sdpa"
    assert backbone.model.config._attn_implementation == "unmask"


def test_mask_token_gets_no_probability():
    backbone = make_backbone()
    logits = backbone.logits(torch.randn(3, 32))
    assert logits[:, 96].isneginf().all()
    assert logits[:, :96].isfinite().all()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("context", ["block", "causal"])
def test_flex_attention_computes_what_dense_attention_does(context):
    """The GPU's path, run eagerly here; the length is no multiple of flex's tile."""
    backbone = make_backbone()
    index = torch.arange(24)[None]
    places = Places(index // 16, index // 8, (index >= 16).long(), index)
    tokens = torch.randint(0, 90, (1, 24))
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        dense = backbone.hidden(tokens, index, dense_mask(places, places, context))
        flex = backbone.hidden(tokens, index, flex_mask(places, context))
        other = backbone.hidden(tokens, index, None)
    torch.testing.assert_close(flex, dense, atol=1e-4, rtol=1e-4)
    assert (other - dense).abs().max() > 0.1
