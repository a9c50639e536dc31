"""`measure`: time a model on the device at hand, and compare the measurement with theory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.workload import LARGEST_BATCH, BatchChoice, Batches, BatchSearch, Framework, Precision, TimingMethod
from capplan.errors import CapplanError, MeasurementError, UnknownNameError, UsageError
from capplan.units import counted
from capplan.verbs.statement.contract import Context, Effort, Look, Outcome, Verb
from capplan.verbs.statement.fields import (
    CalibrationFields,
    InputFields,
    Name,
    OwnSpecs,
    RecordingFields,
    batch_sizes,
    from_fields,
    picture_file,
)
from capplan.verbs.statement.options import HERE, Door, Option, Topic
from capplan.verbs.statement.words import NAMES, SIZE_LIMIT, TIME_LIMIT, check_pictures, pictures

if TYPE_CHECKING:
    from capplan.app.measure.request import MeasuredBatches, MeasureRequest
    from capplan.app.measure.run import MeasureAnswer
    from capplan.core.measurement.compare import Pairing
    from capplan.core.measurement.pipeline import PipelineTimes
    from capplan.core.measurement.start import MeasuredStart
    from capplan.core.measurement.types import FailedMeasurement, Measurement
    from capplan.probe.measure.point import Rules
    from capplan.report.sections import Section

_ONE = Batches(choice=BatchChoice.LISTED, sizes=(1,))
MOST_SEARCHED = 65536
"""The largest batch that a search tries, unless another is asked for."""


@dataclass(frozen=True, kw_only=True)
class MeasureQuestion(InputFields, RecordingFields, CalibrationFields):
    """How fast a model runs on the device at hand."""

    methods: Annotated[
        tuple[str, ...],
        Option(
            is_usual=True,
            help="Put timing methods side by side.",
            metavar="naive,sync,event",
            words=NAMES,
            doors=Door.COMMAND,
        ),
    ] = ()
    pipeline: Annotated[
        str | None,
        Option(is_usual=True, help="Time a pipeline's stages instead.", metavar="FILE.py:FUNCTION", doors=Door.COMMAND),
    ] = None
    start: Annotated[
        bool,
        Option(
            is_usual=True,
            help="Time starts instead: new processes (3, or ⟨repetitions⟩) to the first answer, part by part.",
            doors=Door.COMMAND,
        ),
    ] = False
    compare: Annotated[
        tuple[Path, Path] | None,
        Option(help="Compare two measurement files instead.", metavar="A B", doors=Door.COMMAND),
    ] = None
    export: Annotated[
        Path | None,
        Option(help="Show a measurement file instead, in any --format.", metavar="FILE", doors=Door.COMMAND),
    ] = None
    model: Annotated[
        str,
        Option(
            help="As in `capplan plan`; no trace file.", metavar="[MODEL]", topic=Topic.MODEL, is_argument=True,
            completes="models", doors=HERE,
        ),
    ] = ""  # fmt: skip
    batches: Annotated[
        Batches,
        batch_sizes(
            "8, 1,8,32, 1..1024 (powers of two), auto (double until it stops paying), or max (find the largest).",
            doors=HERE,
        ),
    ] = _ONE
    framework: Annotated[
        Framework,
        Option(is_usual=True, help="How the graph is executed.", topic=Topic.WORKLOAD, shows_default=True, doors=HERE),
    ] = Framework.EAGER
    device: Annotated[
        Name | None, Option(is_usual=True, help="cuda:0, xpu, mps, cpu; by default the first accelerator.", doors=HERE)
    ] = None
    warm_up_runs: Annotated[
        int | None,
        Meta(ge=1),
        Option(is_usual=True, help="Warm-up runs; by default until stable.", flags=("--warmup",), doors=HERE),
    ] = None
    repetitions: Annotated[
        int | None,
        Meta(ge=1),
        Option(is_usual=True, help="Repetitions; by default 50 or more until the median is known to 1 %.", doors=HERE),
    ] = None
    budget_s: Annotated[
        float | None,
        Option(
            is_usual=True,
            help="Longest time of one point with its warm-up: 10s, and no limit with ⟨repetitions⟩ alone.",
            flags=("--budget",), metavar="TIME", words=TIME_LIMIT, doors=HERE,
        ),
    ] = None  # fmt: skip
    threads: Annotated[
        int | None,
        Meta(ge=1, le=4096),
        Option(help="Threads of this host that PyTorch computes with; its own default otherwise.", doors=HERE),
    ] = None
    flush_l2: Annotated[bool, Option(help="Displace the L2 cache before each repetition.", doors=HERE)] = False
    autotune: Annotated[bool, Option(help="Let cuDNN time its algorithms first.", doors=HERE)] = False
    search: Annotated[
        BatchSearch,
        Option(help="How ⟨batch⟩ max searches.", metavar="binary|sequential", shows_default=True, doors=HERE),
    ] = BatchSearch.BINARY
    max_batch: Annotated[
        int,
        Meta(ge=1, le=LARGEST_BATCH),
        Option(help="Cap of ⟨batch⟩ auto and max.", shows_default=True, doors=HERE),
    ] = MOST_SEARCHED
    reserve: Annotated[
        float,
        Meta(ge=0.0, le=0.9),
        Option(
            help="Share of the available memory that ⟨batch⟩ max leaves free.", shows_default=True, doors=HERE
        ),
    ] = 0.05  # fmt: skip
    memory_limit_bytes: Annotated[
        float | None,
        Option(
            help="Allocate at most this, such as 4GiB.", flags=("--memory-limit",), metavar="SIZE", words=SIZE_LIMIT,
            doors=HERE,
        ),
    ] = None  # fmt: skip
    isolate: Annotated[bool, Option(help="Measure each point in a process of its own.", doors=HERE)] = False
    timeout_s: Annotated[
        float | None,
        Option(
            help="End an isolated point after this.", flags=("--timeout",), metavar="TIME", words=TIME_LIMIT, doors=HERE
        ),
    ] = None  # fmt: skip
    gpu: Annotated[
        Name | None, Option(help="The device's GPU spec, if its name is unknown.", metavar="ID", doors=HERE)
    ] = None
    specs: OwnSpecs = ()
    profile: Annotated[
        Path | None,
        Option(help="Profile each batch into this folder: operators, Chrome trace.", metavar="DIR", doors=HERE),
    ] = None
    modules: Annotated[
        bool,
        Option(
            is_usual=True,
            help="Time each module by hooks, too, and set its counts and its estimate beside it.",
            doors=HERE,
        ),
    ] = False
    lines: Annotated[
        Path | None, Option(is_usual=True, help="A measurement file that points are appended to.", doors=Door.PYTHON)
    ] = None
    resume: Annotated[bool, Option(help="Skip what the measurement file already holds.", doors=HERE)] = False
    plot: Annotated[
        Path | None, picture_file("Plot the times over the batch, with theory; a pipeline's frame by frame.")
    ] = None

    def curve(self) -> "MeasuredBatches":
        """Return the batches, and how the largest is searched."""
        from capplan.app.measure.request import MeasuredBatches

        return MeasuredBatches(batches=self.batches, search=self.search, at_most=self.max_batch)

    def rules(self) -> "Rules":
        """Return the rules of timing."""
        from capplan.probe.measure.point import Rules
        from capplan.probe.measure.timing import StopRule, WarmUpRule

        return Rules(
            warm_up=WarmUpRule(runs=self.warm_up_runs),
            stop=StopRule(repetitions=self.repetitions, budget_s=self.budget_s),
            flush_l2=self.flush_l2,
            autotune=self.autotune,
        )

    def request(self, context: Context) -> "MeasureRequest":
        """Return the request to measure the model."""
        from capplan.app.measure.request import MeasureRequest
        from capplan.probe.inputs.grammar import ModelRequest
        from capplan.probe.measure.request import MeasurementJob

        source = context.model(self.of(self.model))
        job = MeasurementJob(
            model=ModelRequest(words=self.model),
            precision=self.precision or Precision.FP32,
            framework=self.framework,
            layout=self.layout,
            device=self.device or "",
            threads=self.threads,
            rules=self.rules(),
            allowed_bytes=None if self.memory_limit_bytes is None else int(self.memory_limit_bytes),
            reserve_fraction=self.reserve,
            command=context.command(MEASURE, self),
        )
        gpu = None if self.gpu is None else context.held(self.gpu)
        return from_fields(MeasureRequest, self, job=job, source=source, curve=self.curve(), gpu=gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOutcome:
    """What was measured: a model's points, or one of what is shown instead."""

    question: MeasureQuestion
    points: "MeasureAnswer | None" = None
    methods: "tuple[Measurement | FailedMeasurement, ...]" = ()
    pipelines: "tuple[PipelineTimes, ...]" = ()
    start: "MeasuredStart | None" = None
    pairing: "Pairing | None" = None
    stored: "tuple[Measurement, ...]" = ()

    @property
    def measurements(self) -> "tuple[Measurement, ...]":
        """Return the points of a model that were measured, or that a file holds."""
        from capplan.core.measurement.types import Measurement

        points = (self.methods or self.stored) if self.points is None else self.points.points
        return tuple(point for point in points if isinstance(point, Measurement))


def answer_measure(question: MeasureQuestion, context: Context) -> MeasureOutcome:
    """Return the points of a model: a `Measurement` for each batch, or the `FailedMeasurement` of one that did not run.

    A module is copied, with its weights. A measurement has a bound and an estimate if the GPU database knows its
    device's name, or if `gpu` is given; otherwise one of its notes says why there are none.

    Raises:
        UsageError: there is no such model or file, or the question contradicts itself.
        MeasurementError: there is no such device, or it cannot be used.
    """
    from capplan.app.measure.run import measure, time_methods, time_pipeline, time_starts
    from capplan.app.measure.store import compare_files, stored_measurements

    feedback = context.feedback
    if question.compare is not None:
        return MeasureOutcome(question=question, pairing=compare_files(*question.compare, feedback=feedback))
    if question.export is not None:
        return MeasureOutcome(question=question, stored=stored_measurements(question.export, feedback=feedback))
    if question.pipeline is not None:
        timed = time_pipeline(
            question.pipeline,
            curve=question.curve(),
            device=question.device,
            threads=question.threads,
            rules=question.rules(),
        )
        return MeasureOutcome(question=question, pipelines=timed)
    if question.start:
        started = time_starts(question.request(context), starts=question.repetitions or 3, feedback=feedback)
        return MeasureOutcome(question=question, start=started)
    if question.methods:
        methods = [_method(word) for word in question.methods]
        return MeasureOutcome(
            question=question, methods=tuple(time_methods(question.request(context), methods, feedback=feedback))
        )
    return MeasureOutcome(question=question, points=measure(question.request(context), feedback=feedback))


def _method(word: str) -> TimingMethod:
    known = (TimingMethod.NAIVE, TimingMethod.SYNC, TimingMethod.EVENT)
    if word not in known:
        raise UnknownNameError("timing method", word, known, hint=f"Known: {', '.join(known)}.")
    return TimingMethod(word)


def _finalize(question: MeasureQuestion, _look: Look) -> MeasureQuestion:
    asked = (question.model or None, question.pipeline, question.compare, question.export)
    if sum(thing is not None for thing in asked) != 1:
        raise UsageError("name one thing to do: a MODEL, ⟨pipeline⟩, ⟨compare⟩, or ⟨export⟩.")
    if question.start and (not question.model or question.modules or question.methods or question.plot):
        raise UsageError("⟨start⟩ times starts of a MODEL: drop ⟨modules⟩, ⟨methods⟩ and ⟨plot⟩.")
    if question.modules and (question.compare or question.pipeline or question.methods or question.export):
        raise UsageError("⟨modules⟩ times the modules of a MODEL: drop ⟨methods⟩, ⟨pipeline⟩, ⟨compare⟩ and ⟨export⟩.")
    if question.plot is not None and (question.compare or question.methods):
        raise UsageError(
            "⟨plot⟩ draws the times of a MODEL, of ⟨pipeline⟩ or of ⟨export⟩: drop ⟨methods⟩ and ⟨compare⟩."
        )
    if question.pipeline or question.methods or question.start:
        if question.lines is not None:
            raise UsageError("⟨methods⟩, ⟨pipeline⟩ and ⟨start⟩ have no points for a measurement file.")
        if question.resume:
            raise UsageError("⟨resume⟩ needs the measurement file to go on with: add -o FILE.jsonl.")
    check_pictures(question.plot)
    return question


def _sections(answers: Sequence[MeasureOutcome], _question: MeasureQuestion) -> "Iterable[Section]":
    from capplan.report.text.measurement import (
        measurement_sections,
        method_sections,
        pairing_sections,
        pipeline_sections,
        start_sections,
    )

    measured = answers[0]
    if measured.pairing is not None:
        return pairing_sections(measured.pairing)
    if measured.pipelines:
        return pipeline_sections(measured.pipelines)
    if measured.start is not None:
        return start_sections(measured.start)
    if measured.methods:
        return method_sections(measured.measurements)
    profiles = measured.points.profiles if measured.points is not None else ()
    modules = measured.points.modules if measured.points is not None else ()
    return measurement_sections(measured.measurements, profiles, modules) if measured.measurements or profiles else []


def _document(answers: Sequence[MeasureOutcome], _question: MeasureQuestion) -> Any:
    from capplan.core.measurement.format import points_to_json
    from capplan.shapes.measurement import COMPARISONS
    from capplan.shapes.pipelines import ALL_TIMED, MEASURED_START

    measured = answers[0]
    if measured.pairing is not None:
        return COMPARISONS.document(measured.pairing)
    if measured.pipelines:
        return ALL_TIMED.document(measured.pipelines)
    if measured.start is not None:
        return MEASURED_START.document(measured.start)
    if measured.points is None:
        return points_to_json(list(measured.methods or measured.stored))
    profiles, modules = measured.points.profiles, measured.points.modules
    profiled = {"profiles": profiles} if profiles else {}
    by_module = {"modules": modules} if modules else {}
    return {**points_to_json(list(measured.points.points)), **profiled, **by_module}


def _files(answers: Sequence[MeasureOutcome], question: MeasureQuestion) -> Mapping[Path, bytes]:
    measurements = answers[0].measurements
    if question.plot is None or not (measurements or answers[0].pipelines):
        return {}
    from capplan.report.charts.plots import measurement_chart, pipeline_chart

    if answers[0].pipelines:
        return pictures({question.plot: pipeline_chart(answers[0].pipelines)})
    return pictures({question.plot: measurement_chart(measurements)})


def _outcome(measured: MeasureOutcome) -> Outcome:
    """Name what could not be measured, and what ended the run before its last point."""
    from capplan.core.measurement.types import FailedMeasurement

    if measured.pairing is not None:
        return Outcome(warnings=tuple(_only_in(measured.pairing, measured.question.compare)))
    points = measured.points
    if points is not None and isinstance(points.ended_by, KeyboardInterrupt):
        lines = measured.question.lines
        kept = f" in {lines}; ⟨resume⟩ goes on" if lines else ""
        sentence = f"capplan: interrupted; {counted(len(points.points), 'point')} kept{kept}."
        return Outcome(exit_code=130, warnings=(sentence,))
    if points is not None and isinstance(points.ended_by, CapplanError):
        return Outcome(exit_code=points.ended_by.exit_code, warnings=(f"capplan: {points.ended_by}",))
    failures = [
        point for point in (points.points if points else measured.methods) if isinstance(point, FailedMeasurement)
    ]
    return Outcome(
        exit_code=MeasurementError.exit_code if failures else 0,
        warnings=tuple(f"capplan: {failure.message}" for failure in failures),
    )


def _only_in(pairing: "Pairing", files: tuple[Path, Path] | None) -> Iterable[str]:
    """Return a sentence for each file that holds points which the other lacks."""
    for file, alone in zip(files or (), (pairing.only_first, pairing.only_second), strict=True):
        if alone:
            names = (
                f"{point.model.words} at batch {point.workload.batch} in {point.workload.precision}" for point in alone
            )
            yield f"only in {file}: {', '.join(names)}."


def _in_python(measured: MeasureOutcome) -> "tuple[Measurement | FailedMeasurement, ...]":
    assert measured.points is not None
    if measured.points.ended_by is not None:
        raise measured.points.ended_by
    return measured.points.points


MEASURE = Verb(
    path="measure",
    question=MeasureQuestion,
    summary="Time a model on the device at hand, and compare the measurement with theory.\n\n"
    "With -o FILE.jsonl every point is appended to that measurement file as it finishes; ⟨resume⟩ goes on where a run "
    "was interrupted. Exit codes: 4 where a point could not be measured (the others are kept), 130 when interrupted "
    "(what was measured is kept).",
    examples=(
        "capplan measure resnet50 --batch 1,8,32 --precision fp16 -o runs.jsonl",
        "capplan measure timm:efficientnet_b0 --batch max --isolate --timeout 2min",
        "capplan measure resnet50 --methods naive,sync,event",
        "capplan measure resnet50 --modules --batch 8",
        "capplan measure resnet50 --start --framework compile",
        "capplan measure --compare before.jsonl after.jsonl",
        "capplan measure --export runs.jsonl --format csv -o measured.csv",
        "capplan measure --export runs.jsonl --plot measured.svg",
    ),
    answer=answer_measure,
    finalize=_finalize,
    sections=_sections,
    document=_document,
    files=_files,
    outcome=_outcome,
    appends_to=lambda question, path: replace(question, lines=path) if path.suffix == ".jsonl" else None,
    is_local=True,
    effort=Effort.LONG,
    in_python=_in_python,
    returns="capplan.core.measurement.types:Point[]",
)
