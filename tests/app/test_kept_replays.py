"""Replays of earlier questions give the same plan, and nothing is replayed twice."""

import msgspec
import pytest

import capplan
from capplan.app.kept_replays import KeptReplays
from capplan.app.trace_cache import default_cache
from capplan.core.memory import replays
from tests.core.memory.test_memory import MIB, chain

msgpack = msgspec.msgpack.encode
GPUS = ["l4", "t4", "rtx-4090"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path))
    return tmp_path


def plan():
    return capplan.plan(chain(*[10 * MIB, 7 * MIB + 5, 3 * MIB] * 5), batches=[4], gpus=GPUS)


def test_a_plan_that_was_asked_before_is_the_same_and_replays_nothing(cache, monkeypatch):
    first = plan()
    files = list(cache.glob("replays/*/*.msgpack"))
    assert files
    monkeypatch.setattr(replays, "replay", lambda *_, **__: pytest.fail("something was replayed again"))
    assert plan().fits == first.fits


def test_a_damaged_file_is_made_anew(cache):
    first = plan()
    for path in cache.glob("replays/*/*.msgpack"):
        for damage in (b"", b"\xff", msgpack({}) + b"\0", msgpack({b"0": [[1, 2]]}), msgpack({b"0": [{"retries": 0}]})):
            path.write_bytes(damage)
            assert KeptReplays(path.parent).find(path.stem) == {}
        assert plan().fits == first.fits
        assert len(msgspec.msgpack.decode(path.read_bytes())) > 1


def test_clearing_the_cache_forgets_replays(cache):
    plan()
    default_cache().clear()
    assert not list(cache.rglob("*.msgpack"))


def test_nothing_is_kept_where_the_cache_is_off(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPPLAN_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan()
    assert not list(tmp_path.rglob("*.msgpack"))
