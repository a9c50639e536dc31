"""Turn the fits of a plan into the candidates that a procurement decision chooses from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import UNSET

from capplan.core.economics.constraints import Assumption
from capplan.core.economics.options import comes_on_boards
from capplan.core.gpus.attributes import driver_licence, porting_note
from capplan.core.gpus.rate_laws import DataParallelLaws
from capplan.core.gpus.sale import sale_note
from capplan.core.gpus.spec import GpuSpec, Status
from capplan.core.latency.data_parallel import Link, all_reduce_s, link_of
from capplan.core.latency.types import Evidence
from capplan.core.memory.types import FitStatus
from capplan.core.power import PowerLaw
from capplan.core.serving.response import PCIE, BatchPoint, Candidate, HostLimit, SpeedTier
from capplan.core.serving.servers import Exchange
from capplan.core.workload import Mode, Variant
from capplan.shapes.types import PlanDocument, PlannedFit


def candidates_of(
    plan: PlanDocument,
    gpus: Mapping[str, GpuSpec],
    *,
    power_law: PowerLaw,
    data_parallel: DataParallelLaws,
    assumptions: Sequence[Assumption] = (),
    largest_batches: Sequence[int] = (),
) -> tuple[Candidate, ...]:
    """Return the GPUs that hold the model; batches that fit with borderline status are used where no other does."""
    values = {assumption.key: assumption.value for assumption in assumptions}
    fits: dict[str, list[PlannedFit]] = {}
    for fit in sorted(plan.fits, key=lambda candidate: candidate.batch):
        fits.setdefault(fit.gpu, []).append(fit)
    kinds = dict.fromkeys(fit.gpu for fit in plan.fits)
    candidates = (_candidate(fits[gpu], gpus.get(gpu), set(largest_batches), power_law) for gpu in kinds)
    return tuple(
        _surrounded(candidate, plan, gpus.get(candidate.gpu), values, data_parallel)
        for candidate in candidates
        if candidate is not None
    )


def _surrounded(
    candidate: Candidate, plan: PlanDocument, spec: GpuSpec | None, values: Mapping[str, float], laws: DataParallelLaws
) -> Candidate:
    """Return a candidate with what its host and its links allow."""
    pcie_bytes_per_s, input_bytes = spec and spec.pcie_bytes_per_s, plan.model.input_bytes_per_sample
    of_pcie = (
        (HostLimit(name=PCIE, rate_per_s=pcie_bytes_per_s / input_bytes),) if pcie_bytes_per_s and input_bytes else ()
    )
    fed = replace(
        candidate,
        host_limits=of_pcie,
        host_cores=values.get("cpu_cores_per_gpu"),
        exchange=_exchange(plan, spec, values, laws),
    )
    return fed.fed_by(values.get("cpu_ms_per_sample", 0.0) / 1e3)


def _exchange(
    plan: PlanDocument, spec: GpuSpec | None, values: Mapping[str, float], laws: DataParallelLaws
) -> Exchange | None:
    """Return how GPUs of a kind exchange gradients, in a full server of their kind and across servers."""
    if plan.workload.mode is not Mode.TRAINING or "network_gbit_per_gpu" not in values:
        return None
    is_board, is_linked = comes_on_boards(spec.form_factor if spec else None), link_of(spec) in _FAST_LINKS
    gradient_bytes = float(plan.model.weight_bytes)
    if plan.workload.precision.variant is Variant.HALF:
        gradient_bytes = min(gradient_bytes, 2.0 * plan.model.params)
    gpus = int(values["gpus_per_server_sxm" if is_board else "gpus_per_server_pcie"])
    return Exchange(
        gradient_bytes=gradient_bytes,
        inside_s=all_reduce_s(size_bytes=gradient_bytes, gpu=spec, gpu_count=gpus, laws=laws),
        inside_fraction=laws.step_share,
        inside_name=_LINKS.get(spec.vendor, "GPU links") if spec and is_linked else PCIE,
        network_bytes_per_s=values["network_gbit_per_gpu_sxm" if is_board else "network_gbit_per_gpu"] * 1e9 / 8,
    )


_FAST_LINKS = (Link.SWITCHED, Link.MESH)
_LINKS = {"NVIDIA": "NVLink", "AMD": "Infinity Fabric", "Intel": "Gaudi links"}


def _candidate(fits: Sequence[PlannedFit], spec: GpuSpec | None, limits: set[int], law: PowerLaw) -> Candidate | None:
    wanted = [fit for fit in fits if not limits or fit.batch in limits]
    chosen = [fit for fit in wanted if fit.status is FitStatus.FITS] or wanted
    if not chosen:
        return None
    return Candidate(
        gpu=fits[0].gpu,
        name=fits[0].gpu_name,
        tdp_w=spec.tdp_w if spec else None,
        form_factor=spec.form_factor if spec else None,
        points=tuple(
            BatchPoint(
                batch=fit.batch,
                latency_s=fit.latency_s.interval,
                memory_bytes=fit.memory.total_bytes,
                power_w=None if fit.power_w is UNSET else fit.power_w,
            )
            for fit in fits
            if fit.batch <= chosen[-1].batch
        ),
        largest_batches=tuple(fit.batch for fit in chosen),
        speed=speed_tier(fits[0].evidence),
        segment=spec.segment.value if spec and spec.segment else None,
        is_end_of_sale=spec is not None and spec.status is Status.END_OF_SALE,
        not_sold=sale_note(spec) if spec else None,
        licence=driver_licence(spec) if spec else None,
        porting=porting_note(spec) if spec else None,
        path_was_timed=fits[0].evidence in _TIMED_PATHS,
        idle_w=law.of(spec).base_fraction * spec.tdp_w if spec and spec.tdp_w else None,
        power_evidence=evidence if isinstance(evidence := fits[0].power_evidence, str) else _NO_POWER,
    )


_TIMED_PATHS = frozenset({Evidence.MEASURED, Evidence.OTHER_PRECISION, Evidence.ARCHITECTURE})


_NO_POWER = "upper bound: the saved plan holds no power, so that GPUs at work draw their limit; plan it with ⟨energy⟩"


def speed_tier(evidence: Evidence) -> SpeedTier:
    """Return how far a latency can be trusted, by what it rests on."""
    if evidence is Evidence.MEASURED:
        return SpeedTier.MEASURED
    return SpeedTier.SPEC_SHEET if evidence is Evidence.SPEC_SHEET else SpeedTier.TRANSFERRED
