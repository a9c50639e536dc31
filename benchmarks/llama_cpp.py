"""Learn and judge llama.cpp's constants: `python benchmarks/llama_cpp.py MICROBENCH.csv.gz`.

What products, norms and activations take is learnt from builds of 2024-05, and so is what launching a layer took in
them ("llama.cpp before 2025"). What a layer takes since is learnt from streams that others published of builds of
2025-09 and later (`llama_cpp_streams.csv`, one a row with its source), everything else as it is: the value at which the
median of predicted ÷ measured is 1. Each source left out in turn says how wrong it is.

The rows of 2024-05 are single streams of Llama-3-8B in fp16 and Q4_K_M on 19 GPUs: tokens per second of 1,024
generated tokens (`llama_tg`) and of a prompt of 1,024 (`llama_pp`, two batches of 512). Learnt are what its dense
products reach of peak and bandwidth, what norms and activations move, and what launching a layer takes; everything
else is that of other engines. Errors are those with the GPU left out: the six constants are fitted without it, but the
bound of bytes per clock (`timing/machine.py`), the form of the law and the values at which the fit starts were chosen
with all GPUs in view, so that they are somewhat optimistic.
What is printed stands in `serving/priors.py` and `llm-time.yaml`.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from capplan.app.deployments import Deployments
from capplan.core.numbers import FloatArray
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.calibration import KernelClass, LlmCalibration
from capplan.llm.core.timing.constants import constants_of
from capplan.llm.core.timing.step_time import StepTable, stack, step_table, step_time
from capplan.llm.core.timing.work import Load
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import load_gpus

_START = np.log([0.5, 0.85, 0.5, 0.85, 20.0, 60e-6])
_PRIOR, _ROUND, _NEAR = 0.7, 0.1, 0.05
_BATCH = 512.0
_BEFORE, _OLD = "2024-05", "llama.cpp before 2025"
_STREAMS = Path(__file__).with_name("llama_cpp_streams.csv")
_LAYERS_S = np.arange(5e-6, 80e-6, 0.5e-6)
_WEIGHTS = {"Q4_K_M": "q4_k_m", "fp16": "fp16"}


@dataclass(frozen=True)
class Runs:
    """Steps of all rows, two for each, how often each counts, and the measured times. [s]"""

    table: StepTable
    counts: FloatArray
    measured_s: FloatArray
    gpus: list[str]


def calibration_with(base: LlmCalibration, constants: FloatArray) -> LlmCalibration:
    """Return a calibration with the constants that are learnt, given as logarithms."""
    c16, b16, narrow_c, narrow_b, elements, layer = np.exp(constants)
    kernels = dict(base.kernels)
    for name, compute, bandwidth in ((KernelClass.GGML_16, c16, b16), (KernelClass.GGML_NARROW, narrow_c, narrow_b)):
        kernels[name] = replace(kernels[name], compute_fraction=float(compute), bandwidth_fraction=float(bandwidth))
    engine = replace(base.engines[_OLD], elementwise_bytes=float(elements), layer_s=float(layer))
    return replace(base, kernels=kernels, engines={**base.engines, _OLD: engine})


def runs_of(rows: pd.DataFrame, base: LlmCalibration) -> Runs:
    """Return the steps of the rows."""
    deployments, layout = Deployments(gpus=load_gpus()), constants_of(base).layout
    tables, counts = [], []
    for row in rows.itertuples():
        words = NamedDeployment(
            model="llama-3-8b-instruct", gpu=row.gpu, engine="llama.cpp", weights=_WEIGHTS[row.dtype], kv="fp16",
            sharding=Sharding(), version=_BEFORE,
        )  # fmt: skip
        found = deployments.find(words)
        first = Load.of(decoding=1.0, context=512.0)
        second = first
        if row.kind == "llama_pp":
            first, second = (Load.of(prefilled=_BATCH, prompts=1.0, past=past) for past in (0.0, _BATCH))
        for load in (first, second):
            tables.append(step_table(found.kernels, load, machine=found.machine, layout=layout, engine=_OLD))
        counts.append([0.5, 0.5] if row.kind == "llama_tg" else [1.0, 1.0])
    tokens = np.where(rows.kind == "llama_tg", 1.0, 2 * _BATCH)
    return Runs(stack(tables), np.array(counts), tokens / rows.value.to_numpy(float), list(rows.gpu))


def ratios(runs: Runs, base: LlmCalibration, constants: FloatArray) -> FloatArray:
    """Return predicted ÷ measured of each row."""
    times = step_time(runs.table, constants_of(calibration_with(base, constants))).total_s.reshape(-1, 2)
    return np.asarray((times * runs.counts).sum(axis=1) / runs.measured_s)


def fit(runs: Runs, base: LlmCalibration, kept: FloatArray) -> FloatArray:
    """Return the constants as logarithms by damped least squares on logarithms, rows beyond 5 % by their root."""

    def residuals(constants: FloatArray) -> FloatArray:
        off = np.log(ratios(runs, base, constants))[kept]
        shrunk = off / np.sqrt(np.maximum(np.abs(off), _NEAR) / _NEAR) / _ROUND
        return np.concatenate([shrunk, (constants - _START) / _PRIOR])

    constants, damping = _START.copy(), 1e-2
    for _ in range(40):
        now = residuals(constants)
        steps = 1e-4 * np.eye(len(constants))
        slopes = np.stack([(residuals(constants + step) - now) / 1e-4 for step in steps], axis=1)
        move = np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(constants)), -slopes.T @ now)
        move = np.clip(move, -0.3, 0.3)
        better = (residuals(constants + move) ** 2).sum() < (now**2).sum()
        constants, damping = (constants + move, damping / 2) if better else (constants, damping * 4)
    return constants


def stream_ratios(streams: pd.DataFrame, base: LlmCalibration) -> FloatArray:
    """Return predicted ÷ measured of newer streams with each of `_LAYERS_S` for a layer, [layer time, stream]."""
    deployments, layout, tables = Deployments(gpus=load_gpus()), constants_of(base).layout, []
    for row in streams.itertuples():
        words = NamedDeployment(
            model=row.model, gpu=row.gpu, engine="llama.cpp", weights=row.weights, kv="fp16", sharding=Sharding()
        )
        found = deployments.find(words)
        load = Load.of(decoding=1.0, context=float(row.context))
        tables.append(step_table(found.kernels, load, machine=found.machine, layout=layout, engine="llama.cpp"))
    table, measured_s = stack(tables), 1.0 / streams.tokens_per_s.to_numpy(float)
    ratios = []
    for layer_s in _LAYERS_S:
        engine = replace(base.engines["llama.cpp"], layer_s=float(layer_s))
        constants = constants_of(replace(base, engines={**base.engines, "llama.cpp": engine}))
        ratios.append(step_time(table, constants).total_s / measured_s)
    return np.array(ratios)


def print_streams(base: LlmCalibration) -> None:
    """Print what a layer takes in newer builds, and the errors of each source left out."""
    streams = pd.read_csv(_STREAMS)
    ratios = stream_ratios(streams, base)
    publishers = streams.source.str.split(r"[#,]").str[0].to_numpy()

    def best(kept: NDArray[np.bool_]) -> int:
        return int(np.abs(np.log(np.median(ratios[:, kept], axis=1))).argmin())

    print(f"\nlayer_s since 2025: {_LAYERS_S[best(publishers != '')]:.3g} s, from {len(streams)} streams")
    print("| stream | source | predicted ÷ measured, its source left out |\n| --- | --- | ---: |")
    for index, row in enumerate(streams.itertuples()):
        chosen = best(publishers != publishers[index])
        print(f"| {row.model} {row.weights} on {row.gpu} | {row.source} | {ratios[chosen, index]:.2f} |")


def main() -> None:
    """Print the constants and the errors, the shipped constants' beside them."""
    rows = pd.read_csv(Path(sys.argv[1]))
    rows = rows[rows.kind.str.startswith("llama") & (rows.quality == "A")].reset_index(drop=True)
    base = load_time_calibration()
    runs = runs_of(rows, base)
    gpus = np.array(runs.gpus)
    held_out = np.zeros(len(rows))
    for gpu in sorted(set(runs.gpus)):
        held_out[gpus == gpu] = ratios(runs, base, fit(runs, base, gpus != gpu))[gpus == gpu]
    names = ("16-bit compute", "16-bit bandwidth", "narrow compute", "narrow bandwidth", "element bytes", "layer_s")
    for name, value in zip(names, np.exp(fit(runs, base, gpus != "")), strict=True):
        print(f"{name}: {value:.4g}")
    layout = constants_of(base)
    shipped = step_time(runs.table, layout).total_s.reshape(-1, 2)
    shipped_ratios = (shipped * runs.counts).sum(axis=1) / runs.measured_s
    print(
        "\n| what | n | GPU left out: median, p90, bias | shipped constants: median, p90 |\n| --- | ---: | --- | --- |"
    )
    for (kind, dtype), part in rows.groupby(["kind", "dtype"]):
        left, own = held_out[part.index], shipped_ratios[part.index]
        errors, own_errors = np.abs(left - 1), np.abs(own - 1)
        print(
            f"| {kind} {dtype} | {len(part)} | {np.median(errors):.1%}, {np.quantile(errors, 0.9):.1%}, "
            f"{np.median(left):.2f} | {np.median(own_errors):.1%}, {np.quantile(own_errors, 0.9):.1%} |"
        )
    for factor in (1.422, 4.481):
        print(f"within a factor of {factor}: {np.mean(np.abs(np.log(held_out)) <= np.log(factor)):.1%}")
    print("\n| GPU | rows | predicted ÷ measured, GPU left out |\n| --- | --- | --- |")
    for gpu, part in rows.groupby("gpu"):
        shown = ", ".join(f"{row.kind[6:]} {row.dtype} {held_out[row.Index]:.2f}" for row in part.itertuples())
        print(f"| {gpu} | {len(part)} | {shown} |")
    print_streams(base)


if __name__ == "__main__":
    main()
