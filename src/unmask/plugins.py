"""The file name is the registry: a plug-in is one module whose name is its key.

Each plug-in module binds its public class to the name `plugin`.
"""

import importlib
import pkgutil
from typing import Any

from unmask.errors import ConfigError, unknown_name


def plugin_names(package: str) -> list[str]:
    """Keys of all plug-ins in `package`, sorted; `_` in a file name reads `-` in its key."""
    modules = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return sorted(module.name.replace("_", "-") for module in modules)


def load_plugin(package: str, name: str) -> Any:
    """The class that the file `name` of `package` offers.

    Raises:
        ConfigError: there is no such file; the message lists the ones there are.
    """
    names = plugin_names(package)
    if name not in names:
        kind = {"policies": "cache policy", "strategies": "strategy", "schedules": "schedule",
                "block_sizes": "way of choosing block_sizes"}  # fmt: skip
        last = package.rsplit(".", 1)[-1]
        raise ConfigError(unknown_name(kind.get(last, last), name, names))
    return importlib.import_module(f"{package}.{name.replace('-', '_')}").plugin
