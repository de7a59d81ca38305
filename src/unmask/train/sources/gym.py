"""Problems that reasoning-gym makes and can check, without end."""

from importlib.metadata import version
from typing import Any

from unmask.errors import ConfigError, MissingExtraError, unknown_name
from unmask.train.rows import Row, conversation, parse_settings

EVALUATION_OFFSET = 2**40
"""Gym seeds below it are for training, from it on for evaluation."""
SEED_STRIDE = 2**20
"""Gym rows kept apart for each seed."""
MAX_SEED = 2**16
"""Seeds from it on would run from training into evaluation."""


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
                task, seed=first + seed * SEED_STRIDE, size=SEED_STRIDE, **parse_settings(query)
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
