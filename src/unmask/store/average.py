"""The weighted mean of checkpoints of one run: often better than the last of them.

Source: averaged last checkpoints, as in dQwen3.5; uniform or weighted.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from unmask.config import FILE_NAME
from unmask.errors import ModelError
from unmask.store.folders import replace_folder


def average_checkpoints(
    folders: list[Path],
    out: Path,
    *,
    weights: list[float] | None = None,
    on_share: Callable[[float], None] = lambda _share: None,
) -> Path:
    """Write the mean of the folders' tensors into `out`; everything else is the last folder's.

    Args:
        folders: checkpoints with the same tensors, or adapters of the same parent.
        out: a new folder.
        weights: one for each, of any sum; equal ones where None.
        on_share: told how much is done.

    Raises:
        ModelError: a folder that is not like the others, or is not whole.
    """
    shares = weights or [1.0] * len(folders)
    if len(shares) != len(folders) or min(shares) < 0 or sum(shares) <= 0:
        raise ModelError(
            f"expected {len(folders)} weights of at least 0, not all 0; got {len(shares)}: {shares}"
        )
    files = _files(folders[-1])
    for folder in folders:
        if _files(folder) != files:
            raise ModelError(f"{folder} holds other weight files than {folders[-1]}")
    if out.exists():
        raise ModelError(f"{out} exists; choose another --out")

    def write(target: Path) -> None:
        shutil.copytree(
            folders[-1], target, dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("trainer", "*.safetensors"),
        )  # fmt: skip
        for number, file in enumerate(files):
            sources = [folder / file for folder in folders]
            mean = _mean(sources, [share / sum(shares) for share in shares])
            save_file(mean, target / file, metadata={"format": "pt"})
            on_share((number + 1) / len(files))
        _note(target, folders, shares)

    replace_folder(out, write)
    return out


def _files(folder: Path) -> list[str]:
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    if not names:
        raise ModelError(f"{folder} has no *.safetensors; expected the folder of a checkpoint")
    return names


def _mean(sources: list[Path], shares: list[float]) -> dict[str, torch.Tensor]:
    """One tensor at a time, in float64, back in the dtype it came in."""
    mean: dict[str, torch.Tensor] = {}
    try:
        for source, share in zip(sources, shares, strict=True):
            with safe_open(source, "pt") as tensors:
                names = set(tensors.keys())
                if mean and names != set(mean):
                    other = min(names ^ set(mean))
                    raise ModelError(f"{source} holds other tensors than {sources[0]}: {other}")
                for name in names:
                    term = tensors.get_tensor(name).double() * share
                    if name in mean and mean[name].shape != term.shape:
                        raise ModelError(f"{source} has another shape of {name} than {sources[0]}")
                    mean[name] = mean[name] + term if name in mean else term
        with safe_open(sources[-1], "pt") as tensors:
            return {name: mean[name].to(tensors.get_tensor(name).dtype) for name in mean}
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{source} is not readable: {error}") from error


def _note(folder: Path, folders: list[Path], shares: list[float]) -> None:
    """Say in `unmask.json` where the weights come from."""
    path = folder / FILE_NAME
    if path.exists():
        said = json.loads(path.read_text(encoding="utf-8"))
        said["provenance"]["average"] = {str(f): w for f, w in zip(folders, shares, strict=True)}
        path.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
