"""Slopes of the kernel time model: compared with differences of the model itself."""

from dataclasses import fields, replace

import numpy as np
import pytest

from capplan.core.calibrate.residuals import kernel_slopes
from capplan.core.latency.calibration import CLASS_FIELDS, GlobalConstants
from capplan.core.latency.kernel_time import KernelRates, KernelWork, kernel_times

STEP = 1e-6


def drawn(kind: type, seed: int, low: float, high: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {item.name: rng.uniform(low, high, 40) for item in fields(kind)}


@pytest.fixture
def work() -> KernelWork:
    # half of the kernels are products, with an inner dimension; the others have 1
    values = drawn(KernelWork, 0, 0.2, 1.0)
    scale = {"flops": 1e10, "read_bytes": 5e7, "written_bytes": 5e7, "weight_bytes": 1e6}
    values = {name: value * scale.get(name, 1.0) for name, value in values.items()}
    return KernelWork(**{**values, "k": np.where(np.arange(40) < 20, 1.0, 300.0)})


@pytest.fixture
def rates() -> KernelRates:
    values = drawn(KernelRates, 1, 0.5, 1.5)
    scale = {"peak_flops_per_s": 1e14, "bandwidth_bytes_per_s": 1e12, "l2_bytes": 5e7, "serial_step_s": 3e-7}
    values = {name: value * scale.get(name, 1.0) for name, value in values.items()}
    return KernelRates(**{**values, "half_k": 100 * values["half_k"]})


def differences(work: KernelWork, rates: KernelRates, constants: GlobalConstants, name: str) -> np.ndarray:
    def moved(sign: float) -> np.ndarray:
        factor = np.exp(sign * STEP)
        if name in CLASS_FIELDS:
            return kernel_times(work, replace(rates, **{name: getattr(rates, name) * factor}), constants).total_s
        changed = replace(constants, **{name: getattr(constants, name) * float(factor)})
        return kernel_times(work, rates, changed).total_s

    return np.asarray((moved(1) - moved(-1)) / (2 * STEP))


@pytest.mark.parametrize("name", CLASS_FIELDS)
def test_slopes_of_class_constants_are_those_of_the_model(name: str, work: KernelWork, rates: KernelRates) -> None:
    found = kernel_slopes(work, rates, GlobalConstants()).fields[name]
    np.testing.assert_allclose(found, differences(work, rates, GlobalConstants(), name), rtol=1e-4, atol=1e-10)


@pytest.mark.parametrize("name", ["l2_hit", "l2_reach", "l2_sharpness", "tile_power", "kernel_s"])
def test_slopes_of_shared_constants_are_those_of_the_model(name: str, work: KernelWork, rates: KernelRates) -> None:
    found = kernel_slopes(work, rates, GlobalConstants()).constants[name]
    # the cache's slopes are differences with a step of a thousandth
    np.testing.assert_allclose(found, differences(work, rates, GlobalConstants(), name), rtol=1e-2, atol=1e-9)


def test_a_gpus_bandwidth_moves_conversions_of_layout_too(work: KernelWork, rates: KernelRates) -> None:
    faster = replace(rates, bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s * np.exp(STEP))
    constants = GlobalConstants()
    gained = (kernel_times(work, faster, constants).total_s - kernel_times(work, rates, constants).total_s) / STEP
    np.testing.assert_allclose(kernel_slopes(work, rates, constants).gpu_bandwidth, gained, rtol=1e-4)


def test_pointwise_kernels_add_their_instructions_and_products_overlap_them(
    work: KernelWork, rates: KernelRates
) -> None:
    found = kernel_times(work, rates, GlobalConstants())
    added, overlapped = found.compute_s + found.memory_s, np.hypot(found.compute_s, found.memory_s)
    joined = found.total_s - found.fixed_s
    np.testing.assert_allclose(joined[:20], added[:20])
    np.testing.assert_allclose(joined[20:], overlapped[20:])
