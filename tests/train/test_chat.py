import pytest
from conftest import VOCABULARY

from unmask.errors import DataError, ModelError
from unmask.train.chat import Sample, cut_sample, encode_row
from unmask.train.rows import Row, conversation

ENDS = frozenset({VOCABULARY - 2})


def targets(sample, tokenizer):
    """The learnt parts as text, special tokens included."""
    ids = [i for i, target in zip(sample.ids, sample.is_target, strict=True) if target]
    return tokenizer.decode(ids)


def test_the_answer_and_its_end_of_turn_are_learnt(tokenizer):
    row = Row(where="x", messages=conversation("1+1?", "2"))
    sample = encode_row(row, tokenizer, ENDS)
    assert targets(sample, tokenizer) == "2<|im_end|>"
    assert tokenizer.decode(sample.ids).endswith("assistant\n2<|im_end|>")


def test_every_assistant_turn_is_learnt_and_no_other(tokenizer):
    messages = [*conversation("a", "b"), *conversation("c", "d")]
    sample = encode_row(Row(where="x", messages=messages), tokenizer, ENDS)
    assert targets(sample, tokenizer) == "b<|im_end|>d<|im_end|>"


def test_plain_text_is_learnt_from_its_second_token(tokenizer):
    sample = encode_row(Row(where="x", text="abc"), tokenizer, ENDS)
    assert targets(sample, tokenizer) == "bc<|im_end|>"


def test_rows_that_cannot_be_learnt_name_themselves(tokenizer):
    with pytest.raises(DataError, match=r"f\.jsonl:3 holds the mask token"):
        encode_row(Row(where="f.jsonl:3", text="a b"), tokenizer, ENDS,
                   mask_token_id=tokenizer(" ")["input_ids"][0])  # fmt: skip
    tokenizer.eos_token = None
    with pytest.raises(DataError, match=r"f\.jsonl:3 has nothing to learn"):
        encode_row(Row(where="f.jsonl:3", text="a"), tokenizer, ENDS)


def test_a_template_that_refuses_a_role_is_an_error_of_the_row(tokenizer):
    tokenizer.chat_template = "{{ raise_exception('only users speak') }}"
    with pytest.raises(DataError, match=r"x: the chat template refuses .*only users speak"):
        encode_row(Row(where="x", messages=conversation("a", "b")), tokenizer, ENDS)


def test_a_template_that_rewrites_history_is_refused(tokenizer):
    tokenizer.chat_template = (
        "{{ messages | length }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
    )
    with pytest.raises(DataError, match="rewrites earlier turns"):
        encode_row(Row(where="x", messages=conversation("a", "b")), tokenizer, ENDS)


def test_no_template_is_an_error(tokenizer):
    tokenizer.chat_template = None
    with pytest.raises(ModelError, match="no chat template"):
        encode_row(Row(where="x", messages=conversation("a", "b")), tokenizer, ENDS)


def test_samples_are_cut_as_often_as_asked_and_anywhere():
    whole = Sample(list(range(20)), [place >= 8 for place in range(20)])
    cut = [cut_sample(whole, 0.3, f"0/{index}") for index in range(2000)]
    lengths = [len(sample.ids) for sample in cut]
    assert abs(sum(length < 20 for length in lengths) / 2000 - 0.3 * 11 / 12) < 0.04
    assert set(lengths) == set(range(9, 21))  # at least one target is left
    assert all(sample.is_target == whole.is_target[: len(sample.ids)] for sample in cut)
    assert cut[5] == cut_sample(whole, 0.3, "0/5")
    assert {len(cut_sample(whole, 0.0, f"0/{index}").ids) for index in range(50)} == {20}
