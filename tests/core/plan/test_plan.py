"""The plan's logic on one hand-made matrix product whose sizes can be worked out on paper."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.memory.types import FitStatus
from capplan.core.origin import Origin
from capplan.core.plan.planner import Prepared, make_plan
from capplan.core.plan.types import Constraint, Limits, Plan
from capplan.core.power import CapLaw, PowerConstants, PowerLaw
from capplan.core.trace.types import (
    ALWAYS,
    Affine,
    InputTensor,
    Kernel,
    Op,
    Operand,
    Parameter,
    Provenance,
    Recording,
    Role,
    Storage,
    Trace,
)
from capplan.core.workload import Batches, Configuration, Precision, SortKey, Workload, parse_batches

GIB = 2**30
WIDTH = 16384
"""A square fp32 weight of this width has 1 GiB, a row of activations 64 KiB."""


def matrix_trace() -> Trace:
    row = (Affine(0, 1), Affine(WIDTH))
    kernel = Kernel(
        name="aten.mm",
        inputs=(
            Operand(dtype="float32", shape=row),
            Operand(dtype="float32", shape=(Affine(WIDTH), Affine(WIDTH)), is_weight=True),
        ),
        outputs=(Operand(dtype="float32", shape=row),),
    )
    recording = Recording(
        configuration=Configuration(),
        modules=("",),
        kernels=(kernel,),
        ops=(Op(kernel=0, module=0, reads=(0, 1), writes=(2,)),),
        storages=(
            Storage(size_bytes=Affine(0, 4 * WIDTH), role=Role.INPUT, birth=ALWAYS, death=1),
            Storage(size_bytes=Affine(GIB), role=Role.PARAMETER, birth=ALWAYS, death=1, parameter=0),
            Storage(size_bytes=Affine(0, 4 * WIDTH), role=Role.ACTIVATION, birth=0, death=1),
        ),
        batches=(2, 3, 5),
    )
    return Trace(
        name="product",
        target="product.py:Product",
        class_name="Product",
        parameters=(Parameter(names=("weight",), dtype="float32", shape=(WIDTH, WIDTH)),),
        inputs=(InputTensor(name="x", dtype="float32", shape=row),),
        recordings=(recording,),
        provenance=Provenance(capplan_version="0"),
    )


def gpu(name: str, *, memory_gib: int, bandwidth: float = 1e12, flops: float = 1e13) -> GpuSpec:
    return GpuSpec(
        id=name,
        name=name,
        vendor="NVIDIA",
        architecture="turing",
        compute_capability=(7, 5),
        memory_bytes=memory_gib * GIB,
        usable_bytes=memory_gib * GIB,
        memory_bandwidth_bytes_per_s=bandwidth,
        unit_count=40,
        boost_clock_hz=1.5e9,
        l2_bytes=4 * 2**20,
        peak_flops_per_s={PeakKind.FP32: flops},
        tdp_w=200.0,
        pcie_bytes_per_s=16e9,
    )


def planned(
    gpus: Sequence[GpuSpec], words: str, *, limits: Limits | None = None, sort: SortKey = SortKey.THROUGHPUT
) -> Plan:
    batches: Batches = parse_batches(words)
    prepared = Prepared.of(matrix_trace(), Workload(precision=Precision.FP32), calibration=None)
    return make_plan(prepared, gpus=gpus, batches=batches, limits=limits or Limits(), sort=sort)


def test_model_facts_by_hand() -> None:
    model = planned([gpu("a", memory_gib=16)], "1").model
    assert model.macs_per_sample == WIDTH * WIDTH
    assert model.flops_per_sample == 2 * WIDTH * WIDTH
    assert model.weight_bytes == GIB
    assert model.input_bytes_per_sample == 4 * WIDTH
    assert model.activation_peak_bytes == 4 * WIDTH


def test_every_gpu_and_batch_is_a_fit_or_a_rejection() -> None:
    gpus = [gpu("small", memory_gib=1), gpu("large", memory_gib=16)]
    plan = planned(gpus, "1..65536")
    answered = sorted((each.gpu.id, each.batch) for each in (*plan.fits, *plan.rejections))
    assert answered == sorted((each.id, 2**power) for each in gpus for power in range(17))


def test_a_gpu_smaller_than_the_weights_says_by_how_much_and_how_many() -> None:
    rejection = planned([gpu("small", memory_gib=1)], "1").rejections[0]
    assert rejection.constraint is Constraint.MEMORY
    assert rejection.max_batch == 0
    assert rejection.available == pytest.approx(0.9 * GIB)
    assert rejection.needed is not None
    assert rejection.needed > GIB
    # Of 0.9 GiB = 922 MiB the context leaves 922 − 256 = 666 MiB at best: 1024 MiB of weights need two GPUs.
    assert rejection.min_gpus == 2


def test_the_largest_batch_fits_and_the_next_does_not() -> None:
    card = gpu("card", memory_gib=4)
    largest = planned([card], "max").fits[0]
    assert largest.batch == largest.certain_batch <= largest.max_batch
    assert largest.status is FitStatus.FITS
    # weights take 1 of 3.6 GiB; a sample takes 128 KiB of input and output: at most 2.6 GiB / 128 KiB = 21,299
    assert 0.7 * 21_299 < largest.max_batch <= 21_299
    (after,) = planned([card], str(largest.max_batch + 1)).fits
    assert after.status is FitStatus.BORDERLINE
    assert after.memory.total_bytes.expected > 0.9 * 4 * GIB


def test_a_load_takes_as_many_gpus_as_their_slowest_rate_asks_for() -> None:
    plan = planned([gpu("card", memory_gib=4)], "1", limits=Limits(rate_per_s=1000.0))
    (fit,) = plan.fits
    # every GPU carries what it does at the low end of its throughput: 1000 over it, rounded up
    low = fit.batch / fit.latency.latency_s.high
    assert plan.gpus_for_rate(fit) == -int(-1000.0 // low)
    assert plan.usd_per_hour(fit) is None
    assert planned([gpu("card", memory_gib=4)], "1").gpus_for_rate(fit) is None


def test_utilization_moves_the_largest_batch() -> None:
    card = gpu("card", memory_gib=4)
    tight, wide = (planned([card], "1", limits=Limits(utilization_fraction=share)).fits[0] for share in (0.5, 1.0))
    assert tight.max_batch < wide.max_batch


def test_a_latency_limit_below_the_bound_rejects() -> None:
    # the weight alone takes 1 GiB ÷ 1e12 B/s = 1.07 ms to read
    rejection = planned([gpu("card", memory_gib=4)], "1", limits=Limits(max_latency_s=1e-5)).rejections[0]
    assert rejection.constraint is Constraint.LATENCY
    assert rejection.available == pytest.approx(1e-5)


def test_a_throughput_beyond_reach_rejects() -> None:
    # 1e13 FLOP/s ÷ 2·16384² FLOP = 18,626 samples/s at best
    rejection = planned([gpu("card", memory_gib=4)], "1", limits=Limits(min_throughput_per_s=1e6)).rejections[0]
    assert rejection.constraint is Constraint.THROUGHPUT
    # the option that the reason names counts every GPU at the low end of its rate
    plan = planned([gpu("card", memory_gib=4)], "1", limits=Limits(rate_per_s=1e6))
    assert f"{plan.gpus_for_rate(plan.fits[0])} GPUs needed (⟨rate⟩ 1e+06/s)" in rejection.reason


def test_latency_is_never_below_its_bound() -> None:
    fit = planned([gpu("card", memory_gib=4)], "1").fits[0]
    assert fit.latency.bound_s >= GIB / 1e12 * 0.999
    assert fit.latency.latency_s.expected >= fit.latency.bound_s


def test_more_bandwidth_is_never_slower() -> None:
    slow, fast = gpu("slow", memory_gib=4), gpu("fast", memory_gib=4, bandwidth=2e12)
    times = {fit.gpu.id: fit.latency.latency_s.expected for fit in planned([slow, fast], "8").fits}
    assert times["fast"] <= times["slow"]


def test_auto_takes_the_recommended_batch() -> None:
    fit = planned([gpu("card", memory_gib=4)], "auto").fits[0]
    assert fit.batch == fit.recommended_batch
    assert fit.batch <= fit.max_batch


def test_a_latency_limit_lowers_the_recommended_batch() -> None:
    card = gpu("card", memory_gib=4)
    free = planned([card], "auto").fits[0]
    limit_s = free.latency.latency_s.expected / 2
    (held,) = planned([card], "1", limits=Limits(max_latency_s=limit_s)).fits
    assert held.recommended_batch is not None
    assert held.recommended_batch < free.batch


@pytest.mark.parametrize(
    ("sort", "first"), [(SortKey.THROUGHPUT, "fast"), (SortKey.MEMORY, "small"), (SortKey.NAME, "fast")]
)
def test_ranking(sort: SortKey, first: str) -> None:
    gpus = [
        gpu("roomy", memory_gib=64),
        gpu("fast", memory_gib=8, bandwidth=4e12, flops=8e13),
        gpu("small", memory_gib=4),
    ]
    assert planned(gpus, "8", sort=sort).fits[0].gpu.id == first


def test_host_copies_are_told_apart_from_latency() -> None:
    # 32 samples × 64 KiB ÷ 16 GB/s
    fit = planned([gpu("card", memory_gib=4)], "32").fits[0]
    assert fit.host_copy_s == pytest.approx(32 * 65536 / 16e9)


LAW = PowerLaw(
    architectures={},
    others=PowerConstants(
        base_fraction=0.2, top_fraction=1.0, memory=1.0, cache=1.0, compute=9.0, narrow_weight=2.0, log_half_width=0.1
    ),
    origin=Origin(made=date(2026, 11, 23), command="none", sources=(), rows=0),
    capping=CapLaw(low=0.3, exponent=0.5, high=0.7),
)


def powered(*names: str, tdp_w: float = 100.0) -> list[GpuSpec]:
    return [replace(gpu(name, memory_gib=24), tdp_w=tdp_w) for name in names]


def unstated(name: str) -> GpuSpec:
    return replace(gpu(name, memory_gib=24), tdp_w=None)


def energy_plan(
    gpus: Sequence[GpuSpec], *, limits: Limits | None = None, sort: SortKey = SortKey.NAME, cap_w: float | None = None
) -> Plan:
    return make_plan(
        Prepared.of(matrix_trace(), Workload(), calibration=None),
        gpus=gpus,
        batches=parse_batches("64"),
        limits=limits or Limits(),
        sort=sort,
        power_law=replace(LAW, cap_w=cap_w),
    )


def test_energy_of_one_product_is_that_worked_out_on_paper() -> None:
    (fit,) = energy_plan(powered("card")).fits
    time_s = fit.latency.latency_s.expected
    # 2·64·16384² FLOPs at 10 TFLOP/s take 3.436 ms; the weight of 2³⁰ bytes and 2·64 rows of 64 KiB, which the L2 of
    # 4 MiB holds 2 MiB of at most once read and once written, at 1 TB/s between 1.07 and 1.09 ms
    compute, memory = 2 * 64 * 16384**2 / 1e13 / time_s, (2**30 + 2 * 64 * 65536) / 1e12 / time_s
    expected_w = 100 * (0.2 + 0.8 * (1 - math.exp(-(memory + 9 * compute))))
    assert fit.energy is not None
    assert fit.energy.power_w.expected == pytest.approx(expected_w, rel=0.01)
    assert fit.energy.joules_per_sample.expected == pytest.approx(expected_w * time_s / 64, rel=0.01)
    assert fit.energy.power_w.low >= 20
    assert fit.energy.power_w.high <= 100


def test_a_cap_lengthens_products_by_the_root_of_what_it_leaves_of_the_power_above_the_base() -> None:
    (free,), (capped,) = (energy_plan(powered("card"), cap_w=cap_w).fits for cap_w in (None, 60.0))
    assert free.energy is not None
    assert capped.energy is not None
    # the product takes 3.4 ms at its full clock and its bytes 1.1 ms, so that time is the inverse of the clock; its
    # bytes cost 2.0 W (8·7.5 pJ each for 1.08·10⁹ bytes in the time), so little that the exponent of a half decides
    free_w = free.energy.power_w.expected
    factor = capped.latency.latency_s.expected / free.latency.latency_s.expected
    assert factor == pytest.approx(((free_w - 20) / (60 - 20)) ** 0.5, rel=0.35)
    assert factor > 1
    assert capped.energy.power_w.expected == 60
    assert capped.energy.joules_per_sample.expected < free.energy.joules_per_sample.expected
    assert "a limit of 60.0 W" in capped.latency.notes[0]


def test_a_cap_above_the_draw_changes_nothing() -> None:
    assert energy_plan(powered("card"), cap_w=100.0).fits == energy_plan(powered("card")).fits


def test_gpus_that_take_no_such_cap_are_left_out_with_the_reason() -> None:
    made = energy_plan(
        [*powered("card"), *powered("large", tdp_w=500.0), unstated("card of unknown limit")], cap_w=60.0
    )
    assert [fit.gpu.id for fit in made.fits] == ["card"]
    assert {each.gpu.id: each.reason for each in made.rejections} == {
        "large": "large draws 100 W without work, 60.0 W asked",
        "card of unknown limit": "the power limit of card of unknown limit is not known",
    }


def test_a_plan_without_a_law_has_no_energy() -> None:
    made = make_plan(
        Prepared.of(matrix_trace(), Workload(), calibration=None),
        gpus=powered("card"),
        batches=parse_batches("64"),
        limits=Limits(),
    )
    assert made.fits[0].energy is None


def test_a_limit_of_the_draw_rejects_the_larger_card_and_the_one_of_unknown_power() -> None:
    small, large, unknown = powered("small")[0], powered("large", tdp_w=300.0)[0], unstated("unknown")
    made = energy_plan([small, large, unknown], limits=Limits(max_power_draw_w=100.0))
    assert [fit.gpu.id for fit in made.fits] == ["small"]
    assert {each.gpu.id: each.constraint for each in made.rejections} == dict.fromkeys(
        ("large", "unknown"), Constraint.POWER
    )
    drawn = next(each for each in made.rejections if each.gpu.id == "large")
    assert drawn.needed is not None
    assert drawn.needed > 100
    assert drawn.available == 100


def test_the_most_frugal_card_comes_first_and_those_of_unknown_power_last() -> None:
    gpus = [*powered("a-hungry", tdp_w=300.0), unstated("b-unknown"), *powered("c-frugal")]
    made = energy_plan(gpus, sort=SortKey.ENERGY)
    assert [fit.gpu.id for fit in made.fits] == ["c-frugal", "a-hungry", "b-unknown"]


def test_a_plan_that_follows_others_of_its_model_says_what_it_says_alone() -> None:
    gpus = [gpu("small", memory_gib=2), gpu("large", memory_gib=16, bandwidth=2e12)]
    kept = Prepared.of(matrix_trace(), Workload(), calibration=None)

    def answers(prepared: Prepared, words: str, chosen: Sequence[GpuSpec]) -> list[tuple[object, ...]]:
        plan = make_plan(prepared, gpus=chosen, batches=parse_batches(words), limits=Limits(), sort=SortKey.NAME)
        return [
            (fit.gpu.id, fit.batch, fit.max_batch, fit.recommended_batch, fit.latency.latency_s) for fit in plan.fits
        ]

    for words, chosen in (("33", gpus), ("33", gpus[1:]), ("7,4096", gpus), ("max", gpus[:1]), ("auto", gpus)):
        alone = answers(Prepared.of(matrix_trace(), Workload(), calibration=None), words, chosen)
        assert alone
        assert answers(kept, words, chosen) == answers(kept.renewed(), words, chosen) == alone


def test_a_gpu_of_the_same_name_and_another_bandwidth_is_not_taken_for_the_one_that_is_kept() -> None:
    kept = Prepared.of(matrix_trace(), Workload(), calibration=None)
    times = [
        make_plan(kept, gpus=[gpu("card", memory_gib=16, bandwidth=rate)], batches=parse_batches("1"), limits=Limits())
        for rate in (1e12, 5e11)
    ]
    # One row through 1 GiB of weights is bound by the bandwidth, half of which takes twice as long.
    first, second = (plan.fits[0].latency.bound_s for plan in times)
    assert second == pytest.approx(2 * first)
