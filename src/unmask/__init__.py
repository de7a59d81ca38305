"""Turn a pretrained autoregressive language model into a diffusion language model.

import unmask
model = unmask.load("smollm2")
model.generate("What is the capital of France?", mode="ar")[0].text
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.config import DiffusionConfig
    from unmask.decode.model import Event, Generation, Model, load
    from unmask.train.adapt import adapt

__version__ = "0.1.0"
__all__ = ["DiffusionConfig", "Event", "Generation", "Model", "__version__", "adapt", "load"]

_HOMES = {
    "DiffusionConfig": "unmask.config",
    "Event": "unmask.decode.model",
    "Generation": "unmask.decode.model",
    "Model": "unmask.decode.model",
    "load": "unmask.decode.model",
    "adapt": "unmask.train.adapt",
}


def __getattr__(name: str) -> Any:
    """Import torch and transformers only when something that needs them is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'unmask' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
