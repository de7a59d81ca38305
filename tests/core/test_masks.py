import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from unmask.core.masks import Places, dense_mask, flex_mask, sees


def places(*rows):
    return Places(*(torch.tensor(column) for column in zip(*rows, strict=True)))


# document, block, stream, position: two clean blocks of two, and both views of the second one
ROW = places(
    (0, 0, 0, 0), (0, 0, 0, 1), (0, 1, 0, 2), (0, 1, 0, 3),
    (0, 1, 1, 2), (0, 1, 1, 3), (0, 1, 2, 2), (0, 1, 2, 3),
)  # fmt: skip

BY_HAND = {
    "block": """
        11000000
        11000000
        11110000
        11110000
        11001100
        11001100
        11000011
        11000011""",
    "causal": """
        10000000
        11000000
        11100000
        11110000
        11001100
        11001100
        11000011
        11000011""",
}


def table(text):
    return torch.tensor([[digit == "1" for digit in line.strip()] for line in text.split()])


@pytest.mark.parametrize("context", ["block", "causal"])
def test_mask_is_the_hand_worked_table(context):
    assert torch.equal(sees(ROW[:, None], ROW[None, :], context), table(BY_HAND[context]))


def test_contexts_differ():
    assert not torch.equal(table(BY_HAND["block"]), table(BY_HAND["causal"]))


def test_documents_never_see_each_other():
    two = places((0, 0, 0, 0), (1, 1, 0, 1))
    assert torch.equal(sees(two[:, None], two[None, :], "block"), torch.eye(2, dtype=torch.bool))


@pytest.mark.parametrize("context", ["block", "causal"])
def test_flex_mask_is_dense_mask_at_lengths_off_its_tile(context):
    dense = dense_mask(ROW[None], ROW[None], context)
    mask_mod = flex_mask(ROW[None], context).mask_mod
    assert torch.equal(create_mask(mask_mod, 1, 1, 8, 8, device="cpu"), dense)
