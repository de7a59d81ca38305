"""From a row to token ids and which of them are targets. Knows no block."""

import random
from dataclasses import dataclass
from typing import Any

from unmask.errors import DataError, PromptError
from unmask.store.chat import Message, render
from unmask.train.rows import Row


@dataclass(frozen=True, slots=True)
class Sample:
    """One document: token ids, and True where a token is to be learnt."""

    ids: list[int]
    is_target: list[bool]


def encode_row(
    row: Row, tokenizer: Any, end_token_ids: frozenset[int], mask_token_id: int | None = None
) -> Sample:
    """Tokenise a row; targets are what the assistant says up to and including its end of turn.

    Plain text is a target from its second token on: nothing stands before the first.

    Raises:
        DataError: nothing to learn, or the text of the mask token in it.
    """
    sample = _encode(row, tokenizer, end_token_ids)
    if mask_token_id is not None and mask_token_id in sample.ids:
        token = tokenizer.convert_ids_to_tokens(mask_token_id)
        raise DataError(f"{row.where} holds the mask token {token}; take it out")
    if not any(sample.is_target):
        raise DataError(f"{row.where} has nothing to learn: it is a single token")
    return sample


def cut_sample(sample: Sample, share: float, seed: str) -> Sample:
    """With probability `share` the sample up to a random target, at least one; else all of it.

    >>> len(cut_sample(Sample([1, 2, 3, 4], [False, True, True, True]), 1.0, "0/1").ids)
    3
    """
    drawn = random.Random(seed)
    if share == 0 or drawn.random() >= share:
        return sample
    kept = drawn.randrange(sample.is_target.index(True) + 1, len(sample.ids) + 1)
    return Sample(sample.ids[:kept], sample.is_target[:kept])


def _encode(row: Row, tokenizer: Any, end_token_ids: frozenset[int]) -> Sample:
    if row.messages is not None:
        try:
            sample = _encode_messages(row, row.messages, tokenizer, end_token_ids)
        except PromptError as error:
            raise DataError(f"{row.where}: {error}") from error
        if row.is_cut and sample.ids[-1] in end_token_ids:
            return Sample(sample.ids[:-1], sample.is_target[:-1])
        return sample
    ids = tokenizer(row.text)["input_ids"]
    if tokenizer.eos_token_id is not None:
        ids = [*ids, tokenizer.eos_token_id]
    return Sample(ids, [place > 0 for place in range(len(ids))])


def _encode_messages(
    row: Row, messages: list[Message], tokenizer: Any, end_token_ids: frozenset[int]
) -> Sample:
    """Render every prefix that ends before and after an assistant turn; the difference is it."""
    ids: list[int] = []
    is_target: list[bool] = []
    for turn, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = render(messages[:turn], tokenizer, add_generation_prompt=True, tools=row.tools)
        after = render(
            messages[: turn + 1], tokenizer, add_generation_prompt=False, tools=row.tools
        )
        if before[: len(ids)] != ids or after[: len(before)] != before:
            raise DataError(
                f"{row.where}: the chat template rewrites earlier turns, so what the assistant "
                "said cannot be told apart; use a template that only appends"
            )
        is_target += [False] * (len(before) - len(ids))
        is_target += [True] * _said(after[len(before) :], end_token_ids)
        is_target += [False] * (len(after) - len(is_target))
        ids = after
    last = max(place for place, target in enumerate(is_target) if target)
    return Sample(ids[: last + 1], is_target[: last + 1])


def _said(turn: list[int], end_token_ids: frozenset[int]) -> int:
    """Tokens up to and including the first end of turn; templates may add a newline after it."""
    ends = [place for place, token in enumerate(turn) if token in end_token_ids]
    return ends[0] + 1 if ends else len(turn)
