"""What every test has: a cache and a configuration of its own, and the fixture calibration and price list."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.skips import SkipReport, skip_what_is_missing

EXAMPLES = int(os.environ.get("CAPPLAN_TEST_EXAMPLES", "100"))

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
    config.pluginmanager.register(SkipReport(config), "capplan-skips")


SLOW = (
    "app/sweep/test_cluster.py",
    "app/sweep/test_isolation.py",
    "app/sweep/test_measuring.py",
    "app/sweep/test_run.py",
    "app/sweep/test_serving.py",
    "app/test_cache.py",
    "app/test_counts_and_memory.py",
    "app/test_measure.py",
    "cli/test_analyze_compare.py",
    "cli/test_code_from_data.py",
    "cli/test_measure.py",
    "cli/test_report.py",
    "cli/test_report_fleet.py",
    "cli/test_terminal_width.py",
    "core/serving/test_simulation.py",
    "data_acceptance/",
    "faults/",
    "fuzz/",
    "probe/measure/test_fake_cuda.py",
    "probe/measure/test_public.py",
    "probe/target/test_exported.py",
    "report/documents/test_documents.py",
    "report/procurement/",
    "serve/",
    "specs/test_any_input.py",
    "specs/test_wheel.py",
)
"""Files and folders whose tests take most of a run's time: they trace, measure or render in processes of their own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `nox -s fast` leaves out for their time."""
    for item in items:
        if str(item.path.relative_to(Path(__file__).parent)).startswith(SLOW):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Keep modules and tests, which live to the end, from being looked at in every collection of garbage.

    `measure` collects several times in a run; with all tests and libraries in memory each takes half a second.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_what_is_missing(item)


@pytest.fixture(scope="session", autouse=True)
def fixture_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Calculate with the calibration and prices of tests/fixtures, so that a refit or a new price breaks no test.

    Set for the session, because fixtures of a session or a module read the data too. tests/data_acceptance unsets it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPPLAN_CALIBRATIONS", str(FIXTURES / "calibrations"))
        patch.setenv("CAPPLAN_PRICES", str(FIXTURES / "prices"))
        patch.setenv("CAPPLAN_CACHE", str(tmp_path_factory.mktemp("session-cache")))
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep traces of tests out of the user's cache, and of each other's."""
    monkeypatch.setenv("CAPPLAN_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def no_own_specs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own GPU specs out of tests."""
    monkeypatch.delenv("CAPPLAN_SPECS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
