"""Trees of capplan's own specs are kept as JSON, and no figure is ever older than its file."""

from datetime import date
from pathlib import Path

import pytest

from capplan.files import PACKAGE, cache_folder
from capplan.specs import strict_yaml
from capplan.specs.kept_trees import KeptTrees, _opened, kept_trees
from capplan.specs.strict_yaml import read_yaml

TEXT = b"name: L4\nmemory: {value: 24, unit: GiB}\npeak: 1.21e+14\nretrieved: 2026-11-20\nlinks: [a, null, true]\n"
TREE = {
    "name": "L4",
    "memory": {"value": 24, "unit": "GiB"},
    "peak": 1.21e14,
    "retrieved": date(2026, 11, 20),
    "links": ["a", None, True],
}


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for capplan's own specs, with a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAPPLAN_CACHE", raising=False)
    monkeypatch.setattr("capplan.specs.kept_trees._OWN_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr("capplan.specs.kept_trees.atexit.register", lambda _: None)
    _opened.cache_clear()
    return tmp_path


def kept_file() -> Path:
    (path,) = (cache_folder() / "specs").iterdir()
    return path


def test_a_kept_tree_is_the_one_that_was_parsed(own_folder, monkeypatch):
    path = own_folder / "l4.yaml"
    path.write_bytes(TEXT)
    assert read_yaml(path) == TREE
    kept = kept_trees(path)
    assert kept is not None
    kept.write()
    _opened.cache_clear()
    monkeypatch.setattr(strict_yaml, "_parsed", lambda *_: pytest.fail("the file was parsed again"))
    found = read_yaml(path)
    assert found == TREE
    assert [type(value) for value in found.values()] == [str, dict, float, date, list]


def test_a_changed_file_is_parsed_again_even_within_the_same_second_and_size(own_folder):
    path = own_folder / "l4.yaml"
    path.write_bytes(TEXT)
    read_yaml(path)
    path.write_bytes(TEXT.replace(b"24", b"25"))
    assert read_yaml(path)["memory"] == {"value": 25, "unit": "GiB"}


def test_a_damaged_cache_is_made_anew(own_folder):
    path = own_folder / "l4.yaml"
    path.write_bytes(TEXT)
    read_yaml(path)
    kept_trees(path).write()
    for damage in (b"", b"\xff\xfe", kept_file().read_bytes()[:40], kept_file().read_bytes()[:32] + b"[1]\n"):
        kept_file().write_bytes(damage)
        _opened.cache_clear()
        assert read_yaml(path) == TREE


def test_files_of_the_user_are_always_parsed_and_off_keeps_nothing(tmp_path, monkeypatch):
    assert kept_trees(tmp_path / "mine.yaml") is None
    own = PACKAGE / "calibrations" / "rates.yaml"
    monkeypatch.delenv("CAPPLAN_CACHE", raising=False)
    assert isinstance(kept_trees(own), KeptTrees)
    monkeypatch.setenv("CAPPLAN_CACHE", "off")
    assert kept_trees(own) is None
