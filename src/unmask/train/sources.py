"""DATA: where training rows come from. A source is indexable for ever, in a fixed order."""

import hashlib
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from unmask.errors import ConfigError, DataError, MissingExtraError, unknown_name
from unmask.store.chat import Message

T = TypeVar("T")

EVALUATION_OFFSET = 2**40
"""Gym seeds below it are for training, from it on for evaluation."""
SEED_STRIDE = 2**20
"""Gym rows kept apart for each seed."""
MAX_SEED = 2**16
"""Seeds from it on would run from training into evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One training example as a person would write it: a conversation, or plain text."""

    where: str
    """File and line, or task and seed: for messages about this row."""
    messages: list[Message] | None = None
    text: str | None = None
    is_cut: bool = False
    """The last answer stops short: it has no end of turn to learn."""


class Source(Protocol):
    """Rows in a fixed order that never ends; a finite source is shuffled anew each epoch."""

    name: str
    size: int | None
    """Rows in one epoch; None for procedural data."""
    fingerprint: str
    """Changes when the rows do."""

    def row(self, index: int) -> Row:
        """The row at `index` ≥ 0."""
        ...


def open_source(data: str, *, seed: int) -> Source:
    """The source that DATA names: `file.jsonl` or `gym:NAME`; several, with commas, take turns.

    Raises:
        DataError: missing file, broken row, nothing in it.
        ConfigError: no gym task of this name.
    """
    names = split_data(data)
    if len(names) > 1:
        return MixedSource([open_source(name, seed=seed) for name in names])
    if data.startswith("gym:"):
        return GymSource(data, seed=seed)
    if data.endswith((".jsonl", ".json")) or Path(data).exists():
        return JsonlSource(Path(data), seed=seed)
    raise DataError(f"no data '{data}': use a file.jsonl or gym:NAME, such as gym:gsm_symbolic")


def split_data(data: str) -> list[str]:
    """The sources that DATA names; a file that is there is one, whatever its name.

    >>> split_data("a.jsonl, gym:x?words=[1, 2]")
    ['a.jsonl', 'gym:x?words=[1, 2]']
    """
    if Path(data).exists():
        return [data]
    return [name.strip() for name in re.split(r",(?![^\[]*\])", data)]


def take_turns(lists: list[list[T]]) -> list[T]:
    """First of each, second of each, …; one that has ended is passed over.

    >>> take_turns([[1, 2, 3], [7]])
    [1, 7, 2, 3]
    """
    longest = max(map(len, lists))
    return [each[turn] for turn in range(longest) for each in lists if turn < len(each)]


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


class JsonlSource:
    """Rows of a JSON Lines file, all read and checked before anything else starts."""

    def __init__(self, path: Path, *, seed: int) -> None:
        self.name, self._seed = str(path.resolve()), seed
        lines = read_lines(path)
        self.rows = [parse_row(line, where) for where, line in numbered(path, lines)]
        if not self.rows:
            raise DataError(f"{path} has no rows")
        self.size: int | None = len(self.rows)
        self.fingerprint = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        self._epoch, self._order = 0, self._shuffled(0)

    def row(self, index: int) -> Row:
        """The row at `index`; each epoch has its own order."""
        epoch, place = divmod(index, len(self.rows))
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        return self.rows[self._order[place]]

    def _shuffled(self, epoch: int) -> list[int]:
        order = list(range(len(self.rows)))
        random.Random(f"{self._seed}/{epoch}").shuffle(order)
        return order


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
    match values:
        case {"messages": [*messages]} if messages and all(map(_is_message, messages)):
            is_cut = values.get("is_cut") is True
            return Row(where=where, messages=_checked(messages, where), is_cut=is_cut)
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
    return False


def conversation(prompt: str, response: str) -> list[Message]:
    """One user turn and its answer."""
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]


class MixedSource:
    """Sources that take turns, row by row; each goes on for ever."""

    size: int | None = None

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self.name = ",".join(source.name for source in sources)
        self.fingerprint = ", ".join(source.fingerprint for source in sources)

    def row(self, index: int) -> Row:
        """The row at `index`."""
        turn, which = divmod(index, len(self._sources))
        return self._sources[which].row(turn)


class GymSource:
    """Procedural problems with worked answers from reasoning-gym (Apache-2.0), without end.

    `gym:NAME`, or with the task's own settings `gym:NAME?key=value&key=value`.
    """

    size: int | None = None

    def __init__(self, data: str, *, seed: int = 0, evaluation: bool = False) -> None:
        try:
            import reasoning_gym
            from reasoning_gym.factory import DATASETS
        except ImportError as error:
            raise MissingExtraError(
                f'{data} needs reasoning-gym: pip install "unmask[demo]"'
            ) from error
        self.name, (task, _, query) = data, data.removeprefix("gym:").partition("?")
        self.fingerprint = f"{data}, reasoning-gym {version('reasoning-gym')}"
        if task not in DATASETS:
            raise ConfigError(unknown_name("gym task", task, DATASETS))
        if not 0 <= seed < MAX_SEED:
            raise ConfigError(f"a gym seed must be in 0 … {MAX_SEED - 1}, got {seed}")
        first = EVALUATION_OFFSET if evaluation else 0
        try:
            self._dataset = reasoning_gym.create_dataset(
                task, seed=first + seed * SEED_STRIDE, size=SEED_STRIDE, **_settings(query)
            )
        except (TypeError, ValueError, AssertionError) as error:
            raise ConfigError(f"{data} is refused by reasoning-gym: {error}") from error

    def row(self, index: int) -> Row:
        """The problem at `index`, answered with its worked solution where it has one."""
        entry = self.entry(index)
        response = entry["metadata"].get("answer_cot") or entry["answer"]
        messages = conversation(entry["question"], response)
        return Row(where=f"{self.name}[{index}]", messages=messages)

    def entry(self, index: int) -> dict[str, Any]:
        """The problem at `index` as reasoning-gym gives it."""
        return self._dataset[index]  # type: ignore[no-any-return]

    def score(self, answer: str | None, index: int) -> float:
        """Reasoning-gym's own score of an answer, 0 to 1."""
        return float(self._dataset.score_answer(answer=answer, entry=self.entry(index)))


def _settings(query: str) -> dict[str, Any]:
    """Settings behind the ? of a gym task.

    >>> _settings("min_words=3&words=[1, 2]&name=abc")
    {'min_words': 3, 'words': [1, 2], 'name': 'abc'}
    """
    settings: dict[str, Any] = {}
    try:
        pairs = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError as error:
        raise ConfigError(f"gym settings are written key=value&key=value: {error}") from error
    for name, text in pairs:
        try:
            settings[name] = json.loads(text)
        except json.JSONDecodeError:
            settings[name] = text
    return settings
