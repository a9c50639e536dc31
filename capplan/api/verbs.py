"""The use cases for Python callers: the verbs of the command line, with the same behaviour.

Every function takes a model (words as on the command line, an `nn.Module`, or a trace) and options by name. Options
of a model, for every function that takes one:

    arguments: the constructor's or config's arguments, by name.
    inputs: words of the input grammar ("x=3x224x224", "ids=int64:Nx128"), or, for a module, a function of the batch
        size that returns what the model takes.
    input_size: the shape of one image without the batch, such as (3, 640, 640).
    seq_len: tokens per sample.
    weights, activations: formats that linear layers are quantised to, as for `--weights` and `--activations`.
    selected_share: the share of candidates that stay where the data decides, 0 to 1.

Options of the workload:

    precision: "fp32", "tf32", "fp32-ieee", "fp16", "bf16", "amp-fp16" or "amp-bf16".
    framework: "eager", "compile" or "compile-graphs".
    layout: "nchw" or "nhwc".
    training: a `Training` for training steps, None for inference.
    torch_version: (major, minor) of the PyTorch to answer for.

Options of GPUs:

    gpus: what `load_gpus` returned, or ids and `GpuSpec`s; all GPUs of the database by default.
    specs: folders and files of own specs and prices, laid over the built-in ones.
    where, vendors, architectures, min_memory: conditions that the GPUs must meet, as `capplan gpus` takes them.
    with_cpus: answer for the x86 CPUs of the database, too.

Importing this module loads neither torch nor numpy.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from capplan.api.options import (
    MeasureOptions,
    SweepOptions,
)
from capplan.api.requests import (
    choose,
    read_batches,
    refuse_unknown,
    take_rules,
    take_source,
)
from capplan.files import read_file
from capplan.strict_json import LARGEST_TEXT_BYTES

if TYPE_CHECKING:
    from torch import nn

    from capplan.app.sweep.results import SweepResults
    from capplan.core.measurement.types import Point
    from capplan.core.trace.types import Trace
    from capplan.specs import Gpus


def load_trace(path: str | Path) -> "Trace":
    """Read a trace file; needs neither torch nor the model.

    Args:
        path: what `capplan trace` wrote.

    Returns:
        The trace, as `trace` gave it.

    Raises:
        TraceFileError: it is truncated, damaged, not a trace, or written by a newer capplan.
    """
    from capplan.core.ops.checks import check_operators
    from capplan.core.trace.format import load_trace as parse_trace

    trace = parse_trace(read_file(Path(path), at_most=LARGEST_TEXT_BYTES), where=str(path))
    check_operators(trace, where=str(path))
    return trace


def load_gpus(*, overlays: Sequence[Path] = ()) -> "Gpus":
    """Read the GPU database, own specs laid over it.

    Args:
        overlays: folders and files of own specs; the last wins.

    Returns:
        All GPUs by id: memory in bytes, bandwidth in bytes/s, dense peaks in FLOP/s, power in watts.

    Raises:
        SpecError: a spec file does not hold what it must.

    Examples:
        >>> load_gpus()["l4"].memory_bandwidth_bytes_per_s
        300000000000.0
    """
    from capplan.specs import load_gpus as read_gpus

    return read_gpus(overlays=overlays)


def measure(
    model: "str | nn.Module", *, batches: Sequence[int] | str = (1,), **options: Unpack[MeasureOptions]
) -> "tuple[Point, ...]":
    """Time a model on the device at hand: a `Measurement` per batch, or the `Failure` of one that did not run.

    A module is copied, with its weights. A measurement has a bound and an estimate if the GPU database knows its
    device's name, or if `gpu` is given; otherwise one of its notes says why there are none.

    Args:
        model: words as on the command line, or an `nn.Module`.
        batches: sizes, or words as on the command line: "auto" doubles until it stops paying, "max" finds the
            largest.
        **options: those of a model; `device`, such as "cuda:0", "xpu", "mps" or "cpu", without which the first
            accelerator is used; `precision`, `framework`, `layout`; `warm_up_runs` and `repetitions`, which fix what
            is otherwise repeated until it is stable; `budget_s` for one point, which ends `repetitions`, too;
            `flush_l2`, `autotune`; `max_batch` of a search; `memory_limit_bytes`; `isolate` and `timeout_s`, to measure
            each point in a process of its own;
            `lines`, a measurement file that points are appended to, and `resume`, to skip those it holds; `profile`, a
            folder; `gpu`, `specs` and `calibration` of the estimates.

    Returns:
        A point for each batch: statistics of its repetitions [s], throughput [1/s], memory peaks [bytes], power [W].

    Raises:
        UsageError: there is no such model, or it does not take these arguments and inputs.
        MeasurementError: there is no such device, or it cannot be used.
    """
    from capplan.app.measure.request import LARGEST_SEARCHED_BATCH, Curve, MeasureRequest, TheoryRequest
    from capplan.app.measure.run import measure as run
    from capplan.core.workload import Framework, Layout, Precision

    left: dict[str, Any] = dict(options)
    request = MeasureRequest(
        model=take_source(model, left),
        curve=Curve(batches=read_batches(batches), at_most=left.pop("max_batch", LARGEST_SEARCHED_BATCH)),
        rules=take_rules(left),
        precision=choose(Precision, left.pop("precision", "fp32"), "precision"),
        framework=choose(Framework, left.pop("framework", "eager"), "framework"),
        layout=choose(Layout, left.pop("layout", "nchw"), "layout"),
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
    refuse_unknown("measure", left)
    made = run(request)
    if made.ended_by is not None:
        raise made.ended_by
    return made.points


def sweep(
    definition: "str | Path | Mapping[str, Any]", output: "str | Path", **options: Unpack[SweepOptions]
) -> "SweepResults":
    """Plan many models on many GPUs, keep the rows in a folder, and return them; a second run computes what changed.

    Args:
        definition: a SWEEP.yaml, or a mapping with its keys `models`, `gpus` and `workloads`.
        output: the folder of the results.
        **options: `workers`, processes on this machine; `ray`, "auto" or the address of a cluster; `time_limit_s` and
            `memory_limit_bytes` of one model; `specs`, own GPU specs; `measure`, to time what fits on the devices at
            hand; `retry_failed`; `force`, to replace the results of another sweep.

    Returns:
        The results, as `read_sweep` opens them.

    Raises:
        UsageError: a name or glob matches nothing, a key is unknown, or the folder holds something else.
    """
    from capplan.app.sweep.request import DEFAULT_TIME_LIMIT_S, Limits, SweepRequest
    from capplan.app.sweep.results import read_sweep as read
    from capplan.app.sweep.run import sweep as run
    from capplan.verbs.sweep_file import read_sweep_file, read_sweep_tree

    left: dict[str, Any] = dict(options)
    named = not isinstance(definition, Mapping)
    request = SweepRequest(
        definition=(
            read_sweep_tree(dict(definition), shown="sweep")
            if isinstance(definition, Mapping)
            else read_sweep_file(Path(definition))
        ),
        output=Path(output),
        file=Path(str(definition)) if named else None,
        overlays=tuple(map(Path, left.pop("specs", ()))),
        workers=left.pop("workers", None),
        ray=left.pop("ray", None),
        limits=Limits(
            time_s=left.pop("time_limit_s", DEFAULT_TIME_LIMIT_S), memory_bytes=left.pop("memory_limit_bytes", None)
        ),
        measures=left.pop("measure", False),
        allows_code=left.pop("allow_code", False),
        retries_failed=left.pop("retry_failed", False),
        force=left.pop("force", False),
        command="capplan.sweep",
    )
    refuse_unknown("sweep", left)
    run(request)
    return read(Path(output))


def read_sweep(path: "str | Path") -> "SweepResults":
    """Open the results of `capplan sweep`: `to_arrow()`, `to_pandas()`, `query(sql)`, and the `manifest`.

    Args:
        path: the folder that `capplan sweep -o` wrote.

    Returns:
        The results; a row has latencies in seconds, sizes in bytes and prices in US dollars.

    Raises:
        UsageError: it holds no results of a sweep, or pyarrow is not installed.
    """
    from capplan.app.sweep.results import read_sweep as read

    return read(path)
