"""From the words on a command line to what a report is made of: saved plans read, others planned."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capplan.cli.models import ModelWords, obtain_trace
from capplan.core.batches import BatchChoice, Batches
from capplan.core.workload import Workload
from capplan.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from capplan.core.gpus.prices import Price
    from capplan.core.gpus.spec import GpuSpec
    from capplan.report.documents.subject import Subject
    from capplan.report.procurement.types import Measured
    from capplan.specs import Gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What is the same for every model of one report."""

    gpus: tuple[str, ...]
    specs: tuple[Path, ...]
    largest_batches: tuple[int, ...]
    workload: Workload
    utilization_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """Whose prices count: own files over the built-in ones, and all providers and regions unless some are named."""

    files: tuple[Path, ...]
    providers: tuple[str, ...]
    regions: tuple[str, ...]

    def narrow(self, rents: "Sequence[Price]") -> "list[Price]":
        """Keep the offers of the named providers and regions.

        Raises:
            UnknownNameError: no offer has such a provider or region.
        """
        for kind, names, known in (
            ("provider", self.providers, {price.provider for price in rents}),
            ("region", self.regions, {price.region for price in rents}),
        ):
            for name in names:
                if name not in known:
                    raise UnknownNameError(kind, name, known, hint=f"Known: {', '.join(sorted(known))}.")
        return [
            price
            for price in rents
            if (not self.providers or price.provider in self.providers)
            and (not self.regions or price.region in self.regions)
        ]


def read_json(path: str) -> Any:
    """Read a JSON file.

    Raises:
        UsageError: it cannot be read or is no JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise UsageError(f"{path}: is no JSON ({error}).") from error


def obtain_subjects(words: Sequence[ModelWords], conditions: Conditions, gpus: "Gpus") -> "list[Subject]":
    """Give every model's estimates, from its saved plan or by planning it.

    Raises:
        UsageError: a file is no plan, or no such model.
        TraceError: a model could not be traced.
    """
    from capplan.report.documents.subject import read_subject

    chosen = {found.id: found for found in map(gpus.find, conditions.gpus)} or dict(gpus)
    subjects = []
    for model in words:
        documents = read_plans(model.words)
        if documents is None:
            documents = [_plan(model, conditions, chosen)]
        for document in documents:
            subject = read_subject(document, where=model.words)
            subjects.append(_only(subject, chosen) if conditions.gpus else subject)
    return subjects


def read_measured(path: Path) -> "list[Measured]":
    """Read what was timed on GPUs that the database knows.

    Raises:
        UsageError: the file cannot be read.
        MeasurementFileError: it holds no measurements.
    """
    from capplan.core.measurement.format import parse_points
    from capplan.report.procurement.types import Measured

    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    return [
        Measured(
            model=point.model.name,
            gpu=point.device.gpu,
            batch=point.workload.batch,
            latency_s=point.latency.median,
            source=f"{point.device.name}, {point.workload.precision}, torch {point.device.torch}, {point.date.date()}",
        )
        for point in parse_points(content, where=str(path)).measurements
        if point.device.gpu is not None
    ]


def _only(subject: "Subject", chosen: "Mapping[str, GpuSpec]") -> "Subject":
    return replace(
        subject,
        estimates=tuple(each for each in subject.estimates if each.gpu in chosen),
        refusals=tuple(each for each in subject.refusals if each.gpu in chosen),
    )


def read_plans(words: str) -> list[Any] | None:
    """Read the plans of a file that `capplan plan` saved; None where the words name no such file."""
    if not words.endswith(".json") or words.endswith(".trace.json") or ":" in words:
        return None
    document = read_json(words)
    if isinstance(document, dict) and "fits" in document:
        return [document]
    if isinstance(document, list) and document and all(isinstance(each, dict) and "fits" in each for each in document):
        return document
    return None


def _plan(model: ModelWords, conditions: Conditions, gpus: "Mapping[str, GpuSpec]") -> Any:
    """Plan a model at every power of two up to the largest batch, so that what is between can be told."""
    from capplan.core.plan.planner import make_plan
    from capplan.core.plan.types import Limits
    from capplan.report.documents.plan import plan_to_json
    from capplan.specs.calibration import load_calibration
    from capplan.specs.memory_calibration import load_memory_calibration

    largest = max(conditions.largest_batches)
    powers = {2**power for power in range(largest.bit_length())}
    trace = obtain_trace(model, [conditions.workload.configuration])
    exact = trace.recording(conditions.workload.configuration).exact_batch
    if exact is not None:
        raise UsageError(
            f"{model.words} does not grow evenly with the batch; save `capplan plan {model.words} --batch 1,8,32 "
            "--format json -o FILE` and report on FILE."
        )
    sizes = tuple(sorted(powers | set(conditions.largest_batches)))
    made = make_plan(
        trace,
        gpus=list(gpus.values()),
        batches=Batches(choice=BatchChoice.LISTED, sizes=sizes),
        workload=conditions.workload,
        limits=Limits(utilization_fraction=conditions.utilization_fraction),
        calibration=load_calibration(),
        memory_calibration=load_memory_calibration(),
    )
    return plan_to_json(made)
