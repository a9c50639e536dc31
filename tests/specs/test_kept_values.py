"""Values that many files make are kept as one, and none is older than its files."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from capplan.files import cache_folder
from capplan.specs import load_gpus
from capplan.specs.calibration import _load_as_of, load_calibration
from capplan.specs.kept_values import _decoded, kept_value
from capplan.specs.prices import load_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What stands in for a value."""

    name: str
    memory_bytes: float | None


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAPPLAN_CACHE", raising=False)
    path = tmp_path / "card.yaml"
    path.write_text("L4")
    return path


def read(path: Path) -> Card:
    return kept_value("card", Card, [path], lambda: Card(name=path.read_text(), memory_bytes=None))


def test_a_value_is_made_once_until_its_file_changes(file: Path) -> None:
    assert read(file) == Card(name="L4", memory_bytes=None)
    made = kept_value("card", Card, [file], lambda: pytest.fail("made again"))
    assert made == Card(name="L4", memory_bytes=None)
    file.write_text("L40")
    assert read(file).name == "L40"


def test_damage_and_another_type_are_made_anew(file: Path) -> None:
    read(file)
    (kept,) = (cache_folder() / "specs").iterdir()
    assert read(file) is read(file)
    for content in (b"", b"\xff", b"\x82\xa4name\x01\xacmemory_bytes\x02"):
        kept.write_bytes(content)
        _decoded.cache_clear()
        assert read(file).name == "L4"


def test_nothing_is_kept_where_caches_are_off(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPPLAN_CACHE", "off")
    assert read(file).name == "L4"
    assert not cache_folder().exists()


def test_specs_prices_and_calibrations_are_the_same_kept_as_made(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del file
    found = []
    for cache in (None, None, "off"):
        if cache:
            monkeypatch.setenv("CAPPLAN_CACHE", cache)
        _load_as_of.cache_clear()
        _decoded.cache_clear()
        gpus = load_gpus()
        found.append(({**gpus, **gpus.cpus}, gpus.architectures, load_prices(gpus), load_calibration()))
    assert len(found[0][0]) > 150
    assert found[0] == found[1] == found[2]
