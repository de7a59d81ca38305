"""A model's own answers as data: whole, in order, and resumable."""

import json

import pytest

from unmask.decode.model import load
from unmask.errors import DataError
from unmask.train.chat import encode_row
from unmask.train.distill import distill, read_prompts
from unmask.train.rows import parse_row
from unmask.train.source import open_source


@pytest.fixture
def model(parent):
    return load(str(parent))


PROMPTS = [[{"role": "user", "content": f"say {word}"}] for word in ("a", "bc", "def", "g", "hi")]
FEW = {"mode": "ar", "max_new_tokens": 8}


def test_rows_are_the_models_answers_in_order(model, tmp_path):
    out = tmp_path / "own.jsonl"
    told = distill(model, PROMPTS, out, batch_size=2, **FEW)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert (told.rows, told.new_rows) == (5, 5)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        alone = model.generate(prompt, **FEW)[0]
        text = alone.text.rstrip("\ufffd")  # half a character, where the budget cut it
        assert row["messages"] == [*prompt, {"role": "assistant", "content": text}]
        assert row.get("is_cut", False) == (alone.finish_reason == "length")
    assert told.cut == sum("is_cut" in row for row in rows)


@pytest.mark.parametrize("spoil", [0, 7])
def test_a_run_that_was_cut_short_goes_on(model, tmp_path, spoil):
    whole, halves = tmp_path / "whole.jsonl", tmp_path / "halves.jsonl"
    distill(model, PROMPTS, whole, **FEW)
    lines = whole.read_text().splitlines(keepends=True)
    halves.write_text("".join(lines[:2]) + lines[2][:spoil])  # killed while it wrote
    assert distill(model, PROMPTS, halves, **FEW).new_rows == 3
    assert halves.read_text() == whole.read_text()
    assert distill(model, PROMPTS, halves, **FEW).new_rows == 0
    with pytest.raises(DataError, match="choose another file"):
        distill(model, PROMPTS[:2], halves, **FEW)


def test_a_prompt_that_does_not_fit_is_told_before_anything_is_answered(model, tmp_path):
    long = [{"role": "user", "content": "x" * 600}]
    with pytest.raises(DataError, match="prompt 2: the prompt has"):
        distill(model, [PROMPTS[0], long], tmp_path / "own.jsonl", **FEW)
    assert not (tmp_path / "own.jsonl").exists()


def test_answers_to_other_prompts_are_not_gone_on_with(model, tmp_path):
    out = tmp_path / "own.jsonl"
    distill(model, PROMPTS[:2], out, **FEW)
    before = out.read_text()
    with pytest.raises(DataError, match="answers to other prompts"):
        distill(model, PROMPTS[::-1], out, **FEW)
    assert out.read_text() == before
    out.write_text('{"text": "a"}\n')
    with pytest.raises(DataError, match="answers to other prompts"):
        distill(model, PROMPTS, out, **FEW)
    with pytest.raises(DataError, match="cannot write"):
        distill(model, PROMPTS, tmp_path, **FEW)


def test_prompts_come_from_rows_with_or_without_an_answer(tmp_path, data):
    path = tmp_path / "asked.jsonl"
    path.write_text(
        '{"prompt": "a"}\n\n{"prompt": "b", "response": "c"}\n'
        '{"messages": [{"role": "user", "content": "d"}]}\n'
        '{"messages": [{"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}]}\n'
    )
    said = [messages[-1]["content"] for messages in read_prompts(str(path), None)]
    assert said == ["a", "b", "d", "e"]
    assert len(read_prompts(str(path), 2)) == 2
    gym = read_prompts("gym:number_filtering", 2)
    mixed = read_prompts(f"gym:number_filtering, {path}", 3)
    assert [mixed[0], mixed[1][-1]["content"], mixed[2]] == [gym[0], "a", gym[1]]
    assert gym[1] == open_source("gym:number_filtering", seed=0).row(1).messages[:-1]
    path.write_text('{"text": "a"}\n')
    with pytest.raises(DataError, match=r"asked\.jsonl:1 has no known field"):
        read_prompts(str(path), None)


def test_an_answer_that_was_cut_teaches_no_end(tokenizer):
    ends = frozenset({tokenizer.eos_token_id})
    messages = [*PROMPTS[0], {"role": "assistant", "content": "ab"}]
    whole = encode_row(parse_row(json.dumps({"messages": messages}), "a:1"), tokenizer, ends)
    cut = encode_row(
        parse_row(json.dumps({"messages": messages, "is_cut": True}), "a:1"), tokenizer, ends
    )
    assert whole.ids == [*cut.ids, tokenizer.eos_token_id]
    assert cut.is_target == whole.is_target[:-1]
    assert sum(cut.is_target) == 2
