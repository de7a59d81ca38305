"""Rows of a JSON Lines file, shuffled anew each epoch."""

import hashlib
from pathlib import Path

from unmask.errors import DataError
from unmask.train.rows import Row, numbered, parse_row, read_lines, shuffled


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
        return shuffled(len(self.rows), f"{self._seed}/{epoch}")
