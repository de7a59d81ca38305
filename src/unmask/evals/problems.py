"""Problems whose answers can be checked."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from unmask.errors import DataError
from unmask.store.chat import Message
from unmask.train.rows import Row
from unmask.train.source import split_data, take_turns
from unmask.train.sources.gym import GymSource
from unmask.train.sources.jsonl import JsonlSource

ANSWER_MARK = "####"
"""Worked solutions end with it and the bare answer, as in GSM8K."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A prompt and a judge of answers."""

    messages: list[Message]
    is_correct: Callable[[str], bool]


def load_problems(data: str, limit: int, *, seed: int = 0) -> list[Problem]:
    """The first `limit` held-out problems of DATA; several, with commas, take turns.

    `gym:NAME` draws from seeds that training never uses; rows of a JSONL file are taken in order
    and must end with an assistant message, the reference.

    Raises:
        DataError: a row has no reference answer.
    """
    names = split_data(data)
    if len(names) > 1:
        return take_turns([load_problems(name, limit, seed=seed) for name in names])[:limit]
    if data.startswith("gym:"):
        gym = GymSource(data, seed=seed, evaluation=True)
        return [_gym_problem(gym, index) for index in range(limit)]
    return [_row_problem(row) for row in JsonlSource(Path(data), seed=seed).rows[:limit]]


def _gym_problem(gym: GymSource, index: int) -> Problem:
    messages = [{"role": "user", "content": gym.entry(index)["question"]}]
    return Problem(messages, lambda text: gym.score(final_answer(text), index) == 1.0)


def _row_problem(row: Row) -> Problem:
    if not row.messages or row.messages[-1]["role"] != "assistant":
        raise DataError(f"{row.where} has no reference answer: the last message must be one")
    expected = final_answer(row.messages[-1]["content"])
    return Problem(row.messages[:-1], lambda text: final_answer(text) == expected)


def final_answer(text: str) -> str:
    """What stands after the last answer mark; the whole text without one.

    >>> final_answer("3 + 4 = 7, so #### 7")
    '7'
    """
    return text.rsplit(ANSWER_MARK, 1)[-1].strip()
