import json

import pytest
from conftest import VOCABULARY

from unmask.errors import DataError, ModelError
from unmask.train.chat import Sample, cut_sample, encode_row
from unmask.train.rows import Row, conversation, parse_row

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


TEMPLATES = {
    # A system turn of the template's own where there is none.
    "smollm2": (
        "{% if messages[0].role != 'system' %}<|im_start|>system\nI am kind<|im_end|>\n{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    # Headers, trimmed content, no newline behind the end of turn.
    "llama3": (
        "{% for m in messages %}<|im_start|>{{ m.role }}>\n\n{{ m.content | trim }}<|im_end|>"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant>\n\n{% endif %}"
    ),
    # Tools in the system turn; calls in the assistant's; all answers of tools in one user turn.
    "qwen2.5": (
        "<|im_start|>system\n{% if messages[0].role == 'system' %}{{ messages[0].content }}"
        "{% else %}I am kind{% endif %}{% if tools %}{{ '\\n' }}<tools>{% for t in tools %}"
        "{{ '\\n' }}{{ t | tojson }}{% endfor %}{{ '\\n' }}</tools>{% endif %}<|im_end|>\n"
        "{% for m in messages %}{% if m.role == 'tool' %}"
        "{% if loop.previtem.role != 'tool' %}<|im_start|>user{% endif %}"
        "{{ '\\n' }}<tool_response>\n{{ m.content }}\n</tool_response>"
        "{% if loop.last or loop.nextitem.role != 'tool' %}<|im_end|>\n{% endif %}"
        "{% elif m.role != 'system' or not loop.first %}<|im_start|>{{ m.role }}"
        "{% if m.content %}{{ '\\n' + m.content }}{% endif %}{% for c in m.tool_calls or [] %}"
        "{{ '\\n' }}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
}
"""Templates that render as those of these models do, in our words."""


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("system", [True, False])
def test_two_turns_under_the_templates_people_use(tokenizer, name, system):
    tokenizer.chat_template = TEMPLATES[name]
    messages = [{"role": "system", "content": "be brief"}] * system
    messages += [*conversation("a?", "b!"), *conversation("c?", "d!")]
    sample = encode_row(Row(where="x", messages=messages), tokenizer, ENDS)
    assert targets(sample, tokenizer) == "b!<|im_end|>d!<|im_end|>"
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    assert whole.rstrip("\n") == tokenizer.decode(sample.ids)


def test_calls_of_tools_are_learnt_and_their_answers_are_not(tokenizer):
    tokenizer.chat_template = TEMPLATES["qwen2.5"]
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    line = json.dumps({
        "tools": [{"type": "function", "function": {"name": "add"}}],
        "messages": [
            {"role": "user", "content": "1+1?"}, {"role": "assistant", "tool_calls": [call, call]},
            {"role": "tool", "content": "2"}, {"role": "tool", "content": "2 again"},
            {"role": "assistant", "content": "two"},
        ],
    })  # fmt: skip
    sample = encode_row(parse_row(line, "x"), tokenizer, ENDS)
    said = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    learnt = targets(sample, tokenizer)
    assert learnt.count("<tool_call>") == 2
    assert "tool_response" not in learnt
    assert learnt.endswith("</tool_call><|im_end|>two<|im_end|>")
    text = tokenizer.decode(sample.ids)
    assert '<tools>\n{"type": "function"' in text
    assert "<tool_response>\n2\n</tool_response>\n<tool_response>\n2 again" in text
    assert said in text
