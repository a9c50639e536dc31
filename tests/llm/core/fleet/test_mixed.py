"""Two kinds of GPUs for one load: counted by hand."""

from dataclasses import replace

import pytest

from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.search.plan import mixed_fleets
from tests.llm.core.fleet.fits import fit


def same(found: DeploymentFit) -> DeploymentFit:
    return found


LARGE = fit(needed=5, replicas=5, simulated=object())


def small(**changes: int) -> DeploymentFit:
    """Return replicas that carry 1 request/s each for 0.8 USD/h."""
    made = fit(gpu="small-gpu", max_rate_per_s=1.0, simulated=object(), **{"needed": 17, "replicas": 17, **changes})
    assert made.rent is not None
    return replace(made, rent=replace(made.rent, usd_per_hour=0.4))


def test_the_last_replica_may_be_a_small_one() -> None:
    # Five replicas of 4 requests/s and 2.5 USD/h carry 17 requests/s for 12.5 USD/h, 17 small ones for 13.6. Four
    # large ones and a small one carry it for 10.8; the small one gets 1 of 17 requests.
    found = mixed_fleets([LARGE, small()], rate_per_s=17.0, offered=same)
    assert [(part.fit.gpu, part.fit.replicas) for part in found[0].parts] == [("some-gpu", 4), ("small-gpu", 1)]
    assert found[0].usd_per_hour == pytest.approx(10.8)
    assert [part.share for part in found[0].parts] == pytest.approx([16 / 17, 1 / 17])


def test_nothing_is_mixed_that_saves_nothing() -> None:
    four = fit(needed=4, replicas=4, simulated=object())
    assert mixed_fleets([four, replace(four, gpu="other-gpu")], rate_per_s=16.0, offered=same) == []


def test_a_spare_replica_is_of_the_kind_that_carries_more() -> None:
    found = mixed_fleets([replace(LARGE, replicas=6), small(replicas=18)], rate_per_s=17.0, offered=same)
    assert {part.fit.gpu: part.fit.replicas for part in found[0].parts} == {"some-gpu": 5, "small-gpu": 1}
