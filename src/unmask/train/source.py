"""DATA: where training rows come from. A source is indexable for ever, in a fixed order."""

import re
from pathlib import Path
from typing import Protocol, TypeVar

from unmask.errors import DataError
from unmask.train.rows import Row

T = TypeVar("T")


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
    """The source that DATA names; several, with commas, take turns, NAME*3 with three rows each.

    Raises:
        DataError: missing file, broken row, nothing in it.
        ConfigError: no gym task of this name, a setting that is not known.
    """
    names = split_data(data)
    if len(names) == 1 and names[0] == data:
        return _open_one(data, seed)
    from unmask.train.sources.mixed import MixedSource

    pairs = [_weighted(name) for name in names]
    return MixedSource([_open_one(name, seed) for name, _ in pairs], [n for _, n in pairs])


def _open_one(data: str, seed: int) -> Source:
    kind = data.partition("?")[0]
    if data.startswith("gym:"):
        from unmask.train.sources.gym import GymSource

        return GymSource(data, seed=seed)
    if data.startswith("hub:") or kind.endswith(".parquet"):
        from unmask.train.sources.hub import HubSource

        return HubSource(data, seed=seed)
    if data.endswith((".jsonl", ".json")) or Path(data).exists():
        from unmask.train.sources.jsonl import JsonlSource

        return JsonlSource(Path(data), seed=seed)
    raise DataError(
        f"no data '{data}': use a file.jsonl, a file.parquet, hub:OWNER/NAME, or gym:NAME, such as "
        "gym:gsm_symbolic"
    )


def _weighted(name: str) -> tuple[str, int]:
    """Name and rows at a turn.

    >>> _weighted("a.jsonl*3"), _weighted("gym:x")
    (('a.jsonl', 3), ('gym:x', 1))
    """
    match = re.fullmatch(r"(.+)\*([1-9]\d*)", name)
    return (match[1], int(match[2])) if match else (name, 1)


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
