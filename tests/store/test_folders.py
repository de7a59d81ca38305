import os

import pytest
from safetensors import SafetensorError

from unmask.errors import ModelError
from unmask.store.folders import readable_folder, recover_folder, replace_folder


def put(text):
    return lambda folder: (folder / "file").write_text(text)


def test_replaces_the_whole_folder(tmp_path):
    target = tmp_path / "model"
    replace_folder(target, put("one"))
    (target / "stale").write_text("left over")
    replace_folder(target, put("two"))
    assert {path.name: path.read_text() for path in target.iterdir()} == {"file": "two"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), SafetensorError("I/O error"), KeyboardInterrupt()]
)
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


def test_a_reader_in_the_instant_of_a_swap_reads_the_old_one_and_changes_nothing(tmp_path):
    old = tmp_path / ".model.old"
    old.mkdir()
    assert readable_folder(tmp_path / "model") == old
    assert [path.name for path in tmp_path.iterdir()] == [".model.old"]


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path):
    real, link = tmp_path / "disk" / "real", tmp_path / "model"
    real.mkdir(parents=True)
    link.symlink_to(real)
    for text in ("one", "two", "three"):
        replace_folder(link, put(text))
    assert link.is_symlink()
    assert (real / "file").read_text() == "three"


def test_what_a_killed_writer_left_is_cleared(tmp_path):
    dead, alive = tmp_path / ".model.tmp999999999", tmp_path / f".model.tmp{os.getpid()}"
    dead.mkdir()
    alive.mkdir()
    recover_folder(tmp_path / "model")
    assert not dead.exists()
    assert alive.exists()


def test_the_current_folder_can_be_read_and_replaced(tmp_path, monkeypatch):
    from pathlib import Path

    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert readable_folder(Path(".")) == here
    replace_folder(Path("."), put("one"))
    assert (here / "file").read_text() == "one"
