"""Our decoder against a plain one, at one token a step: the same model, prompts and forwards.

    python benchmarks/plain_decoder.py runs/block [--prompts 3] [--new-tokens 64]

The plain one does what published code for block diffusion does (Fast-dLLM v2, arXiv:2509.26328):
the stock model with a cache that grows by concatenation, all logits of the open block at each step,
a forward of its own for every commit, with the paper's sub-block cache and without. Where no
policy is approximate its answers must be ours. Run nothing beside it.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from unmask.decode.model import Model, load
from unmask.evals.problems import load_problems


class PlainDecoder:
    """Greedy, one row, token shift, one token a step: the most confident of a sub-block."""

    def __init__(self, model: Model, stock: Any, *, has_sub_block_cache: bool) -> None:
        assert model.config is not None, "a checkpoint with unmask.json"
        assert model.config.read_offset, "a checkpoint with token shift"
        self.config, self.stock = model.config, stock
        self.has_sub_block_cache = has_sub_block_cache
        self.forwards = self.tokens = 0

    @torch.inference_mode()
    def __call__(self, prompt: list[int], new_tokens: int) -> list[int]:
        """New tokens to the end of the block that has the last one wanted; none of them ends it."""
        size, mask = self.config.block_size, self.config.mask_token_id
        self.cache = DynamicCache()
        whole = len(prompt) // size * size
        tokens = list(prompt)
        if whole:
            places = torch.arange(whole)
            seen = places[None, :] // size <= places[:, None] // size
            logits = self._forward(tokens[:whole], 0, seen[None, None])
            if whole == len(prompt):
                tokens.append(int(logits[-1].argmax()))
        while len(tokens) < len(prompt) + new_tokens:
            start = len(tokens) // size * size
            block = tokens[start:] + [mask] * (size - len(tokens) + start)
            self._denoise(block, start)
            logits = self._forward(block, start)  # the commit
            tokens[start:] = [*block, int(logits[-1].argmax())]
        self.tokens += len(tokens) - len(prompt)
        return tokens[len(prompt) :]

    def _denoise(self, block: list[int], start: int) -> None:
        sub, mask = self.config.sub_block_size, self.config.mask_token_id
        is_fresh = True
        for first in range(0, len(block), sub):
            while mask in block[first : first + sub]:
                is_whole = is_fresh or not self.has_sub_block_cache or block[first] == mask
                logits = self._whole(block, start) if is_whole else self._part(block, start, first)
                is_fresh = False
                # Token i is read one before; what the first of all is read from is never used.
                logits = torch.cat([logits[:1], logits[:-1]])
                logits = logits[first : first + sub] if is_whole else logits
                logits[:, mask] = float("-inf")
                confidence, chosen = logits.softmax(-1).max(-1)
                is_hidden = torch.tensor([token == mask for token in block[first : first + sub]])
                best = int(confidence.where(is_hidden, torch.tensor(-1.0)).argmax())
                block[first + best] = int(chosen[best])

    def _whole(self, block: list[int], start: int) -> Tensor:
        """All of the block; what it adds to the cache goes again, unless parts may read it."""
        self._keep(start)
        logits = self._forward(block, start)
        if not self.has_sub_block_cache:
            self._keep(start)
        return logits

    def _part(self, block: list[int], start: int, first: int) -> Tensor:
        """One sub-block, over the keys and values of the rest of the block as they were."""
        sub = self.config.sub_block_size
        before = [(layer.keys, layer.values) for layer in self.cache.layers]
        logits = self._forward(block[first : first + sub], start + first, is_inside=True)
        for layer, (keys, values) in zip(self.cache.layers, before, strict=True):
            layer.keys, layer.values = keys, values
        return logits

    def _keep(self, length: int) -> None:
        for layer in self.cache.layers:
            if layer.is_initialized:
                layer.keys, layer.values = layer.keys[:, :, :length], layer.values[:, :, :length]

    def _forward(
        self, tokens: list[int], start: int, seen: Tensor | None = None, *, is_inside: bool = False
    ) -> Tensor:
        """Logits of all tokens. Inside a block, its own old keys are hidden from it."""
        self.forwards += 1
        count = len(tokens)
        past = self.cache.get_seq_length()
        if not is_inside and past > start:
            self._keep(start)
            past = start
        if seen is None:
            seen = torch.ones(1, 1, count, past + count, dtype=torch.bool)
            if is_inside:
                seen[..., start : start + count] = False
        return self.stock(  # type: ignore[no-any-return]
            input_ids=torch.tensor([tokens]), attention_mask=seen,
            position_ids=torch.arange(start, start + count)[None],
            cache=self.cache, use_cache=True,
        ).logits[0]  # fmt: skip


def main() -> None:
    """Print tokens/s of both, and how many answers are the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--data", default="gym:gsm_symbolic")
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--new-tokens", type=int, default=64)
    chosen = parser.parse_args()
    model = load(chosen.model)
    problems = load_problems(chosen.data, chosen.prompts, seed=0)
    for cache in ("block", "dual-reference", "dual"):
        print(compare(model, [problem.messages for problem in problems], chosen.new_tokens, cache))


def compare(model: Model, prompts: list[Any], new_tokens: int, cache: str) -> str:
    """A line on one of our cache policies and what the plain decoder does about it."""
    options: Any = {"threshold": 1.0, "ignore_eos": True, "max_new_tokens": new_tokens}
    ours_s, ours = timed(
        lambda prompt: model.generate([prompt], cache=cache, **options)[0], prompts
    )
    with model.backbone.stock() as stock:
        plain = PlainDecoder(model, stock, has_sub_block_cache=cache != "block")
        plain_s, theirs = timed(lambda prompt: plain(model.encode(prompt), new_tokens), prompts)
    speed, plain_speed = len(prompts) * new_tokens / ours_s, sum(map(len, theirs)) / plain_s
    same = sum(a.token_ids == b[:new_tokens] for a, b in zip(ours, theirs, strict=True))
    nfe = sum(answer.nfe.total for answer in ours)
    return (
        f"{cache:15s}{speed:6.1f} tokens/s, {new_tokens * len(prompts) / nfe:.2f} a forward; plain "
        f"{plain_speed:6.1f}, {plain.tokens / plain.forwards:.2f}; {speed / plain_speed:.2f}x; "
        f"{same} of {len(prompts)} answers equal"
    )


def timed(answer: Callable[[Any], Any], prompts: list[Any]) -> tuple[float, list[Any]]:
    """Seconds for all prompts, and the answers; one more runs before the clock does."""
    answer(prompts[0])
    started = time.perf_counter()
    answers = [answer(prompt) for prompt in prompts]
    return time.perf_counter() - started, answers


if __name__ == "__main__":
    main()
