import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep traces of tests out of the user's cache, and of each other's."""
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path_factory.mktemp("cache")))
