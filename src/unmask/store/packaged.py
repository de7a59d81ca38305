"""Adapters that ship inside the package: names for MODEL; only their parent is downloaded."""

from pathlib import Path

from unmask.store.adapter import ADAPTER_CONFIG

ADAPTERS = Path(__file__).parent.parent / "adapters"


def packaged_names() -> list[str]:
    """Names that `packaged_folder` knows."""
    return sorted(path.parent.name for path in ADAPTERS.glob(f"*/{ADAPTER_CONFIG}"))


def packaged_folder(name: str) -> Path | None:
    """The folder of a packaged adapter; None where there is none of this name."""
    return ADAPTERS / name if name in packaged_names() else None
