import pytest

from unmask.errors import ModelError
from unmask.store.folders import recover_folder, replace_folder


def put(text):
    return lambda folder: (folder / "file").write_text(text)


def test_replaces_the_whole_folder(tmp_path):
    target = tmp_path / "model"
    replace_folder(target, put("one"))
    (target / "stale").write_text("left over")
    replace_folder(target, put("two"))
    assert {path.name: path.read_text() for path in target.iterdir()} == {"file": "two"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_folder(tmp_path, error):
    target = tmp_path / "model"
    replace_folder(target, put("one"))

    def fail(folder):
        (folder / "file").write_text("half")
        raise error

    with pytest.raises((ModelError, KeyboardInterrupt)):
        replace_folder(target, fail)
    assert (target / "file").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_swap_cut_short_is_finished(tmp_path):
    old = tmp_path / ".model.old"
    old.mkdir()
    (old / "file").write_text("one")
    recover_folder(tmp_path / "model")
    assert (tmp_path / "model" / "file").read_text() == "one"
    old.mkdir()  # this time the new one had arrived already
    (old / "file").write_text("older")
    recover_folder(tmp_path / "model")
    assert (tmp_path / "model" / "file").read_text() == "one"
    assert not old.exists()
