"""Adapters that ship with unmask: small, safe, on parents that an alias names."""

import json
import zipfile
from pathlib import Path

import pytest
from conftest import save_parent

from unmask.config import DiffusionConfig
from unmask.decode.model import load
from unmask.errors import ModelError
from unmask.store import packaged
from unmask.store.adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS, read_adapter
from unmask.store.embedded import ALIASES
from unmask.store.packaged import packaged_folder, packaged_names
from unmask.store.resolve import resolve_model
from unmask.train.adapt import adapt
from unmask.train.loop import Budget
from unmask.train.recipe import Recipe

LIMIT = 25e6


@pytest.mark.parametrize("name", packaged_names())
def test_what_ships_is_whole_and_small(name):
    folder = packaged_folder(name)
    assert resolve_model(name) == folder
    assert (folder / ADAPTER_WEIGHTS).stat().st_size <= LIMIT
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".jsonl", ".md", ".safetensors"}
    assert all(tensor.isfinite().all() for tensor in read_adapter(folder).values())
    parent = json.loads((folder / ADAPTER_CONFIG).read_text())["base_model_name_or_path"]
    assert parent in [*ALIASES, *packaged_names()]
    card = (folder / "README.md").read_text()
    for word in ("unmask bench", "Limits", "tokens", "parent"):
        assert word in card
    if (folder / "unmask.json").exists():
        assert DiffusionConfig.load(folder).provenance["supervised_tokens"] > 0


def test_names_that_are_not_there_are_told_with_those_that_are():
    assert packaged_folder("nothing") is None
    with pytest.raises(ModelError, match="smollm2-gym"):
        resolve_model("nothing")


def test_an_adapter_without_a_tokenizer_uses_its_parents(tmp_path, data, monkeypatch):
    """As packaged ones do: by name, on a parent that is an adapter itself."""
    monkeypatch.setattr(packaged, "ADAPTERS", tmp_path)
    parent = save_parent(tmp_path.parent / f"{tmp_path.name}-parent")
    small = {"row_tokens": 64, "rows_per_step": 1, "block_size": 8, "sub_block_size": 8,
             "trainable": "lora", "lora_rank": 2, "learning_rate": 1e-2}  # fmt: skip
    twin = adapt(str(parent), str(data), tmp_path / "twin", budget=Budget(steps=1),
                 recipe=Recipe(objective="ar", context="causal", **small))  # fmt: skip
    denoiser = adapt("twin", str(data), tmp_path / "denoiser", budget=Budget(steps=1),
                     recipe=Recipe(context="draft", **small))  # fmt: skip
    with_files = load(str(denoiser)).generate("hi", max_new_tokens=6)[0]
    for folder in (twin, denoiser):
        for path in Path(folder).glob("*token*"):
            path.unlink()
        (folder / "chat_template.jinja").unlink()
    settings = json.loads((denoiser / ADAPTER_CONFIG).read_text())
    assert settings["base_model_name_or_path"] == "twin"
    without = load("denoiser").generate("hi", max_new_tokens=6)[0]
    assert without.token_ids == with_files.token_ids


@pytest.mark.slow
def test_adapters_are_in_the_wheel(tmp_path):
    import subprocess
    import sys

    root = packaged.ADAPTERS.parents[2]
    if not (root / "pyproject.toml").exists():
        pytest.skip("not a source tree")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q",
         "-w", str(tmp_path), str(root)], check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in packaged_names():
        assert f"unmask/adapters/{name}/{ADAPTER_WEIGHTS}" in names
