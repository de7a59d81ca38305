import pytest
import torch
from conftest import make_backbone, make_model
from torch import nn

from unmask.core.int8 import Int8Linear, use_int8_linear
from unmask.errors import ConfigError


@pytest.mark.parametrize("tie", [True, False])
def test_logits_stay_close_and_head_and_embedding_stay_whole(tie):
    model = make_model(tie_word_embeddings=tie, hidden_size=64)
    tokens = torch.arange(3, 40)[None]
    with torch.no_grad():
        before = model(tokens).logits
        use_int8_linear(model)
        after = model(tokens).logits
    other = model(tokens + 1).logits
    assert (after - before).norm() / before.norm() < 0.15
    assert (other - before).norm() / before.norm() > 0.5
    assert not torch.equal(after, before)
    assert model.get_input_embeddings().weight.shape == model.get_output_embeddings().weight.shape


def test_the_product_is_that_of_rounded_weights():
    """Worked by hand: inputs and weights that int8 holds exactly."""
    layer = nn.Linear(3, 2, bias=True)
    layer.weight.data = torch.tensor([[127.0, -127.0, 64.0], [1.0, 0.5, 0.0]])
    layer.bias.data = torch.tensor([1.0, 2.0])
    holder = make_model()
    holder.extra = layer
    use_int8_linear(holder)
    assert type(holder.extra) is Int8Linear
    out = holder.extra(torch.tensor([[0.0, 127.0, 0.0]]))
    torch.testing.assert_close(out, torch.tensor([[-127 * 127 + 1.0, 66.0]]), rtol=0.01, atol=0.6)


def test_a_row_does_not_depend_on_its_batch():
    holder = make_model()
    holder.extra = nn.Linear(24, 40)
    use_int8_linear(holder)
    rows = torch.randn(5, 24) * torch.tensor([[1.0], [1e-3], [1e4], [0.0], [1.0]])
    together = holder.extra(rows)
    alone = torch.cat([holder.extra(row[None]) for row in rows])
    assert torch.equal(together, alone)
    assert not torch.equal(together[0], together[4])
    one_scale = torch.ops.quantized.linear_dynamic(rows, holder.extra.packed, reduce_range=True)
    assert (one_scale[1] + holder.extra.bias - alone[1]).abs().max() > 1e-4  # what it was before


def test_other_dtypes_are_refused():
    with pytest.raises(ConfigError, match="float32 on a CPU"):
        use_int8_linear(make_backbone().model.to(torch.bfloat16))
