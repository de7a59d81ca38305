import pytest
import torch
from conftest import make_backbone, make_config, make_model

from unmask.core.backbone import Backbone
from unmask.decode.model import load
from unmask.errors import ConfigError, ModelError
from unmask.verify.subject import Subject


@pytest.mark.slow
def test_compiled_layers_decode_the_same_tokens():
    """Rows of several lengths, side by side; layers of two kinds."""
    prompts = [list(range(3, 3 + length)) for length in (5, 9)]
    backbone = make_backbone("smollm3", no_rope_layers=[1, 0])  # two kinds of layers
    subject = Subject(backbone=backbone, config=make_config())
    plain = subject.decode(prompts, 20, threshold=0.2, cache="block")
    calls = count_calls(subject.backbone.decoder.layers)
    subject.backbone.compile()
    compiled = subject.decode(prompts, 20, threshold=0.2, cache="block")
    assert [s.tokens for s in compiled] == [s.tokens for s in plain]
    assert [s.nfe for s in compiled] == [s.nfe for s in plain]
    eager, forwards = calls[0], sum(s.nfe.total for s in compiled)
    assert 0 < eager < forwards  # only what makes the slabs and what is being compiled
    subject.backbone.decoder.layers[1].mlp.up_proj.weight.data.mul_(-1)
    changed = subject.decode(prompts, 20, threshold=0.2, cache="block")
    assert [s.tokens for s in changed] != [s.tokens for s in plain]  # weights are not baked in


def count_calls(layers):
    """How often a layer's own Python runs."""
    calls = [0]

    class Counted(type(layers[0])):
        def forward(self, *args, **kwargs):
            if not torch.compiler.is_compiling():
                calls[0] += 1
            return super().forward(*args, **kwargs)

    for layer in layers:
        layer.__class__ = Counted
    return calls


def test_a_model_that_passes_its_cache_otherwise_is_refused():
    model = make_model("gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=512)
    backbone = Backbone(model, mask_token_id=96)
    backbone.compile()
    with pytest.raises(ModelError, match="--compile does not support GPT2Block"):
        Subject(backbone=backbone, config=make_config()).decode([[3, 4, 5]], 4)


def test_int8_and_compile_do_not_go_together(adapted):
    with pytest.raises(ConfigError, match="choose one"):
        load(str(adapted), quantize="int8", compile=True)


def test_unknown_places_of_layers_are_refused():
    backbone = Backbone(make_model())
    backbone.decoder.more = torch.nn.ModuleList()
    with pytest.raises(ModelError, match="keeps its layers"):
        backbone.compile()
