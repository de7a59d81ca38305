import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from conftest import save_parent
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from unmask.config import DiffusionConfig
from unmask.decode.model import load
from unmask.errors import DataError, Interrupted, ModelError, TrainingError
from unmask.store.average import average_checkpoints
from unmask.train.adapt import adapt
from unmask.train.loop import Budget
from unmask.train.objectives import diffusion
from unmask.train.recipe import Recipe
from unmask.train.run import Run
from unmask.train.sources.jsonl import JsonlSource

SMALL = {"block_size": 8, "sub_block_size": 4, "row_tokens": 64, "rows_per_step": 2,
         "warmup_steps": 2, "learning_rate": 1e-3, "save_every": 3}  # fmt: skip


def recipe(**settings):
    return Recipe(**{**SMALL, **settings})


def weights(folder):
    (path,) = Path(folder).glob("*model.safetensors")
    return load_file(path)


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize(
    ("trainable", "objective", "context"),
    [("full", "diffusion", "block"), ("lora", "diffusion", "block"), ("full", "ar", "causal"),
     ("lora", "ar", "causal"), ("lora", "diffusion", "draft"), ("full", "diffusion", "full"),
     ("lora", "diffusion", "full")],
)  # fmt: skip
def test_resumed_run_equals_uninterrupted_bit_for_bit(
    tmp_path, parent, data, trainable, objective, context
):
    chosen = recipe(trainable=trainable, objective=objective, context=context)
    whole = adapt(str(parent), str(data), tmp_path / "whole", recipe=chosen, budget=Budget(steps=6))
    halves = tmp_path / "halves"
    adapt(str(parent), str(data), halves, recipe=chosen, budget=Budget(steps=2))
    early = weights(halves)
    adapt(str(parent), str(data), halves, recipe=chosen, budget=Budget(steps=6), resume=True)
    assert same(weights(whole), weights(halves))
    assert not same(weights(whole), early)  # the control: two steps are not six
    logs = [(f / "trainer/log.jsonl").read_text().splitlines() for f in (whole, halves)]
    losses = [[json.loads(line)["denoise_loss"] for line in log] for log in logs]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 6


def test_result_is_an_ordinary_hugging_face_folder(tmp_path, parent, data):
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=recipe(), budget=Budget(steps=2))
    model = AutoModelForCausalLM.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    config = DiffusionConfig.load(out)
    assert model.config.vocab_size == config.embedding_rows == len(tokenizer)
    assert tokenizer.convert_tokens_to_ids(config.mask_token) == config.mask_token_id
    assert tokenizer.chat_template == AutoTokenizer.from_pretrained(parent).chat_template
    assert config.provenance["supervised_tokens"] > 0
    assert load(str(out)).generate("hi", max_new_tokens=5, ignore_eos=True)[0].new_tokens == 5


def test_lora_result_is_an_ordinary_peft_folder(tmp_path, parent, data):
    from peft import PeftModel

    chosen = recipe(trainable="lora")
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=chosen, budget=Budget(steps=3))
    config = DiffusionConfig.load(out)
    base = AutoModelForCausalLM.from_pretrained(parent)
    base.resize_token_embeddings(config.embedding_rows, mean_resizing=False)
    stock = PeftModel.from_pretrained(base, out)
    ids = torch.tensor([[5, 6, 7, config.mask_token_id]])
    with load(str(out)).backbone.stock() as merged, torch.no_grad():
        ours, theirs = merged(ids).logits[..., :-1], stock(ids).logits[..., :-1]
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
        with stock.disable_adapter():
            assert (ours - stock(ids).logits[..., :-1]).abs().max() > 1e-4
    untouched = AutoModelForCausalLM.from_pretrained(parent).get_input_embeddings().weight
    embedding = merged.get_input_embeddings().weight
    assert torch.equal(embedding[:-1], untouched)
    moved = embedding[config.mask_token_id] - untouched.mean(0)
    assert moved.abs().max() > 1e-5  # the mask embedding was trained


def test_a_denoiser_is_not_a_parent(tmp_path, parent, data):
    chosen = recipe(context="draft", trainable="lora")
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=chosen, budget=Budget(steps=1))
    with pytest.raises(TrainingError, match="is a denoiser; adapt its parent"):
        adapt(str(out), str(data), tmp_path / "again", recipe=chosen, budget=Budget(steps=1))


def test_a_denoiser_for_another_parent_is_refused(tmp_path, parent, data):
    chosen = recipe(context="draft", trainable="lora")
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=chosen, budget=Budget(steps=1))
    settings = json.loads((out / "adapter_config.json").read_text())
    other = save_parent(tmp_path / "other", num_hidden_layers=1)
    settings["base_model_name_or_path"] = str(other)
    (out / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="do not belong together: 14 adapters"):
        load(str(out))


def test_ar_run_leaves_a_model_that_is_not_a_diffusion_model(tmp_path, parent, data):
    chosen = recipe(objective="ar", context="causal")
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=chosen, budget=Budget(steps=1))
    assert not (out / "unmask.json").exists()
    with pytest.raises(ModelError, match=r"no unmask\.json"):
        load(str(out)).generate("hi")


def test_unused_id_is_taken_before_the_embedding_is_grown(tmp_path, data):
    from conftest import VOCABULARY, make_model, make_tokenizer

    model = make_model(vocab_size=VOCABULARY + 5, eos_token_id=VOCABULARY - 2)
    model.save_pretrained(tmp_path / "roomy")
    make_tokenizer().save_pretrained(tmp_path / "roomy")
    out = adapt(str(tmp_path / "roomy"), str(data), tmp_path / "out", recipe=recipe(),
                budget=Budget(steps=1))  # fmt: skip
    config = DiffusionConfig.load(out)
    assert (config.mask_token_id, config.embedding_rows) == (VOCABULARY, VOCABULARY + 5)


@pytest.mark.parametrize("context", ["block", "causal"])
def test_loss_falls(tmp_path, parent, data, context):
    losses = []
    adapt(str(parent), str(data), tmp_path / "out",
          recipe=recipe(context=context, learning_rate=3e-3), budget=Budget(steps=25),
          on_step=lambda report: losses.append(report.loss))  # fmt: skip
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_budgets_in_tokens_and_minutes_end_a_run(tmp_path, parent, data):
    steps = []
    for name, budget in (("a", Budget(tokens=50)), ("b", Budget(minutes=1e-6))):
        out = adapt(str(parent), str(data), tmp_path / name, recipe=recipe(), budget=budget)
        steps.append(DiffusionConfig.load(out).provenance["steps"])
    assert 1 <= steps[0] < 10
    assert steps[1] <= 1


def test_plan_comes_first_and_counts_what_the_run_then_sees(tmp_path, parent, data):
    seen = []
    out = adapt(
        str(parent), str(data), tmp_path / "out", recipe=recipe(), budget=Budget(steps=8),
        on_plan=lambda plan: seen.append(plan), on_step=lambda report: seen.append(report),
    )  # fmt: skip
    plan, tokens = seen[0], DiffusionConfig.load(out).provenance["supervised_tokens"]
    assert plan.steps == 8
    assert plan.supervised_tokens == pytest.approx(tokens, rel=0.3)


def test_gradient_checkpointing_changes_nothing(tmp_path, parent, data, monkeypatch):
    from transformers.models.llama.modeling_llama import LlamaMLP

    calls, forward = [], LlamaMLP.forward

    def counted(*args, **kwargs):
        calls.append(1)
        return forward(*args, **kwargs)

    monkeypatch.setattr(LlamaMLP, "forward", counted)
    made, spent = [], []
    for flag in (False, True):
        calls.clear()
        made.append(adapt(str(parent), str(data), tmp_path / f"{flag}", budget=Budget(steps=2),
                          recipe=recipe(gradient_checkpointing=flag)))  # fmt: skip
        spent.append(len(calls))
    plain, frugal = (weights(folder).values() for folder in made)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(plain, frugal, strict=True))
    assert spent[1] > 1.4 * spent[0]  # it did compute activations twice


def test_interrupt_saves_and_resume_goes_on(tmp_path, parent, data):
    out = tmp_path / "out"

    def press_ctrl_c(report):
        if report.step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="step 2, saved"):
        adapt(str(parent), str(data), out, recipe=recipe(), budget=Budget(steps=5),
              on_step=press_ctrl_c)  # fmt: skip
    adapt(str(parent), str(data), out, recipe=recipe(), budget=Budget(steps=5), resume=True)
    whole = adapt(str(parent), str(data), tmp_path / "w", recipe=recipe(), budget=Budget(steps=5))
    assert same(weights(out), weights(whole))


def test_full_disk_leaves_the_old_checkpoint_whole(tmp_path, parent, data, monkeypatch):
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=recipe(), budget=Budget(steps=3))
    before = weights(out)

    def disk_is_full(self, folder):
        (folder / "model.safetensors").write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(Run, "_write", disk_is_full)
    with pytest.raises(ModelError, match="No space left"):
        adapt(str(parent), str(data), out, recipe=recipe(), budget=Budget(steps=6), resume=True)
    assert same(weights(out), before)
    assert [path.name for path in tmp_path.iterdir() if "tmp" in path.name] == []


def test_loss_that_is_not_finite_stops_with_the_last_checkpoint_good(
    tmp_path, parent, data, monkeypatch
):
    plain, calls = diffusion.row_token_losses, []

    def breaks_later(*args, **kwargs):
        calls.append(1)
        denoise, next_token = plain(*args, **kwargs)
        return (denoise * float("nan") if len(calls) > 8 else denoise), next_token

    monkeypatch.setattr(diffusion, "row_token_losses", breaks_later)
    with pytest.raises(TrainingError, match="not finite at step 5"):
        adapt(str(parent), str(data), tmp_path / "out", recipe=recipe(), budget=Budget(steps=9))
    assert all(t.isfinite().all() for t in weights(tmp_path / "out").values())


def test_refusals(tmp_path, parent, data):
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=recipe(), budget=Budget(steps=1))

    def fails(message, where=out, source=data, model=parent, resume=True, **settings):
        with pytest.raises(TrainingError, match=message):
            adapt(str(model), str(source), where, recipe=recipe(**settings), resume=resume,
                  budget=Budget(steps=2))  # fmt: skip

    fails("add --resume", resume=False)
    fails(r"other settings \(rows_per_step\)", rows_per_step=3)
    fails(r"other settings \(parent\)", model="smollm2")
    fails("nothing to resume", where=tmp_path / "new")
    fails("is a file", where=data)
    fails("cannot write", where=data / "below-a-file")
    data.write_text(data.read_text().replace("red", "pink"))
    fails(r"other settings \(rows\)")
    (out / "trainer/state.json").write_text("{")
    fails("is damaged")
    with pytest.raises(TrainingError, match="float16"):
        adapt(str(parent), str(data), tmp_path / "h", recipe=recipe(), dtype=torch.float16)


def test_a_resumed_run_may_take_smaller_steps(tmp_path, parent, data):
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=recipe(), budget=Budget(steps=1))
    adapt(str(parent), str(data), out, recipe=recipe(learning_rate=1e-5), budget=Budget(steps=2),
          resume=True)  # fmt: skip
    assert DiffusionConfig.load(out).provenance["recipe"]["learning_rate"] == 1e-5


def test_a_bad_row_in_the_middle_loses_no_step(tmp_path, parent, data):
    """The text of the mask token in an answer, found when its turn comes."""
    rows = [data.read_text().splitlines()[0]] * 60
    data.write_text("\n".join([*rows, '{"prompt": "a", "response": "<|mask|>"}']))
    late = next(seed for seed in range(99) if _place_of_last(data, seed) > 40)
    with pytest.raises(DataError, match=r"data.jsonl:61 holds the mask token"):
        adapt(str(parent), str(data), tmp_path / "out", budget=Budget(steps=99),
              recipe=recipe(rows_per_step=1, seed=late))  # fmt: skip
    assert DiffusionConfig.load(tmp_path / "out").provenance["steps"] > 0


def _place_of_last(data, seed):
    source = JsonlSource(data, seed=seed)
    return [source.row(index).where for index in range(61)].index(f"{data}:61")


def test_adapter_and_parent_that_do_not_belong_together(tmp_path, parent, data):
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=recipe(trainable="lora"),
                budget=Budget(steps=1))  # fmt: skip
    other = make_other_parent(tmp_path / "other")
    settings = json.loads((out / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = str(other)
    (out / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="vocabulary mismatch"):
        load(str(out))


def make_other_parent(folder):
    save_parent(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(300, mean_resizing=False)
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("settings", [{}, {"context": "draft", "trainable": "lora"}])
def test_bfloat16_computes_in_bfloat16_and_keeps_float32_weights(tmp_path, parent, data, settings):
    exact, rough = (
        adapt(str(parent), str(data), tmp_path / str(dtype), recipe=recipe(**settings),
              budget=Budget(steps=2), dtype=dtype)
        for dtype in (torch.float32, torch.bfloat16)
    )  # fmt: skip
    assert all(t.dtype == torch.float32 for t in weights(rough).values())
    assert not same(weights(exact), weights(rough))


def test_an_adapter_on_an_adapter_finds_its_parents(tmp_path, parent, data):
    chosen = recipe(trainable="lora")
    first = adapt(str(parent), str(data), tmp_path / "a", recipe=chosen, budget=Budget(steps=2))
    second = adapt(str(first), str(data), tmp_path / "b", recipe=chosen, budget=Budget(steps=2))
    assert json.loads((second / "adapter_config.json").read_text())[
        "base_model_name_or_path"
    ] == str(first)
    merged = [load(str(folder)).checkpoint.model.state_dict() for folder in (first, second)]
    assert not same(*merged)
    shutil.rmtree(first)
    with pytest.raises(ModelError, match="no model"):
        load(str(second))


def test_the_last_checkpoints_are_kept_and_average_to_their_mean(tmp_path, parent, data):
    out = adapt(str(parent), str(data), tmp_path / "out", recipe=recipe(save_every=1, keep=2),
                budget=Budget(steps=4))  # fmt: skip
    kept = sorted((tmp_path / "out.steps").iterdir())
    assert [path.name for path in kept] == ["0000003", "0000004"]
    assert same(weights(kept[1]), weights(out))
    assert not same(weights(kept[0]), weights(out))
    mean = weights(average_checkpoints(kept, tmp_path / "mean"))
    for name, tensor in weights(out).items():
        torch.testing.assert_close(mean[name], (tensor + weights(kept[0])[name]) / 2)


def test_a_dry_run_tells_the_plan_and_nothing_else(tmp_path, parent, data):
    plans, steps = [], []
    adapt(str(parent), str(data), tmp_path / "out", recipe=recipe(), budget=Budget(steps=3),
          is_dry_run=True, on_plan=plans.append, on_step=steps.append)  # fmt: skip
    assert (plans[0].steps, plans[0].processes, steps) == (3, 1, [])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("settings", [{"view_pairs": 2}, {"block_sizes": "mixed"},
                                      {"block_sizes": "growing"}])  # fmt: skip
def test_views_and_block_sizes_train_and_resume(tmp_path, parent, data, settings):
    chosen = recipe(rows_per_step=1, **settings)
    whole = adapt(str(parent), str(data), tmp_path / "a", recipe=chosen, budget=Budget(steps=4))
    parts = adapt(str(parent), str(data), tmp_path / "b", recipe=chosen, budget=Budget(steps=3))
    plain = adapt(str(parent), str(data), tmp_path / "c", recipe=recipe(rows_per_step=1),
                  budget=Budget(steps=4))  # fmt: skip
    if settings != {"block_sizes": "growing"}:  # which follows the share of the budget
        adapt(str(parent), str(data), parts, recipe=chosen, budget=Budget(steps=4), resume=True)
        assert same(weights(whole), weights(parts))
    assert not same(weights(whole), weights(plain))
