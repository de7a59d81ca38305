"""The shape of the code is a promise too."""

import ast
from pathlib import Path

import pytest

import unmask

ROOT = Path(unmask.__file__).parent
LAYERS = ["errors", "log", "plugins", "config", "recipes", "core", "store", "decode", "train",
          "verify", "evals", "cli"]  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))


def layer_of(module):
    return LAYERS.index(module.split(".")[1])


def imports_of(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ([f"unmask.{n.name}" for n in node.names] if node.module == "unmask"
                        else [node.module])  # fmt: skip
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_up_the_layers(path):
    relative = path.relative_to(ROOT)
    if relative.parts[0] in ("__init__.py", "__main__.py"):
        return
    own = layer_of(f"unmask.{relative.parts[0].removesuffix('.py')}")
    for module in imports_of(ast.parse(path.read_text())):
        if module.startswith("unmask.") and module != "unmask.__version__":
            assert layer_of(module) <= own, f"{relative} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_are_short(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno + 1 <= 60, f"{node.name} is too long"


def test_only_the_backbone_and_the_oracle_call_a_model():
    """Training, decoding and checks reach the weights by one door."""
    for path in FILES:
        if path.name not in ("backbone.py", "oracle.py"):
            for call in ("input_ids=", ".last_hidden_state", "use_cache="):
                assert call not in path.read_text(), f"{path} has {call}"


def test_the_layer_rule_can_fail():
    tree = ast.parse("from unmask.cli.main import app")
    assert layer_of(next(imports_of(tree))) > layer_of("unmask.core.masks")
