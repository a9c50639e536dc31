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

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.errors import UsageError
from capplan.files import read_file
from capplan.strict_json import LARGEST_TEXT_BYTES

if TYPE_CHECKING:
    from capplan.app.sweep.results import SweepResults
    from capplan.core.trace.types import Trace
    from capplan.specs import Gpus


def load_trace(path: str | Path) -> "Trace":
    """Read a trace file; needs neither torch nor the model.

    Args:
        path: what `capplan trace` wrote.

    Returns:
        The trace, as `trace` gave it.

    Raises:
        UsageError: the file cannot be read.
        TraceFileError: it is truncated, damaged, not a trace, or written by a newer capplan.
    """
    from capplan.core.ops.flops import check_operators
    from capplan.core.trace.format import load_trace as parse_trace

    try:
        content = read_file(Path(path), at_most=LARGEST_TEXT_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    trace = parse_trace(content, where=str(path))
    check_operators(trace, where=str(path))
    return trace


def load_gpus(*, overlays: Sequence[str | Path] = ()) -> "Gpus":
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

    named = [overlays] if isinstance(overlays, str) else overlays
    return read_gpus(overlays=[Path(overlay) for overlay in named])


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
