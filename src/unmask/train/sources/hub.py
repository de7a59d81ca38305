"""Rows of a hub data set or of a Parquet file, through Hugging Face's `datasets`.

`hub:OWNER/NAME` or `file.parquet`, with settings behind a ?: name (the subset), split, streaming,
and prompt and response (the columns that hold them), as in
`hub:openai/gsm8k?name=main&split=train&prompt=question&response=answer`.
"""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from unmask.errors import ConfigError, DataError, MissingExtraError, unknown_name
from unmask.train.rows import Row, parse_settings, row_from, shuffled

SETTINGS = ("name", "split", "streaming", "prompt", "response")
SHUFFLE_BUFFER = 10_000
"""Rows of a stream among which the next one is drawn."""


class HubSource:
    """Rows in an order of their own each epoch; a stream is read forward only."""

    def __init__(self, data: str, *, seed: int) -> None:
        path, _, query = data.removeprefix("hub:").partition("?")
        settings = parse_settings(query)
        for key in settings:
            if key not in SETTINGS:
                raise ConfigError(unknown_name("data setting", key, SETTINGS))
        self.name, self._seed = data, seed
        if path.endswith(".parquet"):
            self.name = f"{Path(path).resolve()}?{query}"
        self._columns = {key: settings.get(key) for key in ("prompt", "response")}
        is_stream = bool(settings.get("streaming", False))
        self._rows: Any = _open(data, path, settings, is_stream=is_stream)
        self.size: int | None = None if is_stream else len(self._rows)
        if self.size == 0:
            raise DataError(f"{data} has no rows")
        self.fingerprint = f"{self.name}, {self._rows.info.version}, {self.size} rows"
        self._epoch, self._order = -1, list[int]()
        self._stream, self._at = self._read(), -1
        self._values: dict[str, Any] = {}

    def row(self, index: int) -> Row:
        """The row at `index`.

        Raises:
            DataError: it has no field that we know; names the row.
        """
        where = f"{self.name}[{index}]"
        values = self._streamed(index) if self.size is None else self._indexed(index, self.size)
        for key, column in self._columns.items():
            if column is not None:
                if column not in values:
                    raise DataError(f"{where} has no {column}, but {', '.join(values)}")
                values = {**values, key: values[column]}
        return row_from(values, where)

    def _indexed(self, index: int, size: int) -> dict[str, Any]:
        epoch, place = divmod(index, size)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, shuffled(size, f"{self._seed}/{epoch}")
        return self._rows[self._order[place]]  # type: ignore[no-any-return]

    def _streamed(self, index: int) -> dict[str, Any]:
        if index < self._at:
            self._stream, self._at = self._read(), -1
        if index > self._at:
            self._values = next(islice(self._stream, index - self._at - 1, None))
            self._at = index
        return self._values

    def _read(self) -> Iterator[dict[str, Any]]:
        """A stream without end, another order each epoch."""
        for epoch in count():
            is_empty = True
            for values in self._rows.shuffle(seed=self._seed + epoch, buffer_size=SHUFFLE_BUFFER):
                is_empty = False
                yield values
            if is_empty:
                raise DataError(f"{self.name} has no rows")


def _open(data: str, path: str, settings: dict[str, Any], *, is_stream: bool) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError(f'{data} needs datasets: pip install "unmask[data]"') from error
    split = settings.get("split", "train")
    name, files = settings.get("name"), None
    if path.endswith(".parquet"):
        path, files = "parquet", path
    try:
        return datasets.load_dataset(path, name, data_files=files, split=split, streaming=is_stream)
    except Exception as error:  # of many kinds: network, missing files, unknown splits
        raise DataError(f"cannot open {data}: {str(error).strip().splitlines()[0]}") from error
