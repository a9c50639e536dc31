"""Tests of the data that ships: calibrations, prices, the README's example and the examples' reports.

A refit or a new price list may break a test here, and only here; it then says what the new data lacks.
"""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def shipped_data(fixture_data: None) -> Iterator[None]:
    """Calculate with what ships, not with tests/fixtures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CAPPLAN_CALIBRATIONS")
        patch.delenv("CAPPLAN_PRICES")
        yield
