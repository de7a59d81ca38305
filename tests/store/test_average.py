import json

import pytest
import torch
from conftest import save_adapted
from safetensors.torch import load_file, save_file

from unmask.decode.model import load
from unmask.errors import ModelError
from unmask.store.average import average_checkpoints


def scaled(tmp_path, name, factor):
    folder = save_adapted(tmp_path / name)
    tensors = load_file(folder / "model.safetensors")
    save_file({key: factor * tensor for key, tensor in tensors.items()},
              folder / "model.safetensors", metadata={"format": "pt"})  # fmt: skip
    return folder


def test_the_mean_is_that_worked_by_hand_and_loads(tmp_path):
    one, three = scaled(tmp_path, "one", 1.0), scaled(tmp_path, "three", 3.0)
    (three / "trainer").mkdir()
    before = load_file(one / "model.safetensors")
    even = average_checkpoints([one, three], tmp_path / "even")
    uneven = average_checkpoints([one, three], tmp_path / "uneven", weights=[3.0, 1.0])
    for name, tensor in before.items():
        torch.testing.assert_close(load_file(even / "model.safetensors")[name], 2 * tensor)
        torch.testing.assert_close(load_file(uneven / "model.safetensors")[name], 1.5 * tensor)
    assert not (even / "trainer").exists()
    said = json.loads((uneven / "unmask.json").read_text())
    assert list(said["provenance"]["average"].values()) == [3.0, 1.0]
    assert load(str(even)).generate("hi", max_new_tokens=4)[0].new_tokens


def test_folders_that_do_not_belong_together_are_refused(tmp_path):
    one, two = scaled(tmp_path, "one", 1.0), scaled(tmp_path, "two", 1.0)
    with pytest.raises(ModelError, match="expected 2 weights"):
        average_checkpoints([one, two], tmp_path / "out", weights=[1.0])
    with pytest.raises(ModelError, match="exists; choose another"):
        average_checkpoints([one, two], one)
    with pytest.raises(ModelError, match="has no"):
        average_checkpoints([tmp_path, two], tmp_path / "out")
    tensors = load_file(two / "model.safetensors")
    tensors.pop(min(tensors))
    save_file(tensors, two / "model.safetensors")
    with pytest.raises(ModelError, match="holds other tensors"):
        average_checkpoints([one, two], tmp_path / "out")
    (two / "model.safetensors").write_bytes(b"half")
    with pytest.raises(ModelError, match="not readable"):
        average_checkpoints([one, two], tmp_path / "out")
    assert not (tmp_path / "out").exists()
