"""The two files of a PEFT folder."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unmask.errors import ModelError

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def adapter_weights(folder: Path) -> Path:
    """The file that holds an adapter's weights.

    Raises:
        ModelError: it is not there.
    """
    path = folder / ADAPTER_WEIGHTS
    if not path.exists():
        raise ModelError(f"{folder} has no {ADAPTER_WEIGHTS}; nothing else is loaded")
    return path


def read_adapter(folder: Path) -> dict[str, Tensor]:
    """Weights of the adapter in `folder`.

    Raises:
        ModelError: missing or truncated.
    """
    path = adapter_weights(folder)
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} is damaged: {error}") from error
