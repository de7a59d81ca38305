"""Folders that are whole or absent: written aside, then swapped in. Only the writer repairs."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from unmask.errors import ModelError


def replace_folder(target: Path, write: Callable[[Path], None]) -> None:
    """Make `target` hold what `write` writes, or leave it as it was.

    Args:
        target: the folder; an earlier one under this name is replaced.
        write: fills the empty folder that it is given.

    Raises:
        ModelError: the disk is full or not writable; the old folder is untouched.
    """
    target = target.resolve()  # a link stays a link
    fresh = _beside(target, f"tmp{os.getpid()}")
    try:
        recover_folder(target)
        fresh.mkdir(parents=True)
        write(fresh)
        if target.exists():
            target.rename(_beside(target, "old"))
        fresh.rename(target)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"could not save {target}: {error}; what was there before is whole"
        ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(_beside(target, "old"), ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Finish a swap that was cut short between its two renames, and clear half-written folders."""
    target = target.resolve()
    old = _beside(target, "old")
    if old.exists() and not target.exists():
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    for left in target.parent.glob(f".{target.name}.tmp*"):
        if not _is_alive(left.name.rsplit(".tmp", 1)[-1]):
            shutil.rmtree(left, ignore_errors=True)


def readable_folder(target: Path) -> Path:
    """`target`, or what stands for it in the instant of a swap; nothing on disk is changed."""
    target = target.resolve()
    old = _beside(target, "old")
    return old if old.exists() and not target.exists() else target


def _beside(target: Path, suffix: str) -> Path:
    return target.parent / f".{target.name}.{suffix}"


def _is_alive(pid: str) -> bool:
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
