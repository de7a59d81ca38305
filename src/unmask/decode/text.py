"""Between text and tokens: prompts in, clean text out, stop texts in between."""

from typing import Any

from unmask.decode.engine import StopCheck
from unmask.errors import PromptError
from unmask.store.chat import Message, render

Prompt = str | list[Message]
"""One user turn, or a conversation."""


def encode_prompt(prompt: Prompt, tokenizer: Any, *, raw: bool, mask_token_id: int | None,
                  max_positions: int) -> list[int]:  # fmt: skip
    """Token ids of a prompt.

    Args:
        prompt: one user turn, or messages with role and content.
        tokenizer: the checkpoint's.
        raw: no chat template; the text as it is.
        mask_token_id: must not occur in the prompt.
        max_positions: the longest sequence the model can hold.

    Raises:
        PromptError: empty, too long, or holding the mask token.
    """
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        raise PromptError("the prompt is empty; say something")
    if raw:
        if not isinstance(prompt, str):
            raise PromptError("a raw prompt is one text, got a message list; leave --raw out")
        ids = list(tokenizer(prompt)["input_ids"])
    else:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        ids = render(messages, tokenizer, add_generation_prompt=True)
    if mask_token_id is not None and mask_token_id in ids:
        raise PromptError(
            f"the prompt holds the mask token {tokenizer.convert_ids_to_tokens(mask_token_id)}, "
            "which stands for a hidden token; take it out"
        )
    if len(ids) >= max_positions:
        raise PromptError(
            f"the prompt has {len(ids)} tokens, the model holds {max_positions} with the answer; "
            "shorten it"
        )
    return ids


def make_stop_check(stop: tuple[str, ...], tokenizer: Any) -> StopCheck | None:
    """A check that keeps the fewest tokens whose text holds a stop text; None without any."""
    if not stop:
        return None

    def check(tokens: list[int]) -> int | None:
        text = decode_tokens(tokens, tokenizer)
        if not any(each in text for each in stop):
            return None
        for count in range(1, len(tokens) + 1):
            if any(each in decode_tokens(tokens[:count], tokenizer) for each in stop):
                return count
        return None

    return check


def line_end_token_ids(tokenizer: Any) -> frozenset[int]:
    """The token that ends a line; none where the vocabulary has no single one."""
    ids = tokenizer("\n", add_special_tokens=False)["input_ids"]
    return frozenset(ids) if len(ids) == 1 else frozenset()


def decode_tokens(tokens: list[int], tokenizer: Any) -> str:
    """Text of tokens, without special ones."""
    return str(tokenizer.decode(tokens, skip_special_tokens=True))


def cut_at_stop(text: str, stop: tuple[str, ...]) -> str:
    """Text before the first stop text.

    >>> cut_at_stop("four. Next", (". ",))
    'four'
    """
    places = [text.find(each) for each in stop if each in text]
    return text[: min(places)] if places else text


def settled(text: str, stop: tuple[str, ...]) -> str:
    """The part of a growing text that later tokens cannot change.

    Held back: a broken multi-byte character at the end, and what may be the start of a stop text.

    >>> settled("the EN", ("END",))
    'the '
    """
    text = cut_at_stop(text, stop).rstrip("\ufffd")
    longest = 0
    for each in stop:
        sizes = range(1, min(len(each), len(text)) + 1)
        longest = max([longest, *(size for size in sizes if each.startswith(text[-size:]))])
    return text[: len(text) - longest]
