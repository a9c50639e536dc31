"""Several services on one fleet, packed by hand."""

from dataclasses import replace

import pytest

from capplan.core.economics.constraints import Constraints, ReportLoad
from capplan.core.economics.decide import decide
from capplan.core.economics.fleet import FleetDecision, GpuFacts, Owned, ServiceAnswer, decide_fleet, violations_of
from capplan.core.economics.packing import Sharing, Tenant, pack
from capplan.core.gpus.mig import mig_profiles
from capplan.core.gpus.prices import Price, PurchasePrice
from capplan.core.numbers import Interval
from capplan.core.serving.load import Job, Service
from capplan.core.serving.response import BatchPoint, Candidate
from capplan.core.serving.sizing import Capacity, OperatingPoint, Sizing, size_fleets
from capplan.specs import load_gpus
from tests.core.economics.test_cost import DAY, NODE
from tests.core.economics.test_decision import rent, standards

near = pytest.approx


def sizing(*, rate_per_s: float = 800.0) -> Sizing:
    """Return a job's sizing: batches of 8 in 8 / rate seconds."""
    point = BatchPoint(batch=8, latency_s=Interval.exact(8 / rate_per_s), memory_bytes=Interval.exact(4e9))
    candidate = Candidate(gpu="g", name="g", tdp_w=100.0, form_factor="PCIe", points=(point,))
    operation = OperatingPoint(largest_batch=8, rate_per_s=rate_per_s)
    return Sizing(capacity=Capacity(candidate=candidate), operating_point=operation, need=1)


def tenant(name: str, gpus: float, *, memory_bytes: float = 4e9) -> Tenant:
    """Return a job that fills so many GPUs."""
    return Tenant(name=name, sizing=sizing(), load=None, peak_per_s=800 * gpus, memory_bytes=memory_bytes)


def test_whole_gpus_first_and_the_rests_share():
    # 1.4 + 0.3 + 0.25 GPUs: one whole, and 0.4 + 0.3 + 0.25 = 0.95 of another; apart they would take 2 + 1 + 1.
    packed = pack([tenant("a", 1.4), tenant("b", 0.3), tenant("c", 0.25)], budget_bytes=20e9)
    assert packed.whole == (("a", 1),)
    assert packed.gpus == 2
    assert [(each.service, each.utilization_fraction) for each in packed.shared[0]] == [
        ("a", near(0.4)), ("b", near(0.3)), ("c", near(0.25)),
    ]  # fmt: skip


def test_time_that_does_not_suffice_opens_another_gpu():
    # First-fit decreasing: 0.6 + 0.4, then 0.5 + 0.3.
    packed = pack(
        [tenant(name, share) for name, share in zip("abcd", (0.6, 0.5, 0.4, 0.3), strict=True)], budget_bytes=20e9
    )
    assert [[each.service for each in members] for members in packed.shared] == [["a", "c"], ["b", "d"]]


def test_memory_that_does_not_suffice_opens_another_gpu():
    packed = pack([tenant("a", 0.2, memory_bytes=9e9), tenant("b", 0.2, memory_bytes=9e9)], budget_bytes=16e9)
    assert packed.gpus == 2


def test_slices_carry_what_their_arithmetic_allows():
    # A slice of compute has 14 of 108 multiprocessors (13.0 %), one of memory an eighth of the bandwidth (12.5 %). A
    # job of 0.1 GPU takes 0.1 / 0.125 = 0.8 of 1g.10gb; one of 0.2 takes 1.6 of it, 1.54 of 1g.20gb and 0.8 of 2g.20gb;
    # one of 0.38 takes 0.38 × 108 / 42 = 0.977 of 3g.40gb.
    profiles = mig_profiles(load_gpus()["a100-sxm4-80gb"])
    assert [(each.name, each.units, each.memory) for each in profiles] == [
        ("1g.10gb", 14, 1), ("1g.20gb", 14, 2), ("2g.20gb", 28, 2), ("3g.40gb", 42, 4), ("4g.40gb", 56, 4),
        ("7g.80gb", 98, 8),
    ]  # fmt: skip
    packed = pack([tenant("a", 0.1), tenant("b", 0.2), tenant("c", 0.38)], budget_bytes=72e9, profiles=profiles)
    assert packed.sharing is Sharing.MIG
    assert {each.service: each.profile for members in packed.shared for each in members} == {
        "a": "1g.10gb",
        "b": "2g.20gb",
        "c": "3g.40gb",
    }
    assert packed.gpus == 1  # 1 + 2 + 3 of seven compute slices, 1 + 2 + 4 of eight memory slices


def test_gpus_without_slices_share_by_time():
    gpus = load_gpus()
    assert mig_profiles(gpus["l4"]) == ()
    assert [each.name for each in mig_profiles(gpus["a30"])] == ["1g.6gb", "2g.12gb", "4g.24gb"]
    assert pack([tenant("a", 0.1), tenant("b", 0.2)], budget_bytes=20e9).sharing is Sharing.TIME


# One GPU takes any batch in 10 ms, eight samples at most: 800/s when full.
def serving(peak_per_s: float, *, limit_s: float = 1.0, ceiling: float = 0.7) -> Tenant:
    """Return a service on the card of this page."""
    load = Service(
        peak_per_s=peak_per_s, mean_per_s=peak_per_s, latency_limit_s=limit_s, percentile=95,
        growth_per_year_fraction=0.0, spares=0, utilization_ceiling_fraction=ceiling, window_s=0.0, gap_scv=1.0,
    )  # fmt: skip
    (sized,) = size_fleets([CARD], load)
    assert isinstance(sized, Sizing)
    return Tenant(name="s", sizing=sized, load=load, peak_per_s=peak_per_s, memory_bytes=4e9)


def test_sharing_slows_a_service_by_what_the_others_take():
    # One sample a second finds the GPU idle 99 times of 100: alone 95 % are answered within the 10 ms of a batch. A job
    # that takes half of the time leaves half: 10 ms / (1 - 0.5) = 20 ms.
    (shared,) = pack([serving(1.0), tenant("job", 0.5)], budget_bytes=20e9).shared
    service = next(each for each in shared if each.service == "s")
    assert (service.alone_s, service.latency_s) == (near(0.010), near(0.020))
    # Within 19 ms it cannot share.
    assert pack([serving(1.0, limit_s=0.019), tenant("job", 0.5)], budget_bytes=20e9).gpus == 2


def test_a_shared_gpu_keeps_the_load_ceiling_of_its_services():
    # 400/s of 800/s are half of a GPU, and a job takes 0.3: 0.8 is above a ceiling of 0.7 and below one of 0.9.
    assert pack([serving(400.0, ceiling=0.7), tenant("job", 0.3)], budget_bytes=20e9).gpus == 2
    assert pack([serving(400.0, ceiling=0.9), tenant("job", 0.3)], budget_bytes=20e9).gpus == 1


def test_slices_share_the_memory_of_the_card():
    # 12 GB do not fit the eighth of 72 GB that 1g.10gb has, but the quarter of 1g.20gb. Four of these fill the memory,
    # so that five jobs take two cards by slices and, with 60 GB and a quarter of the time, one in turns.
    profiles = mig_profiles(load_gpus()["a100-sxm4-80gb"])
    jobs = [tenant(name, 0.05, memory_bytes=12e9) for name in "abcde"]
    packed = pack(jobs, budget_bytes=72e9, profiles=profiles)
    assert (packed.sharing, packed.gpus) == (Sharing.TIME, 1)
    assert pack(jobs[:4], budget_bytes=72e9, profiles=profiles).sharing is Sharing.MIG


def test_a_slice_keeps_the_load_ceiling_of_its_service():
    # 64/s are 0.08 of a GPU: 0.08 × 8 = 0.64 of 1g.10gb and 0.08 × 108 / 14 = 0.617 of 1g.20gb, both above a ceiling of
    # one half; 0.08 × 108 / 28 = 0.309 of 2g.20gb is below it.
    profiles = mig_profiles(load_gpus()["a100-sxm4-80gb"])
    packed = pack([serving(64.0, ceiling=0.5), tenant("job", 0.1)], budget_bytes=72e9, profiles=profiles)
    assert {each.service: each.profile for members in packed.shared for each in members} == {
        "s": "2g.20gb", "job": "1g.10gb",
    }  # fmt: skip


# 8 samples in 10 ms: 800/s. 360,000 samples an hour are 100/s, 0.125 of a GPU.
SMALL = Job(
    samples=360_000, deadline_s=3600, runs_per_year=8760, growth_per_year_fraction=0.0, spares=0,
    utilization_ceiling_fraction=1.0,
)  # fmt: skip
CARD = Candidate(
    gpu="card", name="card", tdp_w=100.0, form_factor="PCIe",
    points=(BatchPoint(batch=8, latency_s=Interval.exact(0.010), memory_bytes=Interval.exact(4e9)),),
)  # fmt: skip
FACTS = {"card": GpuFacts(budget_bytes=20e9)}


def service(name: str, load: Job = SMALL, *rents: Price) -> ServiceAnswer:
    answer = decide(
        (CARD,),
        demand=ReportLoad(load=load, money=NODE, assumptions=()),
        rents=rents or (rent("card", 1.0),),
        purchases=(),
        standards=standards("card"),
    )
    return ServiceAnswer(name=name, answer=answer, standards=standards("card"))


def test_one_fleet_beside_a_fleet_for_each():
    # Three jobs of 0.125 GPU share one card: 8,760 h at 1 USD. Apart each pays its 0.125 × 8,760 = 1,095 GPU-hours.
    found = decide_fleet([service(name) for name in "abc"], facts=FACTS)
    assert found.choice.packing.gpus == 1
    assert found.choice.cost.per_year == near(8760)
    assert found.separate_usd_per_year == near(3 * 1095)


def test_owned_gpus_are_used_first():
    found = decide_fleet([service("a"), service("b")], facts=FACTS, inventory=[Owned(gpu="card", count=2)])
    assert found.choice.added_by_year == (0, 0, 0)
    # One card of four in a server works a quarter of the time: 15,000 / 4 of staff; 100 W and 500 / 4 × (0.25 + 0.35 ×
    # 0.25) = 42.1875 W at a PUE of 1.35 and 0.10 USD/kWh; the space costs nothing here.
    assert found.choice.cost.per_year == near(3750 + 142.1875 / 1000 * 1.35 * 8760 * 0.10)
    assert found.choice.cost.breakdown.staff_usd == near(3 * 3750)
    [use] = found.inventory
    # 0.25 of a card is in use; two carry eight times as much, and loads that do not grow never fill them.
    assert (use.services, use.needed, use.months_until_full) == (("a", "b"), 1, None)
    assert use.load_factor == near(8.0, rel=1e-5)


def test_the_failure_of_an_owned_server_takes_its_gpus():
    # Two jobs share one card, and one server may fail. Two owned cards in two servers suffice; in one server they all
    # fail, so that a machine of two is rented besides, whole: 2 × 8,760 h at 1 USD, beside one server's staff.
    spare = replace(SMALL, spares=1)
    services = [service(name, spare, rent("card", 1.0, gpus=2)) for name in "ab"]
    apart, together = (
        decide_fleet(services, facts=FACTS, inventory=[Owned(gpu="card", count=2, servers=servers)]).choice
        for servers in (2, 1)
    )
    assert apart.added_by_year == (0, 0, 0)
    assert apart.cost.breakdown.staff_usd == near(3 * 2 * 15_000)
    assert together.added_by_year == (2, 2, 2)
    assert together.cost.breakdown.rent_usd == near(3 * 2 * 8760)
    assert together.cost.breakdown.staff_usd == near(3 * 15_000)


def test_a_fleet_is_rented_for_the_hours_of_its_services_and_jobs():
    # A service of 560/s fills one card (800/s at a load of 0.7) for 8 hours a day; a job of 0.5 GPU runs for one hour a
    # day, 365 of the 8,760 h. In the hours of the service a second card is rented while the job runs, in the others
    # one: 2920 × (2 + 23) / 24 + 5840 × 1 / 24 GPU-hours; the service's card starts six minutes early, each day.
    hours = (0.0,) * 8 + (560.0,) * 8 + (0.0,) * 8
    online = Service(
        peak_per_s=560.0, mean_per_s=560.0 / 3, latency_limit_s=1.0, percentile=95, growth_per_year_fraction=0.0,
        spares=0, utilization_ceiling_fraction=0.7, window_s=0.0, gap_scv=1.0, daily_per_s=hours, scales_by_hour=True,
        start_up_s=360.0,
    )  # fmt: skip
    nightly = replace(SMALL, samples=4 * SMALL.samples, runs_per_year=365)
    found = decide_fleet([service("online", online), service("nightly", nightly)], facts=FACTS)
    starts = 365 * 0.1 * 1.0
    assert found.choice.cost.per_year == near(2920 * 25 / 24 + 5840 / 24 + starts)


def test_growth_fills_what_is_owned():
    # 0.125 GPU doubling a year fills one card when 2^t = 8, after 36 months.
    growing = replace(SMALL, growth_per_year_fraction=1.0)
    [use] = decide_fleet([service("a", growing)], facts=FACTS, inventory=[Owned(gpu="card", count=1)]).inventory
    assert use.months_until_full == 36


def test_what_is_owned_and_too_small_carries_what_fits():
    large = replace(SMALL, samples=8 * SMALL.samples * 3)
    [use] = decide_fleet(
        [service("a"), service("big", large)], facts=FACTS, inventory=[Owned(gpu="card", count=1)]
    ).inventory
    assert use.services == ("a",)


def fleet_choice(caps: Constraints, *owned: Owned) -> FleetDecision:
    """Decide for nine jobs of 0.125 GPU on a card that is only sold, at 5,000 USD."""
    price = PurchasePrice(gpu="card", usd=5_000, date=DAY, source="quote", seller="somebody")
    strict = replace(standards("card"), constraints=caps)
    answer = decide(
        (CARD,),
        demand=ReportLoad(load=SMALL, money=NODE, assumptions=()),
        rents=(),
        purchases=(price,),
        standards=strict,
    )
    return decide_fleet(
        [ServiceAnswer(name=name, answer=answer, standards=strict) for name in "abcdefghi"],
        facts=FACTS,
        inventory=owned,
    )


def test_a_fleet_keeps_the_caps_on_power_and_rack_units():
    # 9 × 0.125 = 1.125 GPUs: two cards of 100 W in one server of two rack units: 200 W and
    # a host of 500 W. Each service alone would take one card and 600 W, which keeps both caps.
    free = fleet_choice(Constraints())
    assert free.choice is not None
    assert free.choice.power_w == near(700)
    assert free.choice.rack_units == 2
    for caps, words in (
        (Constraints(max_power_w=699.0), "power 0.7 kW over the cap of 0.699 kW"),
        (Constraints(max_rack_units=1.0), "rack units 2 U over the cap of 1 U"),
        (Constraints(max_capex_usd=11_000.0), "capex 11,200 USD over the cap of 11,000 USD"),
    ):
        refused = fleet_choice(caps)
        assert refused.choice is None
        assert violations_of(refused.options[0], refused.services) == (words,)
    assert fleet_choice(Constraints(max_power_w=700.0, max_rack_units=2.0, max_capex_usd=11_200.0)).choice


def test_owned_gpus_draw_power_in_their_part_of_a_server():
    # Nine jobs of 100/s, eight samples in 10 ms, load two cards to 9 × 0.125 / 2 = 0.5625. Two of four slots are half
    # of a host of 500 W, which draws 500 × (0.25 + 0.35 × 0.5625) = 223.4 W; the cards count with their limit.
    choice = fleet_choice(Constraints(), Owned(gpu="card", count=2)).choice
    assert choice is not None
    assert choice.energy is not None
    assert choice.energy.average_w == near(2 * 100 + 223.4375 / 2)


def test_what_is_owned_counts_against_no_cap():
    # Two cards are owned: nothing is bought, so that a cap of nothing is kept, though each service alone would buy one.
    found = fleet_choice(
        Constraints(max_capex_usd=0.0, max_power_w=0.0, max_rack_units=0.0), Owned(gpu="card", count=2)
    )
    assert found.choice is not None
    assert found.choice.added_by_year == (0, 0, 0)
