"""The chat template of a checkpoint: from messages to token ids, in training as in decoding."""

from typing import Any

from unmask.errors import ModelError

Message = dict[str, str]
"""`role` and `content`."""


def render(messages: list[Message], tokenizer: Any, *, add_generation_prompt: bool) -> list[int]:
    """Token ids of a conversation through the tokenizer's chat template.

    Raises:
        ModelError: the tokenizer has no chat template.
    """
    if tokenizer.chat_template is None:
        raise ModelError("the tokenizer has no chat template; use --raw prompts or `text` rows")
    encoded = tokenizer.apply_chat_template(
        messages, add_generation_prompt=add_generation_prompt, return_dict=True
    )
    return list(encoded["input_ids"])
