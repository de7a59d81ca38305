"""`Row`: one training example, and the ways of writing it down."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from unmask.errors import ConfigError, DataError
from unmask.store.chat import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One training example as a person would write it: a conversation, or plain text."""

    where: str
    """File and line, or task and seed: for messages about this row."""
    messages: list[Message] | None = None
    tools: list[dict[str, Any]] | None = None
    """Tools that the assistant may call."""
    text: str | None = None
    is_cut: bool = False
    """The last answer stops short: it has no end of turn to learn."""


def read_lines(path: Path) -> list[str]:
    """Lines of a JSON Lines file, blank ones included.

    Raises:
        DataError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    return text.split("\n")  # not at U+2028 inside a string


def numbered(path: Path, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each line that is not blank, behind the file and number that messages name it by."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{path}:{number}", line


def parse_row(line: str, where: str) -> Row:
    """One line of JSON Lines: `messages`, or `prompt` + `response`, or `text`.

    Raises:
        DataError: not JSON, or none of these fields; names file and line.

    >>> parse_row('{"prompt": "1+1?", "response": "2"}', "a.jsonl:1").messages[1]["content"]
    '2'
    """
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error}") from error
    return row_from(values, where)


def row_from(values: Any, where: str) -> Row:
    """A row by the fields it has: `messages`, or `prompt` + `response`, or `text`.

    Raises:
        DataError: none of these; names where.
    """
    match values:
        case {"messages": [*messages]} if messages and all(map(_is_message, messages)):
            is_cut = values.get("is_cut") is True
            tools = values.get("tools") or None
            return Row(where=where, messages=_checked(messages, where), tools=tools, is_cut=is_cut)
        case {"prompt": str(prompt), "response": str(response)}:
            return Row(where=where, messages=conversation(prompt, response))
        case {"text": str(text)} if text:
            return Row(where=where, text=text)
    raise DataError(
        f"{where} has no known field; expected messages (with role and content), "
        "prompt + response, or text"
    )


def _checked(messages: list[Message], where: str) -> list[Message]:
    roles = [message["role"] for message in messages]
    if "assistant" not in roles[1:] or roles[0] == "assistant":
        raise DataError(f"{where} has no assistant turn to learn, after one by somebody else")
    return messages


def _is_message(value: Any) -> bool:
    match value:
        case {"role": str(), "content": str()}:
            return True
        case {"role": "assistant", "tool_calls": [_, *_]}:  # it may say nothing beside them
            return True
    return False


def conversation(prompt: str, response: str) -> list[Message]:
    """One user turn and its answer."""
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]


def parse_settings(query: str) -> dict[str, Any]:
    """Settings behind the ? of a source.

    >>> parse_settings("min_words=3&words=[1, 2]&name=abc")
    {'min_words': 3, 'words': [1, 2], 'name': 'abc'}
    """
    settings: dict[str, Any] = {}
    try:
        pairs = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError as error:
        raise ConfigError(f"settings are written key=value&key=value: {error}") from error
    for name, text in pairs:
        try:
            settings[name] = json.loads(text)
        except json.JSONDecodeError:
            settings[name] = text
    return settings


def shuffled(count: int, seed: str) -> list[int]:
    """0 … count - 1 in an order of the seed's own."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order
