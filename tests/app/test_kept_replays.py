"""Replays of earlier questions give the same plan, and nothing is replayed twice."""

import json

import pytest

import capplan
from capplan.app.kept_replays import KeptReplays
from capplan.app.trace_cache import default_cache
from capplan.core.memory import replays
from tests.core.memory.test_memory import MIB, chain

GPUS = ["l4", "t4", "rtx-4090"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path))
    return tmp_path


def plan():
    return capplan.plan(chain(*[10 * MIB, 7 * MIB + 5, 3 * MIB] * 5), batches=[4], gpus=GPUS)


def test_a_plan_that_was_asked_before_is_the_same_and_replays_nothing(cache, monkeypatch):
    first = plan()
    files = list(cache.glob("replays/*/*.json"))
    assert files
    monkeypatch.setattr(replays, "replay", lambda *_, **__: pytest.fail("something was replayed again"))
    assert plan().fits == first.fits


def test_a_damaged_file_is_made_anew(cache):
    first = plan()
    for path in cache.glob("replays/*/*.json"):
        for damage in (b"", b"[]", b'{"00": [[1, 2]]}', b'{"zz": []}', b'{"00": [[null, 1, 1, null, 0, null]]}'):
            path.write_bytes(damage)
            assert KeptReplays(path.parent).find(path.stem) == {}
        assert plan().fits == first.fits
        assert len(json.loads(path.read_bytes())) > 1


def test_clearing_the_cache_forgets_replays(cache):
    plan()
    default_cache().clear()
    assert not list(cache.rglob("*.json"))


def test_nothing_is_kept_where_the_cache_is_off(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPPLAN_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan()
    assert not list(tmp_path.rglob("*.json"))
