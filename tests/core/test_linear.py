import pytest
import torch
from torch import nn

from unmask.core.linear import WIDE, FewRowsLinear, plain_linear, use_few_rows_linear


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 8), (4, 8), (8, 8), (13, 5), (300, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_that_of_the_plain_layer(shape, bias):
    plain = nn.Linear(24, 40, bias=bias)
    states = torch.randn(*shape, 24)
    expected = plain(states)
    use_few_rows_linear(plain)
    assert type(plain) is FewRowsLinear
    torch.testing.assert_close(plain(states), expected, atol=1e-5, rtol=1e-5)
    assert plain(states).is_contiguous()
    assert (plain(states + 1) - expected).abs().max() > 0.1


def test_one_row_of_a_wide_layer():
    wide = nn.Linear(4, WIDE)
    states = torch.randn(1, 1, 4)
    expected = wide(states)
    use_few_rows_linear(wide)
    torch.testing.assert_close(wide(states), expected, atol=1e-5, rtol=1e-5)


def test_weights_and_names_stay():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    use_few_rows_linear(model)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_oracles_get_the_plain_layers():
    model = nn.Sequential(nn.Linear(4, 4))
    use_few_rows_linear(model)
    with plain_linear(model):
        assert type(model[0]) is nn.Linear
    assert type(model[0]) is FewRowsLinear
