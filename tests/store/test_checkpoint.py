import json

import pytest

from unmask.config import DiffusionConfig
from unmask.errors import ConfigError, ModelError
from unmask.store.checkpoint import load_checkpoint
from unmask.store.resolve import resolve_model


def edit(folder, **values):
    path = folder / "unmask.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_round_trip(adapted):
    config = load_checkpoint(str(adapted)).config
    config.save(adapted)
    assert load_checkpoint(str(adapted)).config == config


def test_a_parent_has_no_diffusion_config(parent):
    assert load_checkpoint(str(parent)).config is None


@pytest.mark.parametrize("name", ["nowhere", "./nowhere", "/nowhere/at/all"])
def test_missing_models_say_what_to_use(name):
    with pytest.raises(ModelError, match="nor one of smollm2"):
        load_checkpoint(name)


def test_a_hub_id_that_cannot_be_had(tmp_path):
    with pytest.raises(ModelError, match="the hub did not give it"):
        load_checkpoint("nobody/nothing")


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ModelError, match=r"neither config\.json nor adapter_config\.json"):
        resolve_model(str(tmp_path))


def test_truncated_weights(adapted):
    path = adapted / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match="not a readable checkpoint"):
        load_checkpoint(str(adapted))


def test_weights_that_would_need_unpickling_are_refused(adapted):
    (adapted / "model.safetensors").rename(adapted / "pytorch_model.bin")
    with pytest.raises(ModelError, match="not a readable checkpoint"):
        load_checkpoint(str(adapted))


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"mask_token_id": 5}, ModelError, "wrong mask token"),
        ({"mask_token": "<|nope|>"}, ModelError, "wrong mask token"),
        ({"embedding_rows": 300}, ModelError, "vocabulary mismatch"),
        ({"mask_token_id": 999}, ConfigError, "outside the embedding"),
        ({"block_size": 0}, ConfigError, "block_size must be at least 1"),
        ({"sub_block_size": 3}, ConfigError, "use 1, 2, 4, 8"),
        ({"context": "sideways"}, ConfigError, "unknown context"),
        ({"colour": "red"}, ModelError, r"not a valid unmask\.json"),
    ],
)
def test_unmask_json_that_does_not_fit(adapted, values, error, message):
    edit(adapted, **values)
    with pytest.raises(error, match=message):
        load_checkpoint(str(adapted))


def test_unmask_json_that_is_not_json(adapted):
    (adapted / "unmask.json").write_text("{")
    with pytest.raises(ModelError, match=r"not a valid unmask\.json"):
        DiffusionConfig.load(adapted)


def test_a_checkpoint_that_lacks_tensors_is_refused(adapted):
    from safetensors.torch import load_file, save_file

    path = adapted / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lacks 1 of the model's tensors"):
        load_checkpoint(str(adapted))


def test_tensors_of_another_shape_are_refused(adapted):
    path = adapted / "config.json"
    path.write_text(path.read_text().replace('"intermediate_size": 64', '"intermediate_size": 32'))
    with pytest.raises(ModelError, match="not a readable checkpoint"):
        load_checkpoint(str(adapted))
