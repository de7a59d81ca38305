"""`transformers.generate` as people run it: the denominator outside our own code."""

import time
from typing import Unpack

import torch

from unmask.decode.model import Generation, Model
from unmask.decode.options import OptionValues
from unmask.decode.stats import Nfe, tokens_per_forward
from unmask.decode.text import Prompt, encode_prompt


class TransformersBaseline:
    """Greedy decoding by the stock model with its own cache; prompts padded on the left."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name = model.name

    def generate(self, prompts: list[Prompt], **options: Unpack[OptionValues]) -> list[Generation]:
        """Answer conversations; of the options only the budget and `ignore_eos` matter."""
        tokenizer, started = self.model.tokenizer, time.perf_counter()
        encoded = [
            encode_prompt(
                prompt, tokenizer, raw=False, mask_token_id=None,
                max_positions=self.model.backbone.max_positions,
            )
            for prompt in prompts
        ]  # fmt: skip
        longest = max(map(len, encoded))
        pads = torch.tensor([longest - len(ids) for ids in encoded])
        ids = torch.tensor([[0] * (longest - len(ids)) + ids for ids in encoded])
        mask = (torch.arange(longest) >= pads[:, None]).long()
        ends = [] if options["ignore_eos"] else sorted(self.model.checkpoint.end_token_ids())
        room = self.model.backbone.max_positions - longest
        mask_token_id = self.model.backbone.mask_token_id
        with self.model.backbone.stock() as model, torch.inference_mode():
            output = model.generate(
                ids.to(model.device), attention_mask=mask.to(model.device), do_sample=False,
                max_new_tokens=min(options["max_new_tokens"], room), eos_token_id=ends or None,
                pad_token_id=0, repetition_penalty=1.0,
                suppress_tokens=None if mask_token_id is None else [mask_token_id],
            )  # fmt: skip
        seconds = time.perf_counter() - started
        answers = [until_end(row.tolist(), ends) for row in output[:, longest:]]
        return [
            self._generation(tokens, len(prompt), ends, seconds)
            for tokens, prompt in zip(answers, encoded, strict=True)
        ]

    def _generation(
        self, tokens: list[int], prompt_tokens: int, ends: list[int], seconds: float
    ) -> Generation:
        nfe = Nfe(prefill=1, commit=len(tokens) - 1)
        return Generation(
            text=self.model.tokenizer.decode(tokens, skip_special_tokens=True),
            token_ids=tokens,
            finish_reason="stop" if tokens[-1] in ends else "length",
            prompt_tokens=prompt_tokens,
            new_tokens=len(tokens),
            nfe=nfe,
            accepted=list(range(len(tokens))),
            tpf=tokens_per_forward(len(tokens), nfe),
            first_token_s=seconds,  # it hands out nothing before it is done
            seconds=seconds,
            tokens_per_s=len(tokens) / seconds,
            mode="transformers",
            seed=0,
        )


def until_end(tokens: list[int], ends: list[int]) -> list[int]:
    """Up to and including the first end token.

    >>> until_end([4, 2, 0, 0], [2])
    [4, 2]
    """
    places = [place for place, token in enumerate(tokens) if token in ends]
    return tokens[: places[0] + 1] if places else tokens
