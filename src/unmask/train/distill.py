"""Self-distillation data: a model answers prompts, so that a denoiser can learn its own text.

One line a prompt, in order, written as it is answered; a run that was cut short goes on behind its
last whole line.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

from unmask.decode.model import Model
from unmask.decode.options import OptionValues
from unmask.errors import DataError, PromptError
from unmask.store.chat import Message
from unmask.train.rows import numbered, read_lines
from unmask.train.source import open_source, split_data, take_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """What a call of `distill` did."""

    rows: int
    """Lines in the file."""
    new_rows: int
    cut: int
    """New answers that ended at the budget; their rows say so, and teach no end of turn."""


def read_prompts(data: str, count: int | None, *, seed: int = 0) -> list[list[Message]]:
    """Conversations to be answered, in order.

    Args:
        data: `file.jsonl` with `prompt` or `messages` (an answer at the end is left out), or
            `gym:NAME`, or several with commas.
        count: how many; None = all of a file.
        seed: of gym tasks.

    Raises:
        DataError: a row with neither, or no count for an endless source.
    """
    names = split_data(data)
    if len(names) > 1:
        return take_turns([read_prompts(name, count, seed=seed) for name in names])[:count]
    if data.startswith("gym:"):
        if count is None:
            raise DataError(f"{data} has no end; say how many prompts with --limit")
        source = open_source(data, seed=seed)
        rows = (source.row(index).messages for index in range(count))
        return [messages[:-1] for messages in rows if messages]
    path = Path(data)
    rows_there = islice(numbered(path, read_lines(path)), count)
    return [_prompt(line, where) for where, line in rows_there]


def _prompt(line: str, where: str) -> list[Message]:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error}") from error
    match values:
        case {"prompt": str(prompt)} if prompt.strip():
            return [{"role": "user", "content": prompt}]
        case {"messages": [*messages, {"role": "assistant"}]} if messages:
            return list(messages)
        case {"messages": [*messages]} if messages:
            return list(messages)
    raise DataError(f"{where} has no known field; expected prompt, or messages")


def distill(
    model: Model,
    prompts: list[list[Message]],
    out: Path,
    *,
    batch_size: int = 8,
    on_share: Callable[[float], None] = lambda _share: None,
    **options: Unpack[OptionValues],
) -> Distilled:
    """Let `model` answer `prompts` into the JSON Lines file `out`; goes on where it stopped.

    Raises:
        DataError: a prompt does not fit the model, `out` holds answers to other prompts, or cannot
            be written; nothing is answered then.
    """
    for number, messages in enumerate(prompts, start=1):
        try:
            model.encode(messages)
        except PromptError as error:
            raise DataError(f"prompt {number}: {error}") from error
    done, cut = _rows_there(out, prompts), 0
    with out.open("a", encoding="utf-8") as file:
        for first in range(done, len(prompts), batch_size):
            rows = _answer(model, prompts[first : first + batch_size], options)
            cut += sum("is_cut" in row for row in rows)
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            file.flush()
            on_share(min(1.0, (first + batch_size) / len(prompts)))
    return Distilled(rows=len(prompts), new_rows=len(prompts) - done, cut=cut)


def _answer(
    model: Model, batch: list[list[Message]], options: OptionValues
) -> list[dict[str, Any]]:
    answers = model.generate(batch, **options)  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = []
    for messages, answer in zip(batch, answers, strict=True):
        is_cut = answer.finish_reason == "length"
        text = answer.text.rstrip("\ufffd") if is_cut else answer.text  # half a character
        row: dict[str, Any] = {"messages": [*messages, {"role": "assistant", "content": text}]}
        rows.append({**row, "is_cut": True} if is_cut else row)
    return rows


def _rows_there(out: Path, prompts: list[list[Message]]) -> int:
    """How many prompts `out` has answers to; a last line without its end is taken out."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        text = out.read_bytes() if out.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            with out.open("r+b") as file:
                file.truncate(len(whole))
        rows = [json.loads(line) for line in whole.splitlines()]
        asked = [row["messages"][:-1] for row in rows]
    except OSError as error:
        raise DataError(f"cannot write to {out}: {error}") from error
    except (ValueError, KeyError, TypeError):
        asked = [[]]
    if asked != prompts[: len(asked)]:
        raise DataError(f"{out} holds answers to other prompts; choose another file")
    return len(asked)
