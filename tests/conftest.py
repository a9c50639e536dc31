"""What every test has: a cache and a configuration of its own, and the fixture calibration and price list."""

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from capplan.processes.system import cores, memory_bytes
from capplan.specs.gpus import load
from tests.skips import SkipReport, skip_what_is_missing

# PyTorch and numpy compute on one thread in tests and in the processes that tests start: CPU kernels allocate a buffer
# per thread, so that peaks would depend on the machine, and workers with a thread per core each wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests start hundreds of processes, and each would compile the modules of capplan anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

EXAMPLES = int(os.environ.get("CAPPLAN_TEST_EXAMPLES", "25"))
"""How many examples a law gets: few in every run, a hundred in `nox -s nightly`, a thousand in `nox -s fuzz`."""

WORKER_BYTES = 3 * 2**30
"""Memory of a worker that has imported PyTorch and the model libraries and traces a model. [bytes]"""

# How long an example takes depends on the machine and on what else runs there: neither its time nor the time to make
# it may fail a law. Speed is measured in benchmarks/speed.py. The same examples are tried in every run, so that a
# change is judged by what it changed; a larger CAPPLAN_TEST_EXAMPLES searches for new ones.
settings.register_profile(
    "capplan",
    deadline=None,
    derandomize=EXAMPLES <= 100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    max_examples=EXAMPLES,
)
settings.load_profile("capplan")

FIXTURES = Path(__file__).parent / "fixtures"


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(50_000)  # tracing makes many objects and few cycles; searching them took a tenth of a run
    config.pluginmanager.register(SkipReport(config), "capplan-skips")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers `-n auto` starts: one per core at hand, and no more than memory holds."""
    chosen = os.environ.get("CAPPLAN_TEST_WORKERS")
    if chosen:
        return int(chosen)
    return max(1, min(cores(), (memory_bytes() or WORKER_BYTES) // WORKER_BYTES))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out, on Windows, a file of tests that imports a module which only other systems have."""
    if sys.platform != "win32" or collection_path.suffix != ".py":
        return None
    needs = re.search(
        r"^(import|from) (resource|fcntl|pty|termios)\b", collection_path.read_text("utf-8"), re.MULTILINE
    )
    return True if needs else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return what hands out tests one by one, and those that share something costly together."""
    if config.getvalue("dist") != "load":
        return None
    from tests.groups import GroupScheduling

    return GroupScheduling(config, log)


@pytest.fixture(scope="module", autouse=True)
def what_lives_on_is_no_garbage() -> None:
    """Keep modules and tests, which live to the end, from being looked at in every collection of garbage.

    `measure` collects several times in a run; with all tests and libraries in memory each takes half a second. Before
    each module anew, because a test loads libraries that others use later.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries look for what they leaked when Python ends


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_what_is_missing(item)


@pytest.fixture(scope="session", autouse=True)
def fixture_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Calculate with the calibration and prices of tests/fixtures, so that a refit or a new price breaks no test.

    Set for the session, because fixtures of a session or a module read the data too. tests/data_acceptance unsets it.
    The workers of a run share one cache of traces, so that a model which several tests ask about is traced once; a
    test about the cache itself takes `own_cache`.
    """
    folder = tmp_path_factory.getbasetemp()
    run = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPPLAN_CALIBRATIONS", str(FIXTURES / "calibrations"))
        patch.setenv("CAPPLAN_PRICES", str(FIXTURES / "prices"))
        patch.setenv("CAPPLAN_CACHE", str(run / "traces"))
        patch.setenv("XDG_CACHE_HOME", str(run / "caches"))  # nothing is written into the user's
        patch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens: no test asks the Hugging Face Hub
        yield


@pytest.fixture(scope="session", autouse=True)
def sheets_read_once() -> Iterator[None]:
    """Parse each file of the GPU database once in a run: a command reads all of them, ten times as long as all else.

    A file is known by its path and the time of its change, so that tests which write files get what they wrote.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("read_gpu_sheet", "read_architecture_sheet"):
            patch.setattr(load, name, _once(getattr(load, name)))
        yield


def _once(read: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[Any, ...], Any] = {}

    def read_once(path: Path, **names: str) -> Any:
        key = (path, path.stat().st_mtime_ns, *sorted(names.items()))
        if key not in known:
            known[key] = read(path, **names)
        return known[key]

    return read_once


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test an empty cache of traces, which no other test reads."""
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def no_own_specs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own GPU specs out of tests."""
    monkeypatch.delenv("CAPPLAN_SPECS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
