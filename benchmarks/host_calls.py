"""Choose how many times as long a call of PyTorch takes on CUDA tensors as on those of the CPU.

    python benchmarks/host_calls.py ../shared/data/measured/latency-curves.csv.gz

writes the section `cuda_call` of `capplan/calibrations/rates.yaml`. It times the calls of `capplan calibrate host` on
the CPU of this machine, predicts steps of one and two samples on CUDA and ROCm GPUs with these costs times each
candidate, and takes the candidate of the smallest mean error over GPUs. The hosts of these steps are older than those
of today: the law of `hosts` in the same file says by how much their calls take longer. What each GPU alone would choose
is printed.
"""

import argparse
from collections import defaultdict
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np

from capplan.app.calibration.validate import predict_steps
from capplan.core.latency.calibration import HostCosts
from capplan.core.latency.lookup import workload_kind
from capplan.probe.measure.microbench import measure_host
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration
from capplan.specs.folders import calibration_file
from capplan.specs.measurements import read_measured
from capplan.specs.rate_laws import RATES_FILE, LawsOrigin, load_rate_laws, replace_sections

FACTORS = tuple(round(2.0 + 0.1 * step, 1) for step in range(51))
_SMALL = 2
"""Samples up to which steps of these six models wait for the host on the GPUs of the data."""


def times(costs: HostCosts, factor: float) -> HostCosts:
    """Return what calls cost on CUDA tensors.

    Args:
        costs: what they cost on the CPU.
        factor: how many times as long they take.
    """
    return replace(
        costs,
        call_s=factor * costs.call_s,
        launch_s=factor * costs.launch_s,
        operators_s={label: factor * cost_s for label, cost_s in costs.operators_s.items()},
    )


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curves", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--made", type=date.fromisoformat, default=date.today())
    words = parser.parse_args()
    gpus, path = load_gpus(), calibration_file(RATES_FILE)
    costs = measure_host(cuda_call=1.0)
    steps = [
        replace(step, workload=replace(step.workload, host=None))  # launched by the host whose calls were timed
        for step in read_measured(words.curves).steps
        if step.batch <= _SMALL and workload_kind(step.workload) == "eager" and gpus.find_or_none(step.gpu) is not None
    ]  # fmt: skip
    errors: dict[float, dict[str, float]] = {}
    for factor in FACTORS:
        calibration = replace(load_calibration(), host=times(costs, factor))
        logs: dict[str, list[float]] = defaultdict(list)
        for judged in predict_steps(steps, gpus=gpus, calibration=calibration, folder=words.traces)[0]:
            logs[judged.step.gpu].append(abs(judged.log_error))
        errors[factor] = {gpu: float(np.median(found)) for gpu, found in logs.items()}
        print(factor, f"{np.mean([*errors[factor].values()]):.3f}", errors[factor], flush=True)
    for gpu in errors[FACTORS[0]]:
        print(f"{gpu} alone: {min(FACTORS, key=lambda factor: errors[factor][gpu])}")
    best = min(FACTORS, key=lambda factor: np.mean([*errors[factor].values()]))
    laws = load_rate_laws(path)
    newest = 2.0 ** ((laws.hosts.reference_year - laws.hosts.last_year) / laws.hosts.halving_years)
    replace_sections(
        path,
        replace(laws, cuda_call=round(best * newest, 1)),
        LawsOrigin(
            sections=("cuda_call",), made=words.made, command="python benchmarks/host_calls.py latency-curves.csv.gz",
            data=f"latency-curves.csv.gz: {len(steps)} steps of 1 and 2 samples on {', '.join(sorted(errors[best]))}; "
            f"{best} times calls on {costs.cpu}, torch {costs.torch}; {newest:.2f} of that on hosts of "
            f"{laws.hosts.last_year:.0f} and later",
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
