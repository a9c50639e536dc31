"""The trace: a model as a list of facts, from which every count and estimate is arithmetic.

A recording holds what PyTorch would launch on CUDA, in order. Each operator call points to a
*kernel*: an operator's name with the shapes, dtypes and layouts that it meets. Models repeat a few
dozen kernels hundreds of times, so whatever depends on shapes alone is computed once per kernel.
All sizes are functions of the batch; FLOPs and bytes are not stored but derived (`core.ops.flops`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import prod
from typing import NamedTuple, TypeAlias

from capplan.core.workload import Configuration
from capplan.errors import MissingRecordingError


class Affine(NamedTuple):
    """An integer function of the batch size: `constant + per_sample · batch`."""

    constant: int
    per_sample: int = 0

    def at(self, batch: int) -> int:
        """Evaluate at a batch size."""
        return self.constant + self.per_sample * batch


def fit_affine(*, first: tuple[int, int], second: tuple[int, int]) -> Affine | None:
    """Find the affine function through two (batch, value) pairs; None if it is not an integer one."""
    (batch_a, value_a), (batch_b, value_b) = first, second
    per_sample, rest = divmod(value_b - value_a, batch_b - batch_a)
    return None if rest else Affine(value_a - per_sample * batch_a, per_sample)


SCHEMA_VERSION = 2

HALF = "half"
"""The dtype that stands for either 16-bit float until a precision says which."""

ITEM_BYTES: Mapping[str, float] = {
    "float64": 8, "float32": 4, HALF: 2, "float16": 2, "bfloat16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1, "float4_e2m1fn": 0.5, "int4": 0.5, "uint4": 0.5,
    "complex128": 16, "complex64": 8, "complex32": 4,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1,
    "bool": 1, "qint8": 1, "quint8": 1, "qint32": 4,
}  # fmt: skip
"""Bytes of one element by dtype name, as torch writes it without its prefix."""


class MemoryFormat(StrEnum):
    """How a tensor lies in memory; "strided" is neither dense row-major nor channels-last."""

    CONTIGUOUS = "c"
    CHANNELS_LAST = "n"
    STRIDED = "s"


class Role(StrEnum):
    """What a storage is for."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    INPUT = "input"
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One tensor as an operator meets it.

    `shape` is in elements, each dimension a function of the batch. `expanded` lists dimensions of
    stride 0, whose elements are read once. `is_weight` says that it does not depend on the model's
    input: a parameter or buffer, or made from these alone.
    """

    dtype: str
    shape: tuple[Affine, ...]
    memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS
    is_weight: bool = False
    expanded: tuple[int, ...] = ()

    def shape_at(self, batch: int) -> tuple[int, ...]:
        """Return the dimensions at a batch size."""
        return tuple(dim.at(batch) for dim in self.shape)

    def distinct_elements(self, batch: int) -> int:
        """Return the elements that differ in memory: dimensions of stride 0 count once."""
        count = 1
        for index, dim in enumerate(self.shape):
            size = dim.at(batch)
            if not size:
                return 0
            if index not in self.expanded:
                count *= size
        return count

    def size_bytes(self, batch: int) -> int:
        """Return the bytes that one read of the tensor moves. [bytes]"""
        return int(self.distinct_elements(batch) * ITEM_BYTES[self.dtype])


Attribute: TypeAlias = bool | int | float | str | tuple[int, ...]

PUBLIC_LIBRARIES = frozenset({"aten", "capplan", "torchvision", "prims", "quanto", "bitsandbytes"})
"""Libraries whose operators the catalogue knows by name; what stands before the first dot of a kernel's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """An operator with the shapes of its operands: all that decides its FLOPs, bytes and speed.

    `name` is the operator without overload or trailing underscore (`aten.convolution`, `aten.addmm`,
    `capplan.attention` for the logical fused attention). `inputs` holds tensors in argument order, lists flattened,
    absent optional tensors left out. `attributes` are the scalar arguments by name (stride, padding, dilation, groups,
    transposed, is_causal, has_mask, ...). `flops` is set only by a formula that a user registered.
    """

    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    flops: Affine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operator call: indices into the recording's kernels, modules and storages.

    `reads` and `writes` align with the kernel's inputs and outputs. An output whose storage is also
    read was written in place or aliases it. `calls` counts the calls into PyTorch's dispatcher since
    the previous op, views and this one included: what the host must do, though no kernel runs.
    """

    kernel: int
    module: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    calls: int = 1


PREPARED = "prepared by "
"""How a note begins that says which step was applied to a model before it was traced."""
QUANTISED = "quantised as "
"""How a note begins that says how a trace's linear layers were quantised."""

ALWAYS = -1
"""Birth of a storage that exists before the first op."""


def first_and_last_use(ops: Sequence[Op]) -> tuple[dict[int, int], dict[int, int]]:
    """Return by storage the op that writes it first, and the op that reads or writes it last."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, op in enumerate(ops):
        for storage in op.writes:
            first.setdefault(storage, index)
        for storage in (*op.reads, *op.writes):
            last[storage] = index
    return first, last


def distinct_kernels(calls: Iterable[tuple[Kernel, Op]]) -> tuple[tuple[Kernel, ...], tuple[Op, ...]]:
    """Return the distinct kernels of some calls, in the order of their first, and the ops that index these."""
    places: dict[object, int] = {}
    kernels: list[Kernel] = []
    ops: list[Op] = []
    for kernel, op in calls:
        key = (kernel.name, kernel.inputs, kernel.outputs, tuple(kernel.attributes.items()), kernel.flops)
        if key not in places:
            places[key] = len(kernels)
            kernels.append(kernel)
        ops.append(replace(op, kernel=places[key]))
    return tuple(kernels), tuple(ops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """One block of memory: its size, the op that made it, the op after which it was released.

    `birth` is an op's index, or `ALWAYS`. `death` is the index of the op after which, and before the
    next op allocates, the last reference went; the number of ops for what outlives the recording.
    `parameter` indexes `Trace.parameters` for the weights' own storages.
    """

    size_bytes: Affine
    role: Role
    birth: int = ALWAYS
    death: int
    parameter: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of a recording that starts at an op: forward, backward, optimizer; by step."""

    name: str
    step: int
    first_op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedValue:
    """A data-dependent value that the tracer assumed, and how often: it is always reported.

    `share` is how much of the candidates an operator that selects some of them was taken to keep, 0 to 1; None for
    other operators, and in traces that kept all. `lines` are those of the user's code that asked, such as `moe.py:31`,
    and `first_op` is the index of the first op that ran after; both are unknown in traces of earlier releases.
    """

    what: str
    count: int
    share: float | None = None
    lines: tuple[str, ...] = ()
    first_op: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The operators that one configuration runs.

    `batches` were traced; `exact_batch` is None where the sizes are functions of the batch that the
    third traced batch confirmed, else the only batch that the recording is true for. `backend` is the
    method that worked: meta, fake or real. `assumed_values` are values that the tracer had to invent.
    """

    configuration: Configuration
    modules: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    ops: tuple[Op, ...]
    storages: tuple[Storage, ...]
    phases: tuple[Phase, ...] = ()
    batches: tuple[int, ...]
    exact_batch: int | None = None
    backend: str = "meta"
    assumed_values: tuple[AssumedValue, ...] = ()

    def steady_ops(self) -> tuple[Op, ...]:
        """Return the ops of one inference, or of the last training step, when optimizer states exist."""
        last_step = max((phase.step for phase in self.phases), default=None)
        starts = [phase.first_op for phase in self.phases if phase.step == last_step]
        return self.ops[min(starts, default=0) :]

    def calls_per_kernel(self) -> list[int]:
        """Return how often each kernel runs among `steady_ops`, aligned with `kernels`."""
        counts = [0] * len(self.kernels)
        for op in self.steady_ops():
            counts[op.kernel] += 1
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter or buffer, once however often it is shared; `names` lists all its names."""

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    is_buffer: bool = False
    trainable: bool = True

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes in its own dtype. [bytes]"""
        return int(self.elements * ITEM_BYTES[self.dtype])


@dataclass(frozen=True, slots=True, kw_only=True)
class HasParameters:
    """A model's parameters and buffers, with their sums."""

    parameters: tuple[Parameter, ...]

    @property
    def parameter_count(self) -> int:
        """Elements of all parameters, each counted once."""
        return sum(parameter.elements for parameter in self.parameters if not parameter.is_buffer)

    @property
    def trainable_count(self) -> int:
        """Elements of the parameters that require a gradient, each counted once."""
        return sum(
            parameter.elements for parameter in self.parameters if parameter.trainable and not parameter.is_buffer
        )

    @property
    def frozen_count(self) -> int:
        """Elements of the parameters that require no gradient, each counted once."""
        return self.parameter_count - self.trainable_count

    def parameters_by_module(self) -> dict[str, int]:
        """Return the elements of each module's own parameters, by its path; a shared one belongs to its first name."""
        sums: Counter[str] = Counter()
        for parameter in self.parameters:
            if not parameter.is_buffer:
                sums[parameter.names[0].rpartition(".")[0]] += parameter.elements
        return sums

    @property
    def buffer_count(self) -> int:
        """Elements of all buffers, each counted once."""
        return sum(parameter.elements for parameter in self.parameters if parameter.is_buffer)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the parameters in the model's own dtypes. [bytes]"""
        return sum(parameter.size_bytes for parameter in self.parameters if not parameter.is_buffer)

    @property
    def dtype(self) -> str | None:
        """Return the model's own dtype: the one of most parameter bytes; None without parameters."""
        sizes: Counter[str] = Counter()
        for parameter in self.parameters:
            if not parameter.is_buffer:
                sizes[parameter.dtype] += parameter.size_bytes
        return max(sizes, key=lambda dtype: sizes[dtype]) if sizes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTensor:
    """One input of the model: its name, dtype and shape over the batch."""

    name: str
    dtype: str
    shape: tuple[Affine, ...]

    def size_bytes(self, batch: int) -> int:
        """Return the bytes at a batch size. [bytes]"""
        return int(prod(dim.at(batch) for dim in self.shape) * ITEM_BYTES[self.dtype])


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How a trace was made: versions of capplan, torch and the model's library, and a hash of the model's source."""

    capplan_version: str
    versions: Mapping[str, str] = field(default_factory=dict)
    source_sha256: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(HasParameters):
    """A model's facts: parameters, inputs, and a recording per configuration.

    `target` is the words that name the model ("timm:resnet50 --arg ..."), `class_name` its class.
    """

    name: str
    target: str
    class_name: str
    inputs: tuple[InputTensor, ...]
    recordings: tuple[Recording, ...]
    provenance: Provenance

    def recording(self, configuration: Configuration) -> Recording:
        """Find the recording of a configuration."""
        for recording in self.recordings:
            if recording.configuration == configuration:
                return recording
        held = "; ".join(recording.configuration.words for recording in self.recordings)
        raise MissingRecordingError(
            f"the trace of {self.name} has no recording of {configuration.words} (it has {held}); make one with "
            f"`capplan trace {self.target} {trace_options(configuration)}-o FILE`."
        )


def trace_options(configuration: Configuration) -> str:
    """Format the `capplan trace` options that make a configuration's recording, with a trailing blank."""
    words = [f"--precision {_PRECISION_BY_VARIANT[configuration.variant.value]}"]
    words += [f"--layout {configuration.layout}"] * (configuration.layout.value != "nchw")
    if configuration.training:
        words += ["--train", f"--optimizer {configuration.training.optimizer}"]
        words += ["--checkpointing"] * configuration.training.checkpointing
        words += [f"--accumulate {configuration.training.accumulate}"] * (configuration.training.accumulate > 1)
    return " ".join(words) + " "


_PRECISION_BY_VARIANT = {"full": "fp32", "half": "fp16", "amp": "amp-fp16"}

_ASKED = ("--input ", "--input-size ", "--seq-len ", "--inputs-from ")
"""Options that state the inputs."""
_SOURCES = {
    "torchvision:": "torchvision's default",
    "timm:": "timm's default",
    ".onnx": "the file's",
    ".pt2": "the file's",
}
"""Where sizes come from that nobody asked for, by how the model's name begins or ends."""
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """The size of one sample, such as "3x224x224" or "128 tokens", and whose default that is; "" if asked for."""

    size: str
    source: str = ""

    @property
    def short(self) -> str:
        """The size, marked where it is a default, for a headline."""
        return f"{self.size} (default)" if self.source else self.size

    @property
    def unit(self) -> str:
        """What one sample is: an image where it is one of 1 or 3 channels, a sequence where it is tokens."""
        parts = self.size.split(" + ")
        if all(part.endswith(" tokens") for part in parts):
            return "sequence"
        return "image" if len(parts) == 1 and re.fullmatch(r"[13]x\d+x\d+", self.size) else "sample"

    def __str__(self) -> str:
        return f"{self.size}, {self.source}" if self.source else self.size


def model_input(trace: Trace, recording: Recording) -> ModelInput:
    """Return what one sample of a trace is."""
    sampled = (_sample(tensor, recording.exact_batch) for tensor in trace.inputs)
    sizes = list(dict.fromkeys(size for size in sampled if size))
    more = len(sizes) - _MOST_SHOWN
    size = " + ".join(sizes[:_MOST_SHOWN]) + (f" + {more} more" if more > 0 else "")
    return ModelInput(size=size, source=_source(trace, size) if size else "")


def _sample(tensor: InputTensor, exact_batch: int | None) -> str:
    """Return the shape of one sample of an input: the first dimension that is the batch is left out."""
    dims = list(tensor.shape)
    batch = next(
        (
            index
            for index, dim in enumerate(dims)
            if (dim.constant, dim.per_sample) == (0, 1) or (exact_batch == dim.constant and not dim.per_sample)
        ),
        None,
    )
    if batch is not None:
        dims.pop(batch)
    sizes = [str(dim.at(1)) for dim in dims]
    if len(sizes) == 1 and tensor.dtype in ("int64", "int32"):
        return f"{sizes[0]} tokens"
    return "x".join(sizes)


def _source(trace: Trace, size: str) -> str:
    if any(option in f"{trace.target} " for option in _ASKED):
        return ""
    name = trace.target.split(" ")[0]
    if name.startswith("hf:"):
        return "capplan's default" if size.endswith(" tokens") else "the config's and capplan's defaults"
    return next((source for part, source in _SOURCES.items() if name.startswith(part) or name.endswith(part)), "")
