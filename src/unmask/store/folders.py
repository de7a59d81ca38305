"""Folders that are whole or absent: written aside, then swapped in."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from unmask.errors import ModelError


def replace_folder(target: Path, write: Callable[[Path], None]) -> None:
    """Make `target` hold what `write` writes, or leave it as it was.

    Args:
        target: the folder; an earlier one under this name is replaced.
        write: fills the empty folder that it is given.

    Raises:
        ModelError: the disk is full or not writable; the old folder is untouched.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh, old = _beside(target, f"tmp{os.getpid()}"), _beside(target, "old")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        write(fresh)
    except OSError as error:
        raise ModelError(
            f"could not save {target}: {error}; what was there before is whole"
        ) from error
    else:
        recover_folder(target)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Finish a swap that was cut short between its two renames."""
    old = _beside(target, "old")
    if not old.exists():
        return
    if target.exists():
        shutil.rmtree(old)
    else:
        old.rename(target)


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{suffix}")
