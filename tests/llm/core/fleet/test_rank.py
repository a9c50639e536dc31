"""Tests of the order of deployments."""

from dataclasses import replace

from capplan.core.numbers import Interval
from capplan.llm.core.fleet.deployment_plan import rank_key
from tests.llm.core.fleet.fits import fit


def test_a_known_ttft_stands_before_more_headroom_and_behind_a_lower_cost() -> None:
    known = fit(ttft_s=Interval(low=0.2, expected=0.4, high=0.9))
    unknown = replace(known, ttft_s=Interval(low=0.1, expected=0.4, high=2.0), max_rate_per_s=2 * known.max_rate_per_s)
    assert sorted([unknown, known], key=rank_key) == [known, unknown]
    assert known.rent is not None
    cheaper = replace(unknown, rent=replace(known.rent, usd_per_hour=known.rent.usd_per_hour / 2))
    assert sorted([known, cheaper], key=rank_key) == [cheaper, known]
