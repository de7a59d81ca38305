"""The command line as a contract: exit codes, one-line errors, JSON on stdout."""

import json
import subprocess
import sys

import pytest

from unmask.cli.bench import operating_points
from unmask.cli.main import main

SMALL = ["--set", "block_size=8", "--set", "sub_block_size=4", "--set", "row_tokens=64",
         "--set", "rows_per_step=1"]  # fmt: skip


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command line in this process: (exit code, stdout, stderr)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["unmask", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return call


def as_json(result):
    code, out, err = result
    assert code == 0, err
    assert out.count("\n") == 1
    return json.loads(out)


def test_help_does_not_import_torch():
    code = "import sys, unmask.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_generate_json_has_the_promised_fields(run, adapted):
    answer = as_json(run("generate", adapted, "hello", "--max-new-tokens", 9, "--json"))
    assert set(answer) == {
        "text", "token_ids", "finish_reason", "prompt_tokens", "new_tokens", "nfe", "tpf",
        "seconds", "tokens_per_s", "mode", "seed", "accepted", "first_token_s",
    }  # fmt: skip
    assert set(answer["nfe"]) == {"prefill", "denoise", "commit"}
    assert answer["new_tokens"] == len(answer["token_ids"])


def test_watching_does_not_change_the_answer(run, adapted):
    plain = as_json(run("generate", adapted, "hello", "--max-new-tokens", 9, "--json"))
    watched = as_json(run("generate", adapted, "hello", "--max-new-tokens", 9, "--json", "--watch"))
    assert watched["token_ids"] == plain["token_ids"]


def test_generate_ar_works_on_a_parent(run, parent):
    code, out, _ = run("generate", parent, "hello", "--mode", "ar", "--max-new-tokens", 5, "-q")
    assert code == 0
    assert out.strip()


def test_an_axis_multiplies_only_the_strategies_that_heed_it():
    axes = {"strategy": ["threshold", "entropy", "factor", "prophet"], "cache": ["block"],
            "block_size": [None], "sub_block_size": [None], "threshold": [0.9, 0.8], "k": [1],
            "factor": [1.0, 2.0, 3.0], "gamma": [0.1, 0.2]}  # fmt: skip
    points = [chosen for _, chosen in operating_points(["ar", "diffusion"], axes, {"seed": 3})]
    assert [(p.strategy, p.threshold, p.gamma, p.factor) for p in points[1:]] == [
        ("threshold", 0.9, 0.1, 1.0), ("threshold", 0.8, 0.1, 1.0),
        ("entropy", 0.9, 0.1, 1.0), ("entropy", 0.9, 0.2, 1.0),
        ("factor", 0.9, 0.1, 1.0), ("factor", 0.9, 0.1, 2.0), ("factor", 0.9, 0.1, 3.0),
        ("prophet", 0.9, 0.1, 1.0),
    ]  # fmt: skip


def test_adapt_then_verify_then_inspect_then_bench(run, parent, data, tmp_path):
    out = tmp_path / "out"
    made = as_json(
        run("adapt", parent, "--data", data, "--out", out, "--steps", 2, "--json", *SMALL)
    )
    assert made["steps"] == 2
    assert made["plan"]["supervised_tokens"] > 0
    code, text, _ = run("verify", out)
    assert code == 0
    assert text.count("holds") == 14
    assert as_json(run("verify", out, "--json"))["holds"]
    facts = as_json(run("inspect", out, "--json"))
    assert facts["regime"]["block_size"] == 8
    assert facts["can"]["diffusion"] == "yes"
    results = tmp_path / "results.json"
    rows = data.parent / "rows.jsonl"
    rows.write_text("\n".join(data.read_text().splitlines()[:2]))
    bench = as_json(run("bench", out, "--data", rows, "--limit", 2, "--max-new-tokens", 6,
                        "--batch-sizes", "1,2", "--thresholds", "1.0,0.5", "--out", results,
                        "--json"))  # fmt: skip
    assert [(c["mode"], c["batch_size"]) for c in bench["cells"]] == [
        ("ar", 1), ("ar", 2), ("diffusion", 1), ("diffusion", 1), ("diffusion", 2), ("diffusion", 2)
    ]  # fmt: skip
    assert bench == json.loads(results.read_text())
    assert bench["cells"][0]["ratio"] == 1.0
    picture = tmp_path / "results.svg"
    assert as_json(run("plot", results, "--out", picture, "--json"))["cells"] == 6
    assert "quality and speed" in picture.read_text()
    assert "TPF =" in bench["definitions"]


def test_a_denoiser_from_its_parents_own_answers(run, parent, data, tmp_path):
    """Distil, adapt, verify, inspect, generate, bench: lossless decoding by the command line."""
    asked, own, out = tmp_path / "asked.jsonl", tmp_path / "own.jsonl", tmp_path / "out"
    asked.write_text("".join(f'{{"prompt": "say {word}"}}\n' for word in ("a", "bc", "def")))
    told = as_json(run("distill", parent, "--prompts", asked, "-o", own, "--max-new-tokens", 12,
                       "--json"))["told"]  # fmt: skip
    assert (told["rows"], told["new_rows"]) == (3, 3)
    made = as_json(run("adapt", parent, "--data", own, "--out", out, "--recipe", "denoiser_lora",
                       "--steps", 2, "--set", "lora_rank=2", "--json"))  # fmt: skip
    assert made["plan"]["supervised_tokens"] > 0
    code, text, _ = run("verify", out)
    assert code == 0
    assert text.count("holds") == 7
    facts = as_json(run("inspect", out, "--json"))
    assert (facts["regime"]["context"], facts["can"]["speculative"]) == ("draft", "yes")
    assert facts["can"]["diffusion"].startswith("no: ")
    few = ["--max-new-tokens", 9, "--json"]
    answers = [as_json(run("generate", model, "hello", "--mode", mode, *few))
               for model, mode in ((out, "speculative"), (out, "ar"), (parent, "ar"))]  # fmt: skip
    assert answers[0]["token_ids"] == answers[1]["token_ids"] == answers[2]["token_ids"]
    assert as_json(run("generate", out, "hello", *few))["mode"] == "speculative"
    cells = as_json(run("bench", out, "--data", own, "--limit", 2, *few))["cells"]
    assert [(cell["mode"], cell["drift"]) for cell in cells] == [("ar", None), ("speculative", 0.0)]


def test_demo_is_one_json_object_and_says_that_nothing_drifts(run, parent, tmp_path, monkeypatch):
    from unmask.cli import demo
    from unmask.train.adapt import adapt
    from unmask.train.loop import Budget
    from unmask.train.recipe import Recipe

    chosen = Recipe(context="draft", trainable="lora", lora_rank=2, block_size=4, sub_block_size=4,
                    row_tokens=400, rows_per_step=1)  # fmt: skip
    out = adapt(str(parent), demo.DENOISER_DATA, tmp_path / "draft", recipe=chosen,
                budget=Budget(steps=1))  # fmt: skip
    monkeypatch.setattr(demo, "DENOISER", str(out))
    monkeypatch.setattr(demo, "PARENT", str(parent))
    few = ["--minutes", "0", "--problems", 1, "--max-new-tokens", 6, "--out", tmp_path / "mine"]
    told = as_json(run("demo", *few, "--json"))
    assert [(c["mode"], c["drift"]) for c in told["lossless"]] == [("ar", None), ("speculative", 0)]
    assert "cells" not in told  # nothing adapted yet
    code, text, _ = run("demo", *few)
    assert code == 0
    assert text.count("speculative") == 1


def test_verify_exits_with_one_when_a_promise_is_broken(run, adapted, monkeypatch):
    from unmask.core.backbone import Backbone

    monkeypatch.setattr(Backbone, "logits", lambda self, hidden: self.head(hidden).float())
    code, text, _ = run("verify", adapted)
    assert code == 1
    assert "BROKEN" in text


def test_chat_keeps_the_conversation(run, adapted, monkeypatch):
    from rich.console import Console

    said = iter(["hi", "hi", "", "hi", "x" * 600])

    def answer(*_args, **_kwargs):
        try:
            return next(said)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(Console, "input", answer)
    code, out, err = run("chat", adapted, "--max-new-tokens", 4, "--json")
    assert code == 0
    turns = [json.loads(line) for line in out.splitlines()]
    assert len(turns) == 3  # the long line is refused and the conversation goes on
    assert turns[1]["prompt_tokens"] > turns[0]["prompt_tokens"] == turns[2]["prompt_tokens"]
    assert "new conversation" in err
    assert "an empty line starts a new conversation" in err


BAD = [
    (["generate", "nowhere", "hi"], "nor one of smollm2"),
    (["generate", "PARENT", "hi"], "unmask adapt"),
    (["generate", "ADAPTED", "hi", "--sub-block-size", "3"], "does not divide"),
    (["generate", "ADAPTED", "hi", "--threshold", "0"], "threshold must be"),
    (["generate", "ADAPTED", "hi", "--threshold", "1.1"], "threshold must be"),
    (["generate", "ADAPTED", ""], "prompt is empty"),
    (["generate", "ADAPTED", "x" * 600], "shorten it"),
    (["generate", "ADAPTED", "hi", "--strategy", "treshold"], "did you mean 'threshold'"),
    (["generate", "ADAPTED", "hi", "--cache", "blok"], "did you mean 'block'"),
    (["generate", "ADAPTED", "hi", "--mode", "fast"], "unknown mode"),
    (["generate", "ADAPTED", "hi", "--device", "cuda:9"], "device 'cuda:9'"),
    (["generate", "ADAPTED", "hi", "--dtype", "int3"], "unknown dtype"),
    (["adapt", "PARENT", "--data", "gym:gsm_symbolik", "--out", "OUT"], "gsm_symbolic"),
    (["adapt", "PARENT", "--data", "missing.jsonl", "--out", "OUT"], "cannot read"),
    (["adapt", "PARENT", "--data", "BROKEN", "--out", "OUT"], "broken.jsonl:1 is not JSON"),
    (["adapt", "PARENT", "--data", "DATA", "--out", "OUT", "--recipe", "x"], "unknown recipe"),
    (["adapt", "PARENT", "--data", "DATA", "--out", "OUT", "--set", "steps"], "key=value"),
    (["adapt", "PARENT", "--data", "DATA", "--out", "OUT", "--set", "stps=1"], "steps"),
    (["adapt", "PARENT", "--data", "DATA", "--out", "OUT", "--steps", "0"], "above 0"),
    (["adapt", "PARENT", "--data", "DATA", "--out", "OUT", "--resume"], "nothing to resume"),
    (["adapt", "PARENT", "--data", "LONG", "--out", "OUT", *SMALL], "longer than row_tokens"),
    (["bench", "ADAPTED", "--thresholds", "a"], "--thresholds expects numbers"),
    (["bench", "ADAPTED", "--batch-sizes", "0"], "above 0"),
    (["bench", "ADAPTED", "--factors", "b"], "--factors expects numbers"),
    (["bench", "ADAPTED", "--gammas", "0"], "--gammas must be above 0"),
    (["bench", "ADAPTED", "--limit", "0"], "--limit"),
    (["bench", "ADAPTED", "--repeats", "0"], "--repeats"),
    (["bench", "ADAPTED", "--strategies", "topk,gready"], "unknown strategy"),
    (["bench", "ADAPTED", "--cache", "blok"], "did you mean 'block'"),
    (["generate", "ADAPTED", "hi", "--k", "0"], "k must be at least 1"),
    (["generate", "ADAPTED", "hi", "--gamma", "-1"], "gamma must be at least 0"),
    (["generate", "ADAPTED", "hi", "--quantize", "int9"], "did you mean 'int8'"),
    (["bench", "ADAPTED", "--limit", "2", "--batch-sizes", "1,4"], "use up to 2"),
    (["bench", "ADAPTED", "--strategies", "prophet", "--cache", "dual"], "use cache block"),
    (["generate", "NOWHERE", "hi", "--strategy", "treshold"], "did you mean 'threshold'"),
    (["generate", "NOWHERE", "hi", "--compile", "--quantize", "int8"], "choose one"),
    (["plot", "NOWHERE"], "cannot read"),
    (["plot", "DATA"], "cannot read"),
    (["plot", "DATA", "--out", "picture.txt"], "must end in"),
    (["bench", "ADAPTED", "--modes", "art", "--data", "DATA"], "unknown mode"),
    (["demo", "--minutes", "-1"], "--minutes"),
    (["generate", "ADAPTED", "hi", "--mode", "speculative"], "cannot verify its own drafts"),
    (["generate", "ADAPTED", "hi", "--draft-length", "-1"], "draft_length must be"),
    (
        [
            "adapt",
            "PARENT",
            "--data",
            "DATA",
            "--out",
            "OUT",
            "--recipe",
            "denoiser_lora",
            "--set",
            "trainable=full",
        ],
        "needs trainable lora",
    ),
    (["distill", "PARENT", "--prompts", "BROKEN", "-o", "OUT"], "broken.jsonl:1 is not JSON"),
    (["distill", "PARENT", "--prompts", "gym:gsm_symbolic", "-o", "OUT"], "--limit"),
    (["distill", "PARENT", "--prompts", "DATA", "-o", "OUT", "--limit", "0"], "--limit"),
    (["distill", "PARENT", "--prompts", "missing.jsonl", "-o", "OUT"], "cannot read"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=lambda value: str(value)[:60])
def test_bad_input_is_one_line_and_exit_code_two(run, parent, adapted, data, tmp_path, arguments,
                                                 message):  # fmt: skip
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{oops\n")
    long = tmp_path / "long.jsonl"
    long.write_text(json.dumps({"text": "x" * 200}) + "\n")
    places = {"PARENT": parent, "ADAPTED": adapted, "DATA": data, "BROKEN": broken, "LONG": long,
              "OUT": tmp_path / "out"}  # fmt: skip
    code, out, err = run(*(places.get(a, a) for a in arguments))
    assert code == 2
    assert out == ""
    line = err.strip().splitlines()[-1]
    assert line.startswith("unmask: ")
    assert message in line
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_order_of_decoding_with_its_picture(run, adapted, data, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "say red", "response": "red"}\n' * 3)
    picture = tmp_path / "order.png"
    common = ("order", adapted, "--data", rows, "--limit", 3, "--max-new-tokens", 12)
    told = as_json(run(*common, "--out", picture, "--json"))
    assert 0 <= told["local"] <= 1
    assert told["answers"] == len(told["local_each"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    at_random = as_json(run(*common, "--strategy", "random", "--json"))
    assert at_random["orders"] != told["orders"]
    code, _, err = run(*common, "--out", tmp_path / "order.gif")
    assert code == 2
    assert "must end in" in err


def test_a_training_run_as_a_picture(run, parent, data, tmp_path):
    out = tmp_path / "run"
    run("adapt", parent, "--data", data, "--out", out, "--steps", 3, "--quiet", *SMALL)
    told = as_json(run("plot", out, "--json"))
    assert told == {"out": str(tmp_path / "run.png"), "steps": 3}
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = run("plot", tmp_path)
    assert code == 2
    assert "holds no log of training" in err
    (out / "trainer" / "log.jsonl").write_text("half a li")
    assert "is damaged" in run("plot", out)[2]
