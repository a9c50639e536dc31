"""Fit the latency model's constants to measured steps: robust least squares on log errors, with physical priors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.core.calibrate.dataset import FitRows
from capplan.core.latency.calibration import (
    CLASS_FIELDS,
    COUNTED_IN_INSTRUCTIONS,
    PRIOR_CLASSES,
    Calibration,
    ClassConstants,
    DeviceFactors,
    GlobalConstants,
    prior_calibration,
)
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.latency.kernel_time import KernelRates, KernelWork, is_product, kernel_times
from capplan.core.latency.lookup import MANY_ROWS, REFERENCE_ARCHITECTURES, inherited_factors
from capplan.core.numbers import BoolArray, FloatArray, IntArray

Model = Callable[[FloatArray], FloatArray]
Jacobian = NDArray[np.floating[Any]]
Derivatives = Callable[[FloatArray], tuple[FloatArray, Jacobian]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastSquares:
    """Residuals to make small, and what is believed of the parameters beforehand.

    `residuals` maps parameters to residuals in units of their own spread; `derivatives` gives them with
    the Jacobian. `row_weight` weighs rows; beyond `huber` spreads a residual counts linearly.
    """

    residuals: Model
    derivatives: Derivatives
    row_weight: FloatArray
    prior_mean: FloatArray
    prior_sd: FloatArray
    huber: float = 1.0

    def cost(self, parameters: FloatArray) -> float:
        """Return the negative log posterior, up to a constant."""
        residuals = np.abs(self.residuals(parameters))
        loss = np.where(residuals <= self.huber, 0.5 * residuals**2, self.huber * (residuals - 0.5 * self.huber))
        return float(self.row_weight @ loss + 0.5 * (((parameters - self.prior_mean) / self.prior_sd) ** 2).sum())


def minimise(problem: LeastSquares, start: FloatArray, *, iterations: int = 30, tolerance: float = 1e-4) -> FloatArray:
    """Find the most probable parameters; stops when a step improves the cost by less than `tolerance` of it."""
    parameters, cost, damping = start, problem.cost(start), 1e-3
    precision = 1 / problem.prior_sd**2
    for _ in range(iterations):
        residuals, jacobian = problem.derivatives(parameters)
        robust = np.minimum(1.0, problem.huber / np.maximum(np.abs(residuals), 1e-12)) * problem.row_weight
        scaled = jacobian * np.sqrt(robust)[:, None].astype(jacobian.dtype)
        normal = (scaled.T @ scaled).astype(np.float64) + np.diag(precision)
        gradient = jacobian.T @ (robust * residuals) + (parameters - problem.prior_mean) * precision
        accepted = False
        while not accepted and damping < 1e6:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
            candidate = parameters - np.clip(step, -1.0, 1.0)
            candidate_cost = problem.cost(candidate)
            accepted = candidate_cost < cost
            damping = damping / 5 if accepted else damping * 5
        if not accepted:
            return parameters
        gain, parameters, cost = cost - candidate_cost, candidate, candidate_cost
        if gain < tolerance * cost:
            break
    return parameters


SPREAD = 0.08
"""The typical log error of a step's predicted time."""

_FIELD_SD: Mapping[str, float] = {
    "compute": 0.5, "bandwidth": 0.10, "half_k": 0.7, "misaligned": 1.0, "layout_passes": 1.0, "write_weight": 0.3,
    "strided": 1.0,
}  # fmt: skip
_INSTRUCTIONS_SD = 1.0
_GLOBAL_SD: Mapping[str, float] = {
    "l2_hit": 0.3, "l2_reach": 0.5, "l2_sharpness": 0.3, "tile_power": 0.2, "kernel_s": 0.5, "call_s": 0.7,
    "launch_s": 0.7, "convolution_s": 0.7,
}  # fmt: skip
GPU_COMPUTE_SD, GPU_BANDWIDTH_SD = 0.10, 0.10
OTHER_COMPUTE_SD, OTHER_BANDWIDTH_SD = 0.15, 0.10
"""Outside the architectures that fix the constants' scale, whose rows are few and of other software. Microbenchmarks of
GPUs left out are met within 0.1 to 0.2 (docs/evidence/sustained.md), copies within 0.06."""
KNOWN_SHARE = 0.3
"""How much of the priors' spreads is left to constants that a calibration of other rows has fixed. With 0.1, 0.3 and 1
training steps of GPUs left out are 6.0, 5.5 and 5.0 % off; more would forget what thousands of steps showed."""
DEVIATION_SD: Mapping[str, float] = {"architecture": 0.10, "torch": 0.07, "precision": 0.3}


@dataclass(slots=True)
class _Columns:
    """Index of each constant in the parameter vector; -1 where it is not fitted."""

    mean: list[float]
    sd: list[float]
    classes: dict[str, IntArray]
    globals: dict[str, int]
    gpu: dict[str, IntArray]
    deviations: dict[str, IntArray]

    def add(self, mean: float, sd: float) -> int:
        self.mean.append(mean)
        self.sd.append(sd)
        return len(self.mean) - 1


class LatencyFit:
    """The model of `FitRows` as a function of a vector of log constants.

    Where a calibration of other rows is `known`, its constants stand in for the engineering guesses, with narrower
    priors: what these rows say is added to it.
    """

    def __init__(
        self,
        rows: FitRows,
        *,
        deviation_sd: Mapping[str, float] | None = None,
        gpu_sd: float | None = None,
        known: Calibration | None = None,
    ) -> None:
        self.rows = rows
        self._share = 1.0 if known is None else KNOWN_SHARE
        self._gpu_sd = gpu_sd
        self._deviation_sd = deviation_sd if deviation_sd is not None else DEVIATION_SD
        self._start = known or prior_calibration()
        self.columns = self._make_columns()
        # The distinct pairs of row and class among kernels: slopes are summed by them before they are looked up.
        pairs, self._pair_of_kernel = np.unique(rows.row * len(ALL_CLASSES) + rows.label, return_inverse=True)
        self._pair_rows, self._pair_labels = np.divmod(pairs, len(ALL_CLASSES))

    def fit(self, *, start: FloatArray | None = None, iterations: int = 25) -> FloatArray:
        """Find the most probable constants, as a vector of logs."""
        mean, sd = np.array(self.columns.mean), np.array(self.columns.sd)
        problem = LeastSquares(
            residuals=lambda x: self.log_errors(x) / SPREAD,
            derivatives=self._derivatives,
            row_weight=self.rows.weight,
            prior_mean=mean,
            prior_sd=sd,
        )
        return self._recentred(minimise(problem, mean if start is None else start, iterations=iterations))

    def predicted_s(self, x: FloatArray, rows: FitRows | None = None) -> FloatArray:
        """Predict each row's time; other rows than those fitted must share GPU and level names. [s]"""
        rows = rows or self.rows
        rates, constants = self._rates(x, rows)
        return self._steps(rows, rates, constants)[0]

    def host_decides(self, x: FloatArray) -> BoolArray:
        """Return which rows' time the host decides rather than the device."""
        _, device_s, host_s = self._steps(self.rows, *self._rates(x, self.rows))
        return np.asarray(host_s > device_s)

    def log_errors(self, x: FloatArray) -> FloatArray:
        """Return log(predicted ÷ measured) of each row."""
        return np.asarray(np.log(self.predicted_s(x) / self.rows.latency_s))

    def calibration(self, x: FloatArray, *, name: str) -> Calibration:
        """Return the constants as a calibration, without origin and widths."""
        classes = {
            label: ClassConstants(**{field: self._class_value(x, field, index) for field in CLASS_FIELDS})
            for index, label in enumerate(ALL_CLASSES)
        }
        factors = np.exp(self._gpu_values(x))
        gpus = {
            gpu: self._factors(factors, index)
            for index, gpu in enumerate(self.rows.gpu_names)
            if (self.rows.gpu == index).any()
        }
        deviations = {
            f"{kind} {level}": {
                ALL_CLASSES[index]: float(np.exp(x[column]))
                for index, column in enumerate(self.columns.deviations[kind][position])
                if column >= 0
            }
            for kind, levels in self.rows.level_names.items()
            for position, level in enumerate(levels)
            if level and (self.columns.deviations[kind][position] >= 0).any()
        }
        return Calibration(
            name=name, origin=None, constants=self._global_values(x), classes=classes, gpus=gpus, deviations=deviations
        )

    def _make_columns(self) -> _Columns:
        columns = _Columns(mean=[], sd=[], classes={}, globals={}, gpu={}, deviations={})
        present = set(np.unique(self.rows.label).tolist())
        for field in CLASS_FIELDS:
            columns.classes[field] = np.full(len(ALL_CLASSES), -1)
            for index, label in enumerate(ALL_CLASSES):
                value = getattr(self._prior(label), field)
                # a class without arithmetic has none whose efficiency could be told
                is_idle = field == "compute" and not (self.rows.work.flops[self.rows.label == index] > 0).any()
                if index in present and value > 0 and not is_idle:
                    counted = field == "compute" and label in COUNTED_IN_INSTRUCTIONS
                    spread = self._share * (_INSTRUCTIONS_SD if counted else _FIELD_SD[field])
                    columns.classes[field][index] = columns.add(float(np.log(value)), spread)
        for name, sd in _GLOBAL_SD.items():
            value = getattr(self._start.constants, name)
            columns.globals[name] = columns.add(float(np.log(value)), self._share * sd)
        for name, sd, other_sd in (
            ("compute", GPU_COMPUTE_SD, OTHER_COMPUTE_SD), ("bandwidth", GPU_BANDWIDTH_SD, OTHER_BANDWIDTH_SD),
        ):  # fmt: skip
            columns.gpu[name] = np.full(len(self.rows.gpu_names), -1)
            for index in sorted(set(self.rows.gpu.tolist()) - {-1}):
                is_reference = self._architecture(index) in REFERENCE_ARCHITECTURES
                columns.gpu[name][index] = columns.add(0.0, self._gpu_sd or (sd if is_reference else other_sd))
        for kind, sd in self._deviation_sd.items():
            columns.deviations[kind] = self._deviation_columns(columns, kind, sd)
        return columns

    def _prior(self, label: str) -> ClassConstants:
        return self._start.classes.get(label, PRIOR_CLASSES[label])

    def _architecture(self, gpu: int) -> str:
        row = int(np.argmax(self.rows.gpu == gpu))
        return self.rows.level_names["architecture"][int(self.rows.levels["architecture"][row])]

    def _deviation_columns(self, columns: _Columns, kind: str, sd: float) -> IntArray:
        levels = self.rows.levels[kind][self.rows.row]
        found = np.full((len(self.rows.level_names[kind]), len(ALL_CLASSES)), -1)
        pairs = np.unique(np.stack([levels, self.rows.label]), axis=1)
        for level, label in pairs.T:
            if level >= 0:
                found[level, label] = columns.add(0.0, sd)
        return found

    def _class_value(self, x: FloatArray, field: str, index: int) -> float:
        column = self.columns.classes[field][index]
        return float(np.exp(x[column])) if column >= 0 else float(getattr(self._prior(ALL_CLASSES[index]), field))

    def _recentred(self, x: FloatArray) -> FloatArray:
        """Move the mean architecture effect into the class constants, so that an unseen architecture has effect 0.

        Predictions stay as they are where every architecture has the class; the prior splits such a common factor
        between classes and deviations, of which only the first serve a GPU that was not measured.
        """
        columns = self.columns.deviations["architecture"]
        speaking = sorted({
            int(self.rows.levels["architecture"][np.argmax(self.rows.gpu == gpu)]) for gpu in self._speaking_gpus()
        })  # fmt: skip
        moved = np.array(x)
        for label in range(len(ALL_CLASSES)):
            common = [x[columns[level, label]] for level in speaking if columns[level, label] >= 0]
            if not common:
                continue
            shift = float(np.mean(common))
            for field in ("compute", "bandwidth"):
                if self.columns.classes[field][label] >= 0:
                    moved[self.columns.classes[field][label]] += shift
            held = columns[:, label]
            moved[held[held >= 0]] -= shift
        return moved

    def _speaking_gpus(self) -> list[int]:
        """Return the GPUs whose factors are evidence for others of the reference architectures."""
        counts = np.bincount(self.rows.gpu[self.rows.gpu >= 0], minlength=len(self.rows.gpu_names))
        return [
            index
            for index in np.flatnonzero(counts >= MANY_ROWS).tolist()
            if self._architecture(index) in REFERENCE_ARCHITECTURES
        ]

    def _gpu_values(self, x: FloatArray) -> FloatArray:
        return np.stack([_lookup(x, self.columns.gpu[name]) for name in ("compute", "bandwidth")])

    def _row_factors(self, x: FloatArray, rows: FitRows) -> FloatArray:
        """Return compute and bandwidth factors by row, [2, row]; GPUs left out inherit as `lookup` has it."""
        values = np.exp(self._gpu_values(x))
        seen = self.columns.gpu["compute"] >= 0
        if seen[rows.gpu].all():
            return np.asarray(values[:, rows.gpu])
        known = [self._factors(values, index) for index in np.flatnonzero(seen).tolist()]
        found = np.array(values[:, rows.gpu])
        for index in np.unique(rows.gpu[~seen[rows.gpu]]).tolist():
            here = rows.gpu == index
            level = int(rows.levels["architecture"][int(np.argmax(here))])
            architecture = rows.level_names["architecture"][level] if level >= 0 else ""
            inherited = inherited_factors(
                known, architecture, rows.laws.transfer, relatives=rows.relatives.get(architecture, ())
            )
            found[:, here] = [[inherited.compute], [inherited.bandwidth]]
        return found

    def _factors(self, values: FloatArray, gpu: int) -> DeviceFactors:
        own = self.rows.gpu == gpu
        # The position of single precision among the levels; one that no row has where none is in it.
        names = self.rows.level_names["precision"]
        single = names.index("single") if "single" in names else len(names)
        is_step, is_single = self.rows.host_calls > 0, self.rows.levels["precision"] == single
        return DeviceFactors(
            architecture=self._architecture(gpu),
            compute=float(values[0, gpu]),
            bandwidth=float(values[1, gpu]),
            rows=int((own & is_step).sum()),
            single_rows=int((own & is_single).sum()),
            single_steps=int((own & is_step & is_single).sum()),
        )

    def _global_values(self, x: FloatArray) -> GlobalConstants:
        fitted = {name: float(np.exp(x[column])) for name, column in self.columns.globals.items()}
        fitted["l2_hit"] = min(fitted["l2_hit"], 0.95)
        return replace(self._start.constants, **fitted)

    def _rates(self, x: FloatArray, rows: FitRows) -> tuple[KernelRates, GlobalConstants]:
        per_class = {
            field: np.array([self._class_value(x, field, index) for index in range(len(ALL_CLASSES))])[rows.label]
            for field in CLASS_FIELDS
        }
        deviation = np.zeros(len(rows.label))
        for kind, columns in self.columns.deviations.items():
            levels = rows.levels[kind][rows.row]
            values = np.vstack([_lookup(x, columns), np.zeros(len(ALL_CLASSES))])
            deviation += values[levels, rows.label]
        per_class["compute"] = per_class["compute"] * np.exp(deviation)
        per_class["bandwidth"] = per_class["bandwidth"] * np.exp(deviation)
        compute, bandwidth = self._row_factors(x, rows)[:, rows.row]
        rates = KernelRates(
            peak_flops_per_s=rows.peak_flops_per_s * compute,
            bandwidth_bytes_per_s=rows.bandwidth_bytes_per_s * bandwidth,
            l2_bytes=rows.l2_bytes,
            serial_step_s=np.full(len(rows.label), rows.laws.serial_step_s),
            **per_class,
        )
        return rates, self._global_values(x)

    def _steps(
        self, rows: FitRows, rates: KernelRates, constants: GlobalConstants
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Step time, device time and host time by row."""
        return self._joined(rows, kernel_times(rows.work, rates, constants).total_s, constants)

    def _joined(
        self, rows: FitRows, kernel_s: FloatArray, constants: GlobalConstants
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        device_s = np.bincount(rows.row, rows.count * kernel_s, minlength=len(rows.latency_s)).astype(np.float64)
        host_s = constants.call_s * rows.host_calls + constants.launch_s * rows.host_launches
        host_s = host_s + constants.convolution_s * rows.host_convolutions
        return (device_s**4 + host_s**4) ** 0.25, device_s, host_s

    def _derivatives(self, x: FloatArray) -> tuple[FloatArray, Jacobian]:
        rows = self.rows
        rates, constants = self._rates(x, rows)
        slopes = kernel_slopes(rows.work, rates, constants)
        step_s, device_s, host_s = self._joined(rows, slopes.total_s, constants)
        by_device = (device_s / step_s) ** 3 / step_s / SPREAD
        by_host = (host_s / step_s) ** 3 / step_s / SPREAD
        jacobian = np.zeros((len(step_s), len(x)), dtype=np.float32)
        pair_rows = self._pair_rows

        def by_class(values: FloatArray, columns: IntArray) -> None:
            """Add kernels' slopes, summed by row and class, into the column that each pair of these looks up."""
            used = columns >= 0
            summed = np.bincount(self._pair_of_kernel, rows.count * values, minlength=len(pair_rows))
            jacobian[pair_rows[used], columns[used]] += (summed * by_device[pair_rows])[used]

        def by_row(values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(rows.row, rows.count * values, minlength=len(step_s)) * by_device)

        for field in CLASS_FIELDS:
            by_class(slopes.fields[field], self.columns.classes[field][self._pair_labels])
        for kind, columns in self.columns.deviations.items():
            held = np.vstack([columns, np.full(len(ALL_CLASSES), -1)])
            by_class(slopes.rates, held[rows.levels[kind][pair_rows], self._pair_labels])
        for name, values in (("compute", slopes.gpu_compute), ("bandwidth", slopes.gpu_bandwidth)):
            columns = np.append(self.columns.gpu[name], -1)[rows.gpu]
            used = np.flatnonzero(columns >= 0)
            jacobian[used, columns[used]] += by_row(values)[used]
        for name, values in slopes.constants.items():
            jacobian[:, self.columns.globals[name]] = by_row(values)
        for name, amount in (
            ("call_s", rows.host_calls), ("launch_s", rows.host_launches), ("convolution_s", rows.host_convolutions),
        ):  # fmt: skip
            jacobian[:, self.columns.globals[name]] = amount * getattr(constants, name) * by_host
        return np.log(step_s / rows.latency_s) / SPREAD, jacobian


def _lookup(x: FloatArray, columns: IntArray) -> FloatArray:
    return np.where(columns >= 0, x[np.maximum(columns, 0)], 0.0)


_CACHE = ("l2_hit", "l2_reach", "l2_sharpness")
_STEP = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSlopes:
    """Kernels' times and their derivatives by the logarithm of each constant. [s]

    `fields` are the constants of kernel classes, `constants` those that all classes share. `gpu_compute` and
    `gpu_bandwidth` are the GPU's factors on its two roofs, `rates` both at once, as a deviation moves them.
    """

    total_s: FloatArray
    fields: dict[str, FloatArray]
    constants: dict[str, FloatArray]
    gpu_compute: FloatArray
    gpu_bandwidth: FloatArray
    rates: FloatArray


def kernel_slopes(work: KernelWork, rates: KernelRates, constants: GlobalConstants) -> KernelSlopes:
    """Differentiate `kernel_times` by hand, elementwise; the cache's constants by small differences."""
    found = kernel_times(work, rates, constants)
    joined = np.maximum(found.total_s - found.fixed_s, 1e-30)
    joins = is_product(work)
    compute, memory = (np.where(joins, part / joined, 1.0) for part in (found.compute_s, found.memory_s))
    passes = rates.layout_passes * work.foreign_layout * found.missed_bytes / rates.bandwidth_bytes_per_s
    streamed = found.memory_s - passes
    per_byte = (1 + rates.strided * work.strided) * work.stretch / (rates.bandwidth_bytes_per_s * rates.bandwidth)
    missed = found.missed_bytes / np.maximum(work.read_bytes + work.written_bytes, 1.0)
    lost_to_k = rates.half_k / (work.k + rates.half_k)
    by_compute = -compute * found.compute_s
    by_stream = -memory * streamed
    fields = {
        "compute": by_compute,
        "bandwidth": by_stream,
        "half_k": -by_compute * lost_to_k,
        "misaligned": -by_compute * rates.misaligned * work.misaligned,
        "layout_passes": memory * passes,
        "write_weight": memory * rates.write_weight * work.written_bytes * missed * per_byte,
        "strided": -by_stream * rates.strided * work.strided / (1 + rates.strided * work.strided),
    }
    moved = {name: replace(constants, **{name: getattr(constants, name) * float(np.exp(_STEP))}) for name in _CACHE}
    shared = {name: (kernel_times(work, rates, moved[name]).total_s - found.total_s) / _STEP for name in _CACHE}
    shared["tile_power"] = by_compute * constants.tile_power * np.log(work.utilisation)
    shared["kernel_s"] = constants.kernel_s * work.launches
    return KernelSlopes(
        total_s=found.total_s,
        fields=fields,
        constants=shared,
        gpu_compute=by_compute,
        gpu_bandwidth=-memory * found.memory_s,
        rates=by_compute + by_stream,
    )
