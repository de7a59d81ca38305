from dataclasses import replace

import pytest
import torch
from conftest import save_adapted

from unmask.decode.model import load
from unmask.decode.text import cut_at_stop, settled
from unmask.errors import ConfigError, ModelError, PromptError
from unmask.verify.oracle import decode_one_at_a_time


@pytest.fixture
def model(adapted):
    return load(str(adapted))


def test_answers_keep_the_order_of_prompts(model):
    prompts = ["one", "two and more", "three"]
    together = model.generate(prompts, max_new_tokens=12, threshold=0.1)
    alone = [model.generate(p, max_new_tokens=12, threshold=0.1)[0] for p in prompts]
    assert [g.token_ids for g in together] == [g.token_ids for g in alone]


def test_counts_are_consistent(model):
    answer = model.generate("hello", max_new_tokens=12)[0]
    assert answer.new_tokens == len(answer.token_ids)
    assert answer.tpf == answer.new_tokens / (answer.nfe.denoise + answer.nfe.commit)
    assert answer.tokens_per_s == pytest.approx(answer.new_tokens / answer.seconds)


def test_ar_mode_is_stock_generate(model):
    answer = model.generate("hello", mode="ar", max_new_tokens=20)[0]
    ids = torch.tensor([model.encode("hello")])
    with model.backbone.stock() as stock:
        output = stock.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20,
            suppress_tokens=[model.config.mask_token_id],
        )  # fmt: skip
    assert answer.token_ids == output[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize("mode", ["ar", "diffusion"])
def test_streamed_text_is_the_generated_text(model, mode):
    options = {"mode": mode, "max_new_tokens": 30, "temperature": 1.0, "seed": 3}
    events = list(model.stream("hello", **options))
    committed = "".join(e.text for e in events if e.kind == "committed")
    assert events[-1].kind == "finished"
    assert committed == events[-1].generation.text == model.generate("hello", **options)[0].text
    assert any(e.kind == "provisional" for e in events)


def test_stop_text_ends_the_answer_and_is_not_part_of_it(model):
    options = {"max_new_tokens": 40, "temperature": 1.0, "seed": 1}
    free = model.generate("hello", **options)[0]
    stop = free.text[5:7]
    stopped = model.generate("hello", stop=(stop,), **options)[0]
    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert stopped.new_tokens < free.new_tokens
    streamed = [e.text for e in model.stream("hello", stop=(stop,), **options)
                if e.kind == "committed"]  # fmt: skip
    assert "".join(streamed) == stopped.text


def test_held_back_text():
    assert settled("say EN", ("END",)) == "say "
    assert settled("caf\ufffd", ()) == "caf"
    assert cut_at_stop("a. b. c", (". ",)) == "a"


def test_message_lists_are_one_conversation(model):
    turns = [{"role": "user", "content": "hello"}]
    assert (model.generate(turns, max_new_tokens=4)[0].token_ids
            == model.generate("hello", max_new_tokens=4)[0].token_ids)  # fmt: skip


def test_ignore_eos_uses_the_whole_budget(model):
    end = model.generate("hello", max_new_tokens=8)[0].token_ids[0]
    model.checkpoint.model.generation_config.eos_token_id = end
    assert model.generate("hello", max_new_tokens=8)[0].new_tokens == 1
    assert model.generate("hello", max_new_tokens=8, ignore_eos=True)[0].new_tokens == 8


@pytest.mark.parametrize(
    ("prompt", "message"),
    [("", "empty"), ("  \n", "empty"), ("x" * 600, "holds 512"), ("a <|mask|> b", "mask token")],
)
def test_prompts_that_cannot_be_answered(model, prompt, message):
    with pytest.raises(PromptError, match=message):
        model.generate(prompt)


def test_answer_never_runs_past_the_model_positions(model):
    prompt = "x" * 480
    answer = model.generate(prompt, max_new_tokens=1000, ignore_eos=True, threshold=0.01)[0]
    assert answer.prompt_tokens + answer.new_tokens == 512
    assert answer.finish_reason == "length"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": 1.5}, "threshold"),
        ({"cache": "blok"}, "did you mean 'block'"),
        ({"strategy": "nope"}, "unknown strategy"),
        ({"mode": "arr"}, "unknown mode"),
        ({"sub_block_size": 3}, "does not divide"),
        ({"block_size": 6}, "does not divide"),
        ({"block_size": 0}, "block_size must be at least 1"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"stop": ("",)}, "stop text"),
    ],
)
def test_options_that_cannot_work(model, options, message):
    with pytest.raises(ConfigError, match=message):
        model.generate("hello", **options)


def test_another_block_size_than_the_checkpoint_has(model):
    text, answers = "one two three four", set()
    for size in (2, 4, 8, 16):
        options = {"max_new_tokens": 20, "threshold": 1.0, "block_size": size}
        config = replace(model.config, block_size=size, sub_block_size=min(4, size))
        wanted, _ = decode_one_at_a_time(model.backbone, config, model.encode(text), 20)
        assert model.generate(text, ignore_eos=True, **options)[0].token_ids == wanted
        answers.add(tuple(wanted))
    assert len(answers) > 1  # the size matters


def test_diffusion_on_a_model_that_is_not_adapted_says_how_to_adapt_it(parent):
    model = load(str(parent))
    with pytest.raises(ModelError, match="unmask adapt"):
        model.generate("hello")
    assert model.generate("hello", mode="ar", max_new_tokens=3)


def test_causal_checkpoints_decode_too(tmp_path):
    model = load(str(save_adapted(tmp_path / "causal", context="causal")))
    assert model.generate("hello", max_new_tokens=9, ignore_eos=True)[0].new_tokens == 9
