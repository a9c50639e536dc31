"""The fit recovers what made its data: steps simulated from known constants."""

from dataclasses import replace

import numpy as np
import pytest

from capplan.core.calibrate.fit import fit_rows
from capplan.core.calibrate.kernels import kernel_step, linear_kernel
from capplan.core.calibrate.residuals import LatencyFit, LeastSquares, minimise
from capplan.core.gpus.spec import MeasuredRate, Microbenchmark, Quality, Regime
from capplan.core.latency.calibration import DeviceFactors, HostCosts, IntervalWidth, prior_calibration
from capplan.core.latency.classes import CLASS_INDEX, LINEAR
from capplan.core.latency.lookup import inherited_factors, interval_sides, resolve_constants
from capplan.core.workload import Precision, Workload
from tests.core.latency.latency_cases import LAWS, gpu


def test_least_squares_finds_the_posterior_of_a_linear_model():
    # y = a x with x = 1, 2, 3 and y = 2, 4, 6, unit spread, prior a ~ N(0, 1): a = Σxy / (Σx² + 1) = 28 / 15.
    x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])
    problem = LeastSquares(
        residuals=lambda p: p[0] * x - y,
        derivatives=lambda p: (p[0] * x - y, x[:, None]),
        row_weight=np.ones(3),
        prior_mean=np.zeros(1),
        prior_sd=np.ones(1),
        huber=100.0,
    )
    assert minimise(problem, np.zeros(1), tolerance=1e-12)[0] == pytest.approx(28 / 15, rel=1e-6)


def test_an_outlier_counts_linearly():
    # Ten zeros and one 1000: the robust mean stays within a few spreads of 0, the plain one is 91.
    y = np.array([0.0] * 10 + [1000.0])
    problem = LeastSquares(
        residuals=lambda p: p[0] - y,
        derivatives=lambda p: (p[0] - y, np.ones((11, 1))),
        row_weight=np.ones(11),
        prior_mean=np.zeros(1),
        prior_sd=np.full(1, 1e3),
    )
    assert abs(minimise(problem, np.zeros(1), iterations=100)[0]) < 1


def simulated_steps(*, slowdown: float):
    """Matrix products that the prior model times, all slower by one factor."""
    shapes = [(m, n, k) for m in (1024, 4096, 16384) for n in (2048, 8192) for k in (1024, 4096)]
    steps = [kernel_step(linear_kernel(gpu="round", m=m, n=n, k=k, latency_s=1.0), gpu(), LAWS) for m, n, k in shapes]
    fit = LatencyFit(fit_rows(steps, LAWS))
    times = fit.predicted_s(np.array(fit.columns.mean))
    return [replace(step, latency_s=slowdown * float(t), weight=1.0) for step, t in zip(steps, times, strict=True)]


def test_the_fit_recovers_a_slower_class():
    fit = LatencyFit(fit_rows(simulated_steps(slowdown=1.25), LAWS))
    found = fit.fit(iterations=50)
    assert np.abs(np.expm1(fit.log_errors(found))).max() < 0.03


def test_a_fitted_calibration_is_resolved_for_its_gpu():
    fit = LatencyFit(fit_rows(simulated_steps(slowdown=1.25), LAWS))
    calibration = fit.calibration(fit.fit(iterations=50), name="simulated")
    (resolved,) = resolve_constants(calibration, [gpu()], Workload(precision=Precision.BF16))
    (prior,) = resolve_constants(
        LatencyFit(fit.rows).calibration(np.array(fit.columns.mean), name="prior"),
        [gpu()],
        Workload(precision=Precision.BF16),
    )
    speed = resolved.compute[CLASS_INDEX[LINEAR]] * resolved.gpu_compute
    before = prior.compute[CLASS_INDEX[LINEAR]] * prior.gpu_compute
    assert speed / before == pytest.approx(1 / 1.25, rel=0.1)


def test_what_reference_architectures_share_belongs_to_the_class(monkeypatch):
    # Two architectures, both 1.3 times slower than the prior: an unseen third must be taken to be so, too.
    monkeypatch.setattr("capplan.core.calibrate.residuals.MANY_ROWS", 5)
    steps = [
        replace(step, gpu=name, levels={**step.levels, "architecture": architecture})
        for name, architecture in (("one", "8.6"), ("two", "8.9"))
        for step in simulated_steps(slowdown=1.3)
    ]
    fit = LatencyFit(fit_rows(steps, LAWS))
    found = fit.calibration(fit.fit(iterations=50), name="simulated")
    shared = [np.log(found.deviations[f"architecture {name}"][LINEAR]) for name in ("8.6", "8.9")]
    assert sum(shared) == pytest.approx(0, abs=1e-9)


def test_a_gpu_of_few_rows_has_their_width():
    widths = {
        "device nchw": width(0.1, 0.12, rows=5000),
        "device few rows": width(0.3, 0.32, rows=100),
    }
    for rows, expected in ((40, 0.3), (600, 0.1)):
        calibration = replace(
            prior_calibration(), widths=widths, deviations={"architecture 8.0": {}, "torch 2.9": {}},
            gpus={"round": DeviceFactors(architecture="8.0", rows=rows)},
        )  # fmt: skip
        workload = Workload(precision=Precision.FP16, torch_version=(2, 9))
        device, _ = interval_sides(calibration, gpu(), workload)
        assert (device.below, device.above) == pytest.approx((expected, expected + 0.02))


def width(below: float, above: float, *, between_gpus: float = 0.0, between_sheets: float = 0.0, rows: int = 5000):
    """One cell's interval sides; other architectures spread as the reference ones do."""
    return IntervalWidth(
        below=below, above=above, between_gpus=between_gpus, between_sheets=between_sheets,
        between_others=between_gpus, between_other_sheets=between_sheets, rows=rows,
    )  # fmt: skip


def test_microbenchmarks_narrow_the_interval_of_a_gpu_without_timed_steps():
    # √(0.1² + 0.12²) with a timed matrix product, √(0.1² + 0.24²) from the spec sheet alone.
    calibration = replace(
        prior_calibration(),
        widths={"device nchw": width(0.1, 0.1, between_gpus=0.12, between_sheets=0.24)},
        deviations={"architecture 8.0": {}, "torch 2.9": {}},
    )
    workload = Workload(precision=Precision.FP16, torch_version=(2, 9))
    timed = MeasuredRate(value=80e12, quality=Quality.A, regime=Regime.SUSTAINED)
    with_own = gpu(measured={Microbenchmark.MATMUL_HALF: timed})
    assert interval_sides(calibration, with_own, workload)[0].above == pytest.approx(0.1562, abs=1e-4)
    assert interval_sides(calibration, gpu(), workload)[0].above == pytest.approx(0.26)


def test_a_host_that_was_not_timed_widens_the_interval_of_steps_that_wait_for_it():
    # √(0.2² + 0.15²) = 0.25: whoever asks has another host than those that were timed, on a GPU with rows of large
    # batches as on one with a few whole curves. With the host's own costs the rows' own spread of 0.2 stands.
    cell = replace(width(0.2, 0.2), between_others=0.15)
    calibration = replace(
        prior_calibration(),
        widths={"launches": cell, "device nchw": width(0.1, 0.1)},
        deviations={"architecture 8.0": {}, "torch 2.9": {}},
        gpus={"round": DeviceFactors(architecture="8.0", rows=600)},
    )
    workload = Workload(precision=Precision.FP16, torch_version=(2, 9))
    assert interval_sides(calibration, gpu(), workload)[1].above == pytest.approx(0.25)
    costs = HostCosts(cpu="CPU", torch="2.9", call_s=1e-6, launch_s=1e-6, operators_s={"linear": 1e-5})
    assert interval_sides(replace(calibration, host=costs), gpu(), workload)[1].above == pytest.approx(0.2)
    few = replace(calibration, gpus={"round": DeviceFactors(architecture="8.0", rows=40)})
    assert interval_sides(few, gpu(), workload)[1].above == pytest.approx(0.25)


def test_a_torch_version_before_all_that_were_timed_widens_the_interval_more():
    laws = replace(LAWS, transfer=replace(LAWS.transfer, torch_half_width={"eager": 0.05}), older_torch_half_width=0.12)
    calibration = replace(
        prior_calibration(), widths={"device nchw": width(0.16, 0.16)}, laws=laws,
        deviations={"architecture 8.0": {}, "torch 1.9": {}, "torch 2.9": {}},
        gpus={"round": DeviceFactors(architecture="8.0", rows=600)},
    )  # fmt: skip
    # 1.9 itself; between and after: √(0.16² + 0.05²); before: √(0.16² + 0.12²) = 0.2
    for version, expected in (((1, 9), 0.16), ((2, 1), 0.16763), ((2, 11), 0.16763), ((1, 4), 0.2)):
        workload = Workload(precision=Precision.FP16, torch_version=version)
        assert interval_sides(calibration, gpu(), workload)[0].above == pytest.approx(expected, abs=1e-5)


def test_a_gpu_inherits_most_of_its_architectures_factors():
    # Reference GPUs have (1.0 · 1.44)^½ = 1.2 in common. The rich one of 8.9 counts three times against it once:
    # 1.44^¾ · 1.2^¼ = 1.3757. No GPU of 9.0 was timed: what all have in common.
    known = [
        DeviceFactors(architecture="8.6", compute=1.0, rows=5000),
        DeviceFactors(architecture="8.9", compute=1.44, rows=5000),
    ]
    assert inherited_factors(known, "8.9", LAWS.transfer, relatives=()).compute == pytest.approx(1.3757, abs=1e-3)
    assert inherited_factors(known, "9.0", LAWS.transfer, relatives=()).compute == pytest.approx(1.2)
