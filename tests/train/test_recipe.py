import pytest

from unmask.errors import ConfigError
from unmask.train.recipe import Recipe, load_recipe, recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_ships_loads(name):
    assert load_recipe(name).row_tokens > 0


def test_the_papers_recipes_say_what_the_paper_says():
    small, large = load_recipe("fast_dllm_v2_1.5b"), load_recipe("fast_dllm_v2_7b")
    for recipe in (small, large):
        assert (recipe.block_size, recipe.sub_block_size, recipe.row_tokens) == (32, 8, 2048)
        assert (recipe.rows_per_step, recipe.warmup_steps) == (256, 500)
    assert (small.learning_rate, small.steps) == (2e-5, 6000)
    assert (large.learning_rate, large.steps) == (1e-5, 2500)


def test_the_default_recipe_is_the_dataclass_default():
    assert load_recipe("smollm2_cpu") == Recipe()


def test_a_setting_beats_the_file():
    recipe = load_recipe("ar", {"learning_rate": "1e-3", "steps": "7", "trainable": "lora"})
    assert (recipe.learning_rate, recipe.steps, recipe.trainable) == (1e-3, 7, "lora")


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("block_size = 16\n")
    assert load_recipe(str(path)).block_size == 16


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("smolm2_cpu", {}, "did you mean 'smollm2_cpu'"),
        ("missing.toml", {}, "no recipe file"),
        ("ar", {"learning_rte": "1"}, "did you mean 'learning_rate'"),
        ("ar", {"steps": "many"}, "steps expects int"),
        ("ar", {"steps": "0"}, "steps must be at least 1"),
        ("ar", {"learning_rate": "0"}, "learning_rate must be above 0"),
        ("ar", {"block_size": "0"}, "block_size must be at least 1"),
        ("ar", {"clip_norm": "0"}, "clip_norm must be above 0"),
        ("ar", {"beta1": "1.0"}, "beta1 must be at least 0 and below 1"),
        ("ar", {"context": "blok"}, "unknown context"),
        ("ar", {"schedule": "cosin"}, "unknown schedule 'cosin', did you mean 'cosine'"),
        ("ar", {"noise": "liner"}, "did you mean 'linear'"),
        ("denoiser_lora", {"token_shift": "false"}, "token_shift true"),
        ("denoiser_lora", {"soft_weight": "2"}, "soft_weight must be between 0 and 1"),
        ("ar", {"objective": "x"}, "unknown objective"),
        ("smollm2_cpu", {"objective": "ar"}, "needs context causal"),
        ("ar", {"sub_block_size": "5"}, "does not divide"),
        ("ar", {"row_tokens": "100"}, "not a multiple"),
        ("ar", {"token_shift": "1"}, "token_shift expects bool"),
    ],
)
def test_settings_that_cannot_work(name, overrides, message):
    with pytest.raises(ConfigError, match=message):
        load_recipe(name, overrides)


def test_a_file_that_is_not_toml(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("block_size = = 3")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_recipe(str(path))
