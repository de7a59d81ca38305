"""What a training step costs, against the layout of published code: speed, memory, processes.

    python benchmarks/training.py smollm2                    # speed at L = 512
    python benchmarks/training.py smollm2 --memory           # peak memory at L = 2048
    python benchmarks/training.py smollm2 --processes        # two processes of one core each

The baseline is what Fast-dLLM v2's code does (arXiv:2509.26328): each of the two views with a clean
half of its own, 4 L tokens, and logits at all positions of the noisy half. Run nothing beside it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from unmask.core.backbone import Backbone
from unmask.core.denoiser import add_denoiser
from unmask.core.masks import Places, dense_mask
from unmask.core.noise.linear import Linear
from unmask.store.checkpoint import load_checkpoint
from unmask.store.vocabulary import add_mask_token
from unmask.train.chat import encode_row
from unmask.train.corrupt import complementary_masks
from unmask.train.objective import Objective, make_objective
from unmask.train.pack import PackedRow, Packer
from unmask.train.plan import flops_per_second
from unmask.train.recipe import Recipe
from unmask.train.source import open_source

REPEATS = 3


class Subject:
    """A model with one packed row and one objective."""

    def __init__(self, name: str, data: str, recipe: Recipe) -> None:
        checkpoint = load_checkpoint(name)
        self.recipe, self.model = recipe, checkpoint.model
        self.mask = add_mask_token(self.model, checkpoint.tokenizer)
        gate = None
        if recipe.context == "draft":
            gate = add_denoiser(
                self.model, rank=recipe.lora_rank, alpha=recipe.lora_alpha, mask_token_id=self.mask
            )
        if recipe.gradient_checkpointing:
            self.model.activation_checkpointing_enable({"use_reentrant": False})
            self.model.train()
        self.backbone = Backbone(self.model, mask_token_id=self.mask, gate=gate)
        self.objective: Objective = make_objective(self.backbone, recipe)
        source, ends = open_source(data, seed=0), checkpoint.end_token_ids()
        self.packer = Packer(
            lambda index: encode_row(source.row(index), checkpoint.tokenizer, ends, self.mask),
            row_tokens=recipe.row_tokens, block_size=recipe.block_size, mask_token_id=self.mask,
        )  # fmt: skip

    def step(self) -> tuple[int, int]:
        """Forward and backward of one row; terms of its loss and tokens computed."""
        row = self.objective.layout(self.packer.next_row, 1.0, torch.Generator().manual_seed(0))
        losses = self.objective(row)
        (losses[0] / row.labels).backward()
        self.model.zero_grad()
        return row.labels, len(row.tokens)

    def baseline_step(self) -> tuple[int, int]:
        """The same row in the layout of published code."""
        row = self.packer.next_row()
        loss, count = baseline_loss(self.backbone, row, self.recipe.block_size, self.mask)
        (loss / count).backward()
        self.model.zero_grad()
        return count, 4 * len(row.tokens)


def baseline_loss(
    backbone: Backbone, row: PackedRow, size: int, mask_token_id: int
) -> tuple[torch.Tensor, int]:
    """Two rows [view | clean], the head at every noisy position, shifted in the noisy half."""
    length, index = len(row.tokens), torch.arange(len(row.tokens))
    can_mask_NS = row.is_target.view(-1, size)
    views = complementary_masks(can_mask_NS, Linear(), torch.Generator().manual_seed(0))
    hidden = [view.flatten() for view in views]
    tokens = torch.stack([
        torch.cat([torch.where(is_hidden, mask_token_id, row.tokens), row.tokens])
        for is_hidden in hidden
    ])  # fmt: skip
    two = torch.cat([index, index])
    places = Places(row.document[two], two // size, (torch.arange(2 * length) < length).long(), two)
    mask = dense_mask(places[None], places[None], "block").expand(2, -1, -1, -1)
    states = backbone.hidden(tokens, row.position[two].expand(2, -1), mask)[:, :length]
    logits = backbone.logits(states)
    labels = torch.stack([torch.where(is_hidden, row.tokens, -100) for is_hidden in hidden])
    loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")
    return loss, int((labels[:, 1:] >= 0).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--data", default="gym:gsm_symbolic")
    parser.add_argument("--row-tokens", type=int, default=512)
    parser.add_argument("--block-size", type=int, default=32)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--one", choices=["ours", "published"], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(peak_memory(chosen))
    elif chosen.memory:
        for which in ("ours", "published"):
            command = [sys.executable, __file__, chosen.model, "--data", chosen.data,
                       "--one", which,
                       "--row-tokens", str(4 * chosen.row_tokens),
                       "--block-size", str(chosen.block_size)]  # fmt: skip
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            print(f"{which}, L = {4 * chosen.row_tokens}: {told.strip()}")
    elif chosen.processes:
        print(processes(chosen))
    else:
        speeds(chosen)


def make_recipe(chosen: argparse.Namespace, **settings) -> Recipe:
    size = {"block_size": chosen.block_size, "sub_block_size": min(8, chosen.block_size)}
    return Recipe(row_tokens=chosen.row_tokens, **{**size, **settings})


def speeds(chosen: argparse.Namespace) -> None:
    """Supervised tokens a second of each layout, and of a denoiser."""
    full = Subject(chosen.model, chosen.data, make_recipe(chosen))
    peak = flops_per_second(torch.device("cpu"))
    trunk = sum(p.numel() for p in full.backbone.decoder.parameters())
    trunk -= full.model.get_input_embeddings().weight.numel()
    report("published layout, 4 L, full head", full.baseline_step, 6 * trunk / peak)
    report("ours, 3 L", full.step, 6 * trunk / peak)
    for pairs in (2, 4):
        full.objective = make_objective(full.backbone, make_recipe(chosen, view_pairs=pairs))
        report(f"ours, {pairs} pairs of views", full.step, 6 * trunk / peak)
    drafts = {"context": "draft", "trainable": "lora", "windows": 48,
              "block_size": 8, "sub_block_size": 8}  # fmt: skip
    denoiser = Subject(chosen.model, chosen.data, make_recipe(chosen, **drafts))
    report("denoiser LoRA, windows of 8", denoiser.step, 4 * trunk / peak)


def report(name: str, step, seconds_per_token: float) -> None:
    step()
    started, targets, tokens = time.perf_counter(), 0, 0
    for _ in range(REPEATS):
        some, computed = step()
        targets, tokens = targets + some, tokens + computed
    spent = time.perf_counter() - started
    print(f"{name:34s} {targets / spent:7.1f} supervised tokens/s, {tokens / spent:7.1f} computed, "
          f"{tokens * seconds_per_token / spent:.0%} of the machine's matrix products in the trunk",
          flush=True)  # fmt: skip


def peak_memory(chosen: argparse.Namespace) -> str:
    """Of one step with gradient checkpointing, and of the process before it."""
    subject = Subject(chosen.model, chosen.data, make_recipe(chosen, gradient_checkpointing=True))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    subject.step() if chosen.one == "ours" else subject.baseline_step()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"{after:.1f} GiB at the peak of a step, {before:.1f} before it"


def processes(chosen: argparse.Namespace, steps: int = 3) -> str:
    """The same global steps by one process on one core, and by two on one core each."""
    speed = {}
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            command = [
                "taskset", "-c", f"0-{count - 1}", sys.executable, "-m", "torch.distributed.run",
                "--standalone", "--nproc-per-node", str(count), "-m", "unmask", "adapt",
                chosen.model, "--data", chosen.data, "--out", str(out), "--steps", str(steps),
                "--device", "cpu", "--quiet", "--set", "rows_per_step=4",
                "--set", f"row_tokens={chosen.row_tokens}",
                "--set", f"block_size={chosen.block_size}",
                "--set", f"sub_block_size={min(8, chosen.block_size)}",
            ]  # fmt: skip
            subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            lines = (out / "trainer" / "log.jsonl").read_text().splitlines()
            first, *others = [json.loads(line) for line in lines]
            spent = others[-1]["seconds"] - first["seconds"]
            speed[count] = sum(line["targets"] for line in others) / spent
    return (f"one process {speed[1]:.1f} supervised tokens/s, two {speed[2]:.1f}: "
            f"{speed[2] / speed[1] / 2:.0%} of what the cores allow")  # fmt: skip


if __name__ == "__main__":
    main()
