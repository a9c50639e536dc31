"""Compare estimates of pipelines with measurements of them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.gpu_choice import GpuRequest, find_gpus
from capplan.app.pipelines.answer import PipelineRequest, TracedParts, prepare_pipeline
from capplan.app.plan import PlanContext
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import Unsupported
from capplan.core.numbers import Interval
from capplan.core.pipelines.measured import (
    Judged,
    JudgedPipeline,
    MeasuredPipeline,
    PipelineCalibration,
    PipelineMetric,
    PipelineValidation,
)
from capplan.core.pipelines.prepared import PreparedPipeline
from capplan.core.pipelines.types import Offload
from capplan.core.power import PowerLaw, StepEnergy, step_energy
from capplan.core.workload import Precision, Workload
from capplan.errors import CapplanError
from capplan.specs.fitted import load_pipeline_calibration, load_power_law
from capplan.specs.measurements import read_measured_pipelines
from capplan.units import counted

_PRECISIONS = {
    "": None, "bfloat16": Precision.BF16, "bf16": Precision.BF16, "float16": Precision.FP16, "fp16": Precision.FP16,
    "float32": Precision.FP32, "fp32": Precision.FP32,
}  # fmt: skip


class MeasuredParts:
    """The pipelines of measured rows, each traced once for each of its settings and ways to share it."""

    def __init__(
        self,
        gpus: Iterable[str],
        *,
        pipelines: PipelineCalibration,
        calibration: Path | None = None,
        feedback: Feedback = SILENCE,
        allow_code: bool = False,
    ) -> None:
        """Load the GPUs that rows name, with the calibrations of kernels and of pipelines."""
        self._allow_code = allow_code
        known = find_gpus(GpuRequest()).known
        self.gpus: dict[str, GpuSpec] = {name: known[name] for name in gpus if name in known}
        context = PlanContext.of(
            GpuRequest(specs=tuple(self.gpus.values())), calibration=calibration, feedback=feedback
        )
        self._traced = TracedParts(context=context, calibration=pipelines)
        self._prepared: dict[tuple[object, ...], PreparedPipeline] = {}

    def of(self, row: MeasuredPipeline) -> PreparedPipeline:
        """Return the pipeline of a row, all of whose weights are on the GPU."""
        key = (row.pipeline, tuple(row.settings.items()), row.degrees, row.weights)
        if key not in self._prepared:
            precision = _PRECISIONS.get(row.weights.lower())
            quantised = None if row.weights.lower() in _PRECISIONS else row.weights
            request = PipelineRequest(
                words=row.pipeline,
                settings=row.settings,
                workload=Workload() if precision is None else Workload(precision=precision),
                states_precision=precision is not None,
                weights=quantised,
                offload=Offload.NONE,
                degrees=row.degrees,
                allow_code=self._allow_code,
            )
            self._prepared[key] = prepare_pipeline(request, self._traced)[0]
        return self._prepared[key]


def validate_pipelines(
    files: Iterable[Path], *, calibration: Path | None = None, feedback: Feedback = SILENCE, allow_code: bool = False
) -> PipelineValidation:
    """Estimate every row of measured pipelines."""
    tables = [read_measured_pipelines(path) for path in files]
    skipped = Counter[str]()
    for _, left_out in tables:
        skipped.update(left_out)
    rows = [row for read, _ in tables for row in read]
    parts = MeasuredParts(
        {row.gpu for row in rows},
        pipelines=load_pipeline_calibration(),
        calibration=calibration,
        feedback=feedback,
        allow_code=allow_code,
    )
    judged, law = [], load_power_law()
    with feedback.progress(f"estimating {counted(len(rows), 'pipeline')}"):
        for row in rows:
            try:
                judged.append(_judged(row, parts, law))
            except CapplanError as error:
                skipped[str(error)] += 1
    return PipelineValidation(rows=tuple(judged), skipped=dict(skipped))


def _judged(row: MeasuredPipeline, parts: MeasuredParts, law: PowerLaw) -> JudgedPipeline:
    gpu = parts.gpus.get(row.gpu)
    if gpu is None:
        raise CapplanError(f"no GPU {row.gpu!r} in the database")
    answer = parts.of(row).latencies([gpu], [row.batch])[0]
    if isinstance(answer, Unsupported):
        raise CapplanError(answer.reason)
    latency_s = answer[0].latency_s
    return JudgedPipeline(measured=row, latency_s=latency_s, energy=_judged_energy(row, gpu, latency_s, parts, law))


def _judged_energy(
    row: MeasuredPipeline, gpu: GpuSpec, latency_s: Interval, parts: MeasuredParts, law: PowerLaw
) -> dict[PipelineMetric, Judged]:
    """Judge power at the measured time, and power and energy at the estimated one, where they were read."""
    work = parts.of(row).peak_seconds(gpu, [row.batch])[0] if row.power_w or row.joule_per_item else None
    if work is None:
        return {}

    def energy_of(time_s: Interval) -> StepEnergy | None:
        return step_energy(gpu, work, time_s, law, samples=row.batch, gpus=row.degrees.gpu_count, novelties=frozenset())

    at_time, estimated = energy_of(Interval.exact(row.latency_s)), energy_of(latency_s)
    figures: dict[PipelineMetric, Judged] = {}
    if row.power_w and at_time and estimated:
        figures[PipelineMetric.POWER] = Judged(measured=row.power_w, estimated=at_time.power_w)
        figures[PipelineMetric.POWER_END_TO_END] = Judged(measured=row.power_w, estimated=estimated.power_w)
    if row.joule_per_item and estimated:
        figures[PipelineMetric.JOULES] = Judged(measured=row.joule_per_item, estimated=estimated.joules_per_sample)
    return figures
