"""The chat template of a checkpoint: from messages to token ids, in training as in decoding."""

from typing import Any

from jinja2 import TemplateError

from unmask.errors import ModelError, PromptError

Message = dict[str, Any]
"""`role` and `content`; `tool_calls` where the assistant calls tools."""


def render(
    messages: list[Message], tokenizer: Any, *, add_generation_prompt: bool,
    tools: list[dict[str, Any]] | None = None,
) -> list[int]:  # fmt: skip
    """Token ids of a conversation through the tokenizer's chat template.

    Args:
        messages: the turns.
        tokenizer: with a chat template.
        add_generation_prompt: end where the assistant is to speak.
        tools: what the assistant may call, as the template wants them described.

    Raises:
        ModelError: the tokenizer has no chat template.
        PromptError: the template refuses the conversation, such as a role it does not know.
    """
    if tokenizer.chat_template is None:
        raise ModelError("the tokenizer has no chat template; use --raw prompts or `text` rows")
    try:
        encoded = tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=add_generation_prompt, return_dict=True
        )
    except (TemplateError, ValueError) as error:
        raise PromptError(f"the chat template refuses the conversation: {error}") from error
    return list(encoded["input_ids"])
