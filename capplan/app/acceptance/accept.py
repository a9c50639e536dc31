"""Compare a delivered machine with a plan: of served language models by benchmarks, of other models by measurements."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from capplan.app.calibration.cpu import CPU_ID
from capplan.app.deployments import Deployments
from capplan.app.feedback import SILENCE, Feedback
from capplan.core.calibrate.device import microbench_rows
from capplan.core.gpus.names import InstalledGpu
from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.acceptance import (
    Acceptance,
    DeliveredGpu,
    FindingMark,
    MachineFinding,
    kernel_findings,
    machine_findings,
    rate_finding,
    time_finding,
)
from capplan.core.measurement.types import DeviceFacts, Measurement
from capplan.core.numbers import Interval
from capplan.errors import UsageError
from capplan.llm.core.search.judged_runs import validate_serving
from capplan.llm.core.serving.cases import MeasuredRun, Metric
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.calibrations import load_time_calibration
from capplan.shapes.codec import from_plain
from capplan.shapes.plan import fits_on, read_plan
from capplan.shapes.types import LlmPlanDocument
from capplan.specs import Gpus
from capplan.specs.rate_laws import load_rate_laws

_METRICS = {"ttft": "TTFT", "tpot": "TPOT", "output_tokens_per_s": "output tokens/s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedMachine:
    """The comparison, and what it rests on: benchmark runs named as the deployment is, or points of another model."""

    acceptance: Acceptance
    gpu: GpuSpec
    runs: tuple[MeasuredRun, ...] = ()
    points: tuple[Measurement, ...] = ()


def is_serving_plan(document: Any) -> bool:
    """Return True for what `capplan llm plan --json` wrote."""
    return isinstance(document, dict) and "recommended" in document and "certainty_fraction" in document


def accept_serving(
    document: Any, where: str, *, gpus: Gpus, machine: Sequence[DeliveredGpu], runs: Sequence[MeasuredRun]
) -> AcceptedMachine:
    """Compare a machine with the recommended deployment of a plan."""
    plan: LlmPlanDocument = from_plain(document, LlmPlanDocument, where=where, noun="plan of serving")
    best = plan.recommended
    if best is None:
        raise UsageError(f"{where}: recommends no deployment that could have been delivered.")
    if not machine and not runs:
        raise UsageError("nothing was recorded; add ⟨machine⟩ with what the driver says, or ⟨benchmark⟩ with results.")
    gpu = gpus.find(best.gpu)
    sharding = Sharding(tensor=best.tp, pipeline=best.pp, expert=best.ep, data=best.dp)
    named = tuple(
        replace(
            run, model=plan.model.name, gpu=best.gpu, engine=best.engine, weights=best.weights, kv=best.kv,
            sharding=sharding, replicas=1,
        )
        for run in runs
    )  # fmt: skip
    findings: list[MachineFinding] = []
    if machine:
        findings += machine_findings(gpu, best.gpus, machine, shares_matrices=sharding.gpus > 1)
    found, skipped = _run_findings(named, gpus)
    missing = [] if machine else ["what the machine is: record nvidia-smi -q, and add it with ⟨machine⟩"]
    missing += [] if runs else ["how fast it is: record a benchmark, and add it with ⟨benchmark⟩"]
    acceptance = Acceptance(
        plan=where,
        machine=f"{best.gpus} × {best.gpu} for {plan.model.name}, {best.words}",
        findings=(*findings, *found),
        missing=(*missing, *skipped),
    )
    return AcceptedMachine(acceptance=acceptance, gpu=gpu, runs=named)


def _run_findings(runs: Sequence[MeasuredRun], gpus: Gpus) -> tuple[list[MachineFinding], list[str]]:
    """Compare each run with what is predicted of the deployment at the load of the run."""
    deployments = Deployments(gpus=gpus)
    judged = validate_serving(runs, find=deployments.find, calibration=load_time_calibration(None))
    found = []
    for each in judged.answers:
        load = f"{each.run.clients:.0f} clients" if each.run.clients else f"{each.run.rate_per_s or 0:g} requests/s"
        lengths = f"{each.run.input_len:.0f} tokens in, {each.run.output_len:.0f} out"
        what = f"{_METRICS.get(str(each.metric), each.metric)}, {load}, {lengths}"
        compare = rate_finding if each.metric is Metric.OUTPUT_TOKENS_PER_S else time_finding
        found.append(compare(what, each.measured, each.predicted, source=each.run.file))
    return found, [f"{skipped.file}: {skipped.reason}" for skipped in judged.skipped]


def accept_measured(
    document: Any, where: str, *, gpu: GpuSpec, batch: int | None, points: Sequence[Measurement],
    machine: Sequence[DeliveredGpu] = (),
) -> AcceptedMachine:  # fmt: skip
    """Compare a machine with a plan of a model that is not served by an engine."""
    plan = read_plan(document, where=where)
    fits = [fit for fit in fits_on(plan, gpu.id) if batch in (None, fit.batch)]
    if not fits:
        raise UsageError(f"{where}: plans nothing for {gpu.id}{'' if batch is None else f' at batch {batch}'}.")
    findings: list[MachineFinding] = list(machine_findings(gpu, 1, machine, shares_matrices=False)) if machine else []
    for point in points:
        device, day = point.device, point.date.date().isoformat()
        findings.append(
            MachineFinding(
                what="device", planned=gpu.name, found=device.name, mark=device_mark(gpu, device), source=day
            )
        )
        for fit in fits:
            if fit.batch == point.workload.batch:
                times = fit.latency_s
                planned = Interval(low=times.low, expected=times.expected, high=times.high)
                what = f"latency, batch {fit.batch}"
                findings.append(time_finding(what, point.latency.median, planned, source=day))
    if not any(finding.what.startswith("latency") for finding in findings):
        sizes = ", ".join(str(fit.batch) for fit in fits)
        raise UsageError(f"nothing that was measured is of a batch of the plan ({sizes}); measure one of them.")
    acceptance = Acceptance(
        plan=where, machine=f"{gpu.name} for {plan.model.name}", findings=tuple(dict.fromkeys(findings))
    )
    return AcceptedMachine(acceptance=acceptance, gpu=gpu, points=tuple(points))


def device_mark(planned: GpuSpec, found: DeviceFacts) -> FindingMark:
    """Return a remark for a device that is none of the known ones, such as a processor of a virtual machine."""
    if found.gpu == planned.id or found.name in {planned.name, planned.id, *planned.aliases}:
        return FindingMark.KEPT
    return FindingMark.REMARK if found.gpu in (None, CPU_ID) else FindingMark.REFUSED


def timed_kernels(gpu: GpuSpec, *, feedback: Feedback = SILENCE) -> tuple[MachineFinding, ...]:
    """Time large products and copies of this machine's first accelerator, which must be a planned GPU.

    Raises:
        UsageError: there is no accelerator here.
    """
    from capplan.app.calibration.at_hand import calibrate_device
    from capplan.probe.measure.devices import devices_at_hand, open_device

    opened = open_device(None)
    if opened.kind == "cpu":
        raise UsageError("⟨kernels⟩ times a GPU, and PyTorch finds none here.")
    name = devices_at_hand()[str(opened.torch_device)]
    is_planned = name in {gpu.name, gpu.id, *gpu.aliases}
    mark = FindingMark.KEPT if is_planned else FindingMark.REFUSED
    device = MachineFinding(what="device that is timed", planned=gpu.name, found=name, mark=mark)
    if not is_planned:
        return (device,)
    measured = calibrate_device(command="", feedback=feedback).benchmark
    rows = microbench_rows(measured, gpu=gpu.id, source=f"this machine, torch {measured.torch}")
    return (device, *kernel_findings(gpu, load_rate_laws().sustained, rows))


def delivered_here(installed: Sequence[InstalledGpu]) -> tuple[DeliveredGpu, ...]:
    """Return the devices of this machine as those of a delivered one."""
    return tuple(
        DeliveredGpu(
            name=device.name,
            memory_bytes=device.driver_total_bytes,
            power_limit_w=device.power_limit_w,
            max_clock_hz=device.max_clock_hz,
            source=f"this machine, by {device.told_by}",
        )
        for device in installed
    )
