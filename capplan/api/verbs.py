"""The use cases for Python callers: the verbs of the command line, with the same behaviour.

Every function takes a model (words as on the command line, an `nn.Module`, or a trace) and options by name. Options
of a model, for every function that takes one:

    arguments: the constructor's or config's arguments, by name.
    inputs: words of the input grammar ("x=3x224x224", "ids=int64:Nx128"), or, for a module, a function of the batch
        size that returns what the model takes.
    input_size: the shape of one image without the batch, such as (3, 640, 640).
    seq_len: tokens per sample.

Options of the workload:

    precision: "fp32", "tf32", "fp32-ieee", "fp16", "bf16", "amp-fp16" or "amp-bf16".
    framework: "eager", "compile" or "compile-graphs".
    layout: "nchw" or "nhwc".
    training: a `Training` for training steps, None for inference.
    torch_version: (major, minor) of the PyTorch to answer for.

Options of GPUs:

    gpus: what `load_gpus` returned, or ids and `GpuSpec`s; all GPUs of the database by default.
    specs: folders and files of own specs and prices, laid over the built-in ones.

Importing this module loads neither torch nor numpy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

if TYPE_CHECKING:
    from torch import nn

    from capplan.app.analyze import AnalyzeAnswer
    from capplan.app.answers import PlanAnswer
    from capplan.app.estimate import EstimateAnswer
    from capplan.app.gpus import GpuRequest
    from capplan.app.models import ModelSource
    from capplan.app.validate import ValidateAnswer
    from capplan.core.batches import Batches
    from capplan.core.calibrate.fit import FittedCalibration
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.measurement.types import Point
    from capplan.core.memory.sharding import Sharding
    from capplan.core.memory.summary import MemoryAnswer
    from capplan.core.ops.flops import Formulas
    from capplan.core.trace.types import Trace
    from capplan.core.workload import Training, Workload
    from capplan.report.procurement.types import Report
    from capplan.specs import Gpus

    ModelLike = str | nn.Module | Trace
    GpusLike = Gpus | Iterable[GpuSpec | str]
    Made = dict[str, Any]


Word = TypeVar("Word", bound=StrEnum)


class ModelOptions(TypedDict, total=False):
    """A model's arguments and inputs."""

    arguments: Mapping[str, Any]
    inputs: Sequence[str] | Callable[[int], Any]
    input_size: Sequence[int]
    seq_len: int


class WorkloadOptions(ModelOptions, total=False):
    """A model's arguments and inputs, and the conditions under which it runs."""

    precision: str
    framework: str
    layout: str
    training: "Training | None"
    torch_version: tuple[int, int]


class GpuOptions(WorkloadOptions, total=False):
    """A model, its conditions, and the GPUs."""

    gpus: "GpusLike"
    specs: Sequence[Path]


class TraceOptions(ModelOptions, total=False):
    """What is recorded: number formats, memory format, training steps, the only batch, formulas of own operators."""

    precisions: Iterable[str]
    layout: str
    training: "Training | None"
    exact_batch: int
    formulas: "Formulas"
    anonymous: bool


class AnalyzeOptions(ModelOptions, total=False):
    """What is counted: batch, number format, depth of the module view, other counters beside."""

    batch: int
    precision: str
    layout: str
    training: "Training | None"
    depth: int
    compare: bool
    strict: bool


class PlanOptions(GpuOptions, total=False):
    """Limits of a plan: share of memory that may be filled, latency [s], throughput [samples/s]; and its order."""

    utilization_fraction: float
    max_latency_s: float
    min_throughput_per_s: float
    sort: str
    strict: bool


class MemoryOptions(GpuOptions, total=False):
    """Share of memory that may be filled, GPUs that share the work and how, the allocator, advice."""

    utilization_fraction: float
    rank_count: int
    shardings: "Iterable[str | Sharding]"
    expandable_segments: bool
    advice: bool
    strict: bool


class EstimateOptions(GpuOptions, total=False):
    """An own calibration file, the gain that defines the knee, other frameworks beside."""

    calibration: Path
    gain_fraction: float
    compare_frameworks: bool


class ReportOptions(GpuOptions, total=False):
    """The load, own prices, providers and regions, measurements beside, the title."""

    load: Path
    prices: Sequence[Path]
    providers: Sequence[str]
    regions: Sequence[str]
    measured: Sequence[Path]
    utilization_fraction: float
    title: str


class MeasureOptions(ModelOptions, total=False):
    """How a model is timed: conditions, rules of timing, limits of memory [bytes], file of points, theory beside."""

    device: str
    precision: str
    framework: str
    layout: str
    warm_up_runs: int
    repetitions: int
    budget_s: float
    flush_l2: bool
    autotune: bool
    max_batch: int
    memory_limit_bytes: int
    isolate: bool
    timeout_s: float
    lines: Path
    resume: bool
    profile: Path
    gpu: "GpuSpec | str"
    specs: Sequence[Path]
    calibration: Path


def trace(model: "ModelLike", **options: Unpack[TraceOptions]) -> "Trace":
    """Trace a model on the meta device: one recording for each variant of the number formats.

    Args:
        model: words as on the command line, or an `nn.Module`.
        **options: those of a model; `precisions` ("fp32" by default), `layout`, `training`; `exact_batch`, the only
            batch to trace at; `formulas`, which count the FLOPs of operators that capplan does not know, by name
            (`my::op`), as functions of an `OperatorCall`; `anonymous`, to drop the names of modules and parameters.

    Raises:
        UsageError: there is no such model, or it does not take these arguments and inputs.
        TraceError: the model could not be traced.
    """
    from capplan.app.trace import TraceRequest
    from capplan.app.trace import trace as make_trace
    from capplan.core.workload import Configuration, Layout, Precision

    left: Made = dict(options)
    variants = dict.fromkeys(
        _choose(Precision, each, "precision").variant for each in left.pop("precisions", ("fp32",))
    )
    layout, training = _choose(Layout, left.pop("layout", "nchw"), "layout"), left.pop("training", None)
    request = TraceRequest(
        model=_source(model, left),
        configurations=tuple(Configuration(variant=each, layout=layout, training=training) for each in variants),
        exact_batch=left.pop("exact_batch", None),
        formulas=left.pop("formulas", None) or {},
        is_anonymous=left.pop("anonymous", False),
    )
    _refuse_unknown("trace", left)
    return make_trace(request)


def load_trace(path: str | Path) -> "Trace":
    """Read a trace file; needs neither torch nor the model.

    Args:
        path: what `capplan trace` wrote.

    Raises:
        TraceFileError: it is truncated, damaged, not a trace, or written by a newer capplan.
    """
    from capplan.core.trace.format import load_trace as parse_trace

    return parse_trace(Path(path).read_bytes(), where=str(path))


def load_gpus(*, overlays: Sequence[Path] = ()) -> "Gpus":
    """Read the GPU database, own specs laid over it.

    Args:
        overlays: folders and files of own specs; the last wins.

    Raises:
        SpecError: a spec file does not hold what it must.
    """
    from capplan.specs import load_gpus as read_gpus

    return read_gpus(overlays=overlays)


def analyze(model: "ModelLike", **options: Unpack[AnalyzeOptions]) -> "AnalyzeAnswer":
    """Count a model's parameters, MACs, FLOPs and bytes, by operator and by module.

    Args:
        model: words as on the command line, an `nn.Module`, or a trace.
        **options: those of a model; `batch` (1 by default), `precision`, `layout`, `training`; `depth` of the module
            view; `compare`, to count by thop, fvcore and torch's counter too; `strict`, to refuse a model with
            operators that could not be counted.

    Raises:
        UsageError: there is no such model.
        TraceError: the model could not be traced, or is refused by `strict`.
    """
    from capplan.app.analyze import AnalyzeRequest
    from capplan.app.analyze import analyze as count

    left: Made = dict(options)
    request = AnalyzeRequest(
        model=_source(model, left),
        batch=left.pop("batch", 1),
        configuration=_workload(left).configuration,
        depth=left.pop("depth", None),
        compares_counters=left.pop("compare", False),
        is_strict=left.pop("strict", False),
    )
    _refuse_unknown("analyze", left)
    return count(request)


def plan(model: "ModelLike", *, batches: Sequence[int] | str = "auto", **options: Unpack[PlanOptions]) -> "PlanAnswer":
    """Return for every GPU and batch whether it fits, how fast it is and what binds it, and which GPUs to take.

    The answer prints as the short answer of the command line, and shows it in a notebook. `best()` is the recommended
    fit, `to_frame()` everything as a pandas frame. A model that does not scale with the batch is traced anew at every
    batch listed.

    Args:
        model: words as on the command line, an `nn.Module`, or a trace.
        batches: sizes, or words as on the command line: "1,8,32", "1..1024", "auto" (the recommended batch of each
            GPU) or "max".
        **options: those of a model, of the workload and of GPUs; `utilization_fraction` of usable memory that may be
            filled, `max_latency_s`, `min_throughput_per_s`; `sort` by "throughput", "latency", "memory", "cost" or
            "name"; `strict`, to refuse a model with operators that could not be counted.

    Raises:
        UsageError: there is no such model or GPU.
        TraceError: the model could not be traced, or is refused by `strict`.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    from capplan.app.answers import PlanAnswer
    from capplan.app.plan import PlanRequest
    from capplan.app.plan import plan as make_plans
    from capplan.core.plan.types import DEFAULT_UTILIZATION, Limits, SortKey

    left: Made = dict(options)
    request = PlanRequest(
        models=(_source(model, left),),
        gpus=_gpu_request(left),
        batches=_batches(batches),
        tries_half="precision" not in left and left.get("training") is None,
        workload=_workload(left),
        limits=Limits(
            utilization_fraction=left.pop("utilization_fraction", DEFAULT_UTILIZATION),
            max_latency_s=left.pop("max_latency_s", None),
            min_throughput_per_s=left.pop("min_throughput_per_s", None),
        ),
        sort=_choose(SortKey, left.pop("sort", "throughput"), "sort key"),
        is_strict=left.pop("strict", False),
    )
    _refuse_unknown("plan", left)
    (made,) = make_plans(request)
    return PlanAnswer.of(made)


def memory(model: "ModelLike", *, batch: int = 1, **options: Unpack[MemoryOptions]) -> "MemoryAnswer":
    """Return how much GPU memory a model needs, by part, and the largest batch that fits.

    Args:
        model: words as on the command line, an `nn.Module`, or a trace.
        batch: the batch size on each GPU.
        **options: those of a model, of the workload and of GPUs (without `gpus` none is judged);
            `utilization_fraction` of usable memory that may be filled (1 by default); `rank_count` GPUs that share
            the work by `shardings`; `expandable_segments`; `advice`, to work out what would save memory; `strict`.

    Raises:
        UsageError: there is no such model or GPU.
        TraceError: the model could not be traced, or is refused by `strict`.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    from capplan.app.memory import MemoryRequest
    from capplan.app.memory import memory as answer
    from capplan.core.memory.sharding import Sharding

    left: Made = dict(options)
    names_gpus = "gpus" in left
    gpus = _gpu_request(left)
    request = MemoryRequest(
        model=_source(model, left),
        batch=batch,
        gpus=gpus if names_gpus else None,
        workload=_workload(left),
        utilization_fraction=left.pop("utilization_fraction", 1.0),
        rank_count=left.pop("rank_count", 1),
        shardings=tuple(_choose(Sharding, each, "sharding") for each in left.pop("shardings", ())),
        has_expandable_segments=left.pop("expandable_segments", False),
        advises=left.pop("advice", False),
        is_strict=left.pop("strict", False),
    )
    _refuse_unknown("memory", left)
    return answer(request).answer


def estimate(
    model: "ModelLike", *, batches: Sequence[int] | str = "1..1024", **options: Unpack[EstimateOptions]
) -> "EstimateAnswer":
    """Estimate latency and throughput over batch sizes, with intervals, the knee, what binds and what would help.

    Args:
        model: words as on the command line, an `nn.Module`, or a trace.
        batches: sizes, or words as on the command line.
        **options: those of a model, of the workload and of GPUs; `calibration`, a file of the caller's own;
            `gain_fraction`, below which doubling the batch no longer pays; `compare_frameworks`.

    Raises:
        UsageError: there is no such model or GPU, or a GPU cannot run the workload.
        TraceError: the model could not be traced.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    from capplan.app.estimate import EstimateRequest
    from capplan.app.estimate import estimate as make_estimates

    left: Made = dict(options)
    request = EstimateRequest(
        model=_source(model, left),
        gpus=_gpu_request(left),
        batches=_listed(batches),
        workload=_workload(left),
        calibration=left.pop("calibration", None),
        gain_fraction=left.pop("gain_fraction", 0.10),
        compares_frameworks=left.pop("compare_frameworks", False),
    )
    _refuse_unknown("estimate", left)
    return make_estimates(request)


def make_report(
    *models: "ModelLike", batches: Sequence[int] | str = "1..256", **options: Unpack[ReportOptions]
) -> "Report":
    """Return which GPUs to buy or rent for a load, how many, what they cost, and how sure that is.

    It is not called `report`, because `capplan.report` is the package that renders answers.

    Args:
        *models: words as on the command line or of a saved plan, `nn.Module`s, or traces.
        batches: the batch limits compared.
        **options: those of a model, of the workload and of GPUs; `load`, a file that describes a service, a job or a
            training purchase; `prices`, files of own prices; `providers` and `regions` to rent from; `measured`,
            measurement files to stand beside; `utilization_fraction`; `title`.

    Raises:
        UsageError: there is no such model or GPU, no GPU is left, or a file does not hold what it must.
        TraceError: a model could not be traced.
    """
    from capplan.app.report import OfferRequest, ReportRequest, report
    from capplan.core.plan.types import DEFAULT_UTILIZATION

    left: Made = dict(options)
    shared = {name: left.pop(name) for name in ModelOptions.__annotations__ if name in left}
    request = ReportRequest(
        models=tuple(_source(each, dict(shared)) for each in models),
        gpus=_gpu_request(left),
        largest_batches=_listed(batches),
        workload=_workload(left),
        utilization_fraction=left.pop("utilization_fraction", DEFAULT_UTILIZATION),
        load=left.pop("load", None),
        offers=OfferRequest(
            files=tuple(left.pop("prices", ())),
            providers=tuple(left.pop("providers", ())),
            regions=tuple(left.pop("regions", ())),
        ),
        measured=tuple(left.pop("measured", ())),
        title=left.pop("title", None),
        command="capplan.make_report",
    )
    _refuse_unknown("make_report", left)
    return report(request)


def validate(
    *measured: Path,
    by: Sequence[str] | None = None,
    calibration: Path | None = None,
    specs: Sequence[Path] = (),
    traces: Path | None = None,
    allow_code: bool = False,
) -> "ValidateAnswer":
    """Compare predictions with measurements: error, bias, coverage and ranks per cell.

    Args:
        *measured: files of measurements: CSV, Parquet, or the lines of `capplan measure`.
        by: the columns that make a cell.
        calibration: a file of the caller's own; the shipped one by default.
        specs: folders and files of own specs.
        traces: a folder for the models' traces; by default in the user's cache.
        allow_code: import the Python files and packages that rows name; otherwise these rows are skipped.

    Raises:
        UsageError: a file is missing, unreadable or lacks a column, or `by` names an unknown one.
    """
    from capplan.app.validate import DEFAULT_KEYS, ValidateRequest
    from capplan.app.validate import validate as judge

    return judge(
        ValidateRequest(
            measured=tuple(map(Path, measured)),
            keys=tuple(by) if by is not None else DEFAULT_KEYS,
            calibration=calibration,
            overlays=tuple(specs),
            traces=traces,
            allows_code=allow_code,
        )
    )


def calibrate(
    *measured: Path,
    name: str = "own",
    serves: str = "eager",
    folds: int = 5,
    specs: Sequence[Path] = (),
    traces: Path | None = None,
    allow_code: bool = False,
) -> "FittedCalibration":
    """Fit the latency model to measurements, and learn its errors from GPUs and families held out.

    Args:
        *measured: files as for `validate`, and tables of single kernels.
        name: what estimates will call the calibration.
        serves: the kind of steps it is for: "eager", "compile" or "training".
        folds: how many groups of model families are held out in turn.
        specs: folders and files of own specs.
        traces: a folder for the models' traces; by default in the user's cache.
        allow_code: import the Python files and packages that rows name; otherwise these rows are skipped.

    Raises:
        UsageError: a file cannot be read, or fewer than 20 rows are usable.
    """
    from datetime import date

    from capplan.app.calibrate import CalibrateRequest
    from capplan.app.calibrate import calibrate as fit

    return fit(
        CalibrateRequest(
            measured=tuple(map(Path, measured)),
            name=name,
            made=date.today(),
            command="capplan.calibrate",
            serves=serves,
            folds=folds,
            overlays=tuple(specs),
            traces=traces,
            allows_code=allow_code,
        )
    )


def measure(
    model: "str | nn.Module", *, batches: Sequence[int] | str = (1,), **options: Unpack[MeasureOptions]
) -> "tuple[Point, ...]":
    """Time a model on the device at hand: a `Measurement` per batch, or the `Failure` of one that did not run.

    A module is copied, with its weights. Bound and estimate stand beside a measurement whose device's name the GPU
    database knows, or whose `gpu` is given; why there are none is one of its notes.

    Args:
        model: words as on the command line, or an `nn.Module`.
        batches: sizes, or words as on the command line: "auto" doubles until it stops paying, "max" finds the
            largest.
        **options: those of a model; `device`, such as "cuda:0", "xpu", "mps" or "cpu", without which the first
            accelerator is used; `precision`, `framework`, `layout`; `warm_up_runs` and `repetitions`, which fix what
            is otherwise repeated until it is stable; `budget_s` for one point; `flush_l2`, `autotune`; `max_batch` of
            a search; `memory_limit_bytes`; `isolate` and `timeout_s`, to measure each point in a process of its own;
            `lines`, a measurement file that points are appended to, and `resume`, to skip those it holds; `profile`, a
            folder; `gpu`, `specs` and `calibration` of the estimates.

    Raises:
        UsageError: there is no such model, or it does not take these arguments and inputs.
        MeasurementError: there is no such device, or it cannot be used.
    """
    from capplan.app.measure.request import LARGEST_SEARCHED_BATCH, Curve, MeasureRequest, TheoryRequest
    from capplan.app.measure.run import measure as run
    from capplan.core.workload import Framework, Layout, Precision

    left: Made = dict(options)
    request = MeasureRequest(
        model=_source(model, left),
        curve=Curve(batches=_batches(batches), at_most=left.pop("max_batch", LARGEST_SEARCHED_BATCH)),
        rules=_rules(left),
        precision=_choose(Precision, left.pop("precision", "fp32"), "precision"),
        framework=_choose(Framework, left.pop("framework", "eager"), "framework"),
        layout=_choose(Layout, left.pop("layout", "nchw"), "layout"),
        device=left.pop("device", None),
        allowed_bytes=left.pop("memory_limit_bytes", None),
        reserve_fraction=0.05,
        theory=TheoryRequest(
            gpu=left.pop("gpu", None),
            overlays=tuple(left.pop("specs", ())),
            calibration=left.pop("calibration", None),
        ),
        is_isolated=left.pop("isolate", False),
        timeout_s=left.pop("timeout_s", None),
        lines=left.pop("lines", None),
        resumes=left.pop("resume", False),
        profile=left.pop("profile", None),
        command="capplan.measure",
    )
    _refuse_unknown("measure", left)
    made = run(request)
    if made.ended_by is not None:
        raise made.ended_by
    return made.points


def _source(model: "ModelLike", left: "Made") -> "ModelSource":
    """Take a model's options from those that are left, and return the model of a request."""
    from capplan.api.sources import find_source

    return find_source(model, **{name: left.pop(name) for name in ModelOptions.__annotations__ if name in left})


def _workload(left: "Made") -> "Workload":
    """Take a workload's options from those that are left."""
    from capplan.core.workload import Framework, Layout, Precision, Workload

    version = {"torch_version": left.pop("torch_version")} if left.get("torch_version") else {}
    return Workload(
        precision=_choose(Precision, left.pop("precision", "fp32"), "precision"),
        framework=_choose(Framework, left.pop("framework", "eager"), "framework"),
        layout=_choose(Layout, left.pop("layout", "nchw"), "layout"),
        training=left.pop("training", None),
        **version,
    )


def _gpu_request(left: "Made") -> "GpuRequest":
    """Take the options of GPUs from those that are left."""
    from capplan.app.gpus import GpuRequest
    from capplan.errors import UsageError
    from capplan.specs import Gpus

    overlays, gpus = tuple(map(Path, left.pop("specs", ()))), left.pop("gpus", None)
    if gpus is None or isinstance(gpus, Gpus):
        return GpuRequest(database=gpus, overlays=overlays)
    named = [gpus] if isinstance(gpus, str) else list(gpus)
    if not named:
        raise UsageError("gpus is empty: name at least one GPU, or leave it out for all.")
    return GpuRequest(
        ids=tuple(each for each in named if isinstance(each, str)),
        specs=tuple(each for each in named if not isinstance(each, str)),
        overlays=overlays,
    )


def _choose(words: type[Word], value: str, kind: str) -> Word:
    """Return the member of an enumeration that a word names."""
    from capplan.errors import UnknownNameError

    known = [each.value for each in words]
    if value not in known:
        raise UnknownNameError(kind, value, known, hint=f"Known: {', '.join(known)}.")
    return words(value)


def _batches(batches: Sequence[int] | str) -> "Batches":
    from capplan.core.batches import BatchChoice, Batches, parse_batches

    if isinstance(batches, str):
        return parse_batches(batches)
    return Batches(choice=BatchChoice.LISTED, sizes=tuple(batches))


def _listed(batches: Sequence[int] | str) -> tuple[int, ...]:
    from capplan.errors import UsageError

    if not (sizes := _batches(batches).sizes):
        raise UsageError(f"batches {batches!r} lists none; give sizes, or words such as '1..256'.")
    return sizes


def _rules(left: "Made") -> Any:
    """Take the rules of timing from the options that are left."""
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.timing import StopRule, WarmUpRule

    return Rules(
        warm_up=WarmUpRule(runs=left.pop("warm_up_runs", None)),
        stop=StopRule(repetitions=left.pop("repetitions", None), budget_s=left.pop("budget_s", 10.0)),
        flush_l2=left.pop("flush_l2", False),
        autotune=left.pop("autotune", False),
    )


def _refuse_unknown(verb: str, left: "Made") -> None:
    """Refuse options that nothing took, as Python does."""
    if left:
        raise TypeError(f"{verb}() got an unexpected keyword argument {next(iter(left))!r}")
