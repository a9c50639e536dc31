"""A model's counts as a typed document: MACs, FLOPs, parameters and bytes at one batch."""

from collections import Counter
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, field

from capplan.core.ops.analysis import Analysis, CountShare
from capplan.core.ops.counters import AnalyzeAnswer, CounterComparison, CounterDifference
from capplan.core.ops.module_tree import NARROWER_DTYPES, DtypeShare, module_tree, parameters_by_dtype
from capplan.version import __version__

SCHEMA_VERSION: Final = 2


class ShareDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one operator or module."""

    name: str
    calls: int
    macs: int
    flops: int
    params: int
    bytes: int


class OperatorShareDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one operator in one module."""

    operator: str
    name: str
    calls: int
    macs: int
    flops: int
    params: int
    bytes: int


class OwnParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter that a module holds itself."""

    name: str
    shape: tuple[int, ...]


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """One module with all below it; the first node is the model, and parents stand before their children."""

    path: str
    depth: int
    calls: int
    macs: int
    flops: int
    params: int
    activations: Annotated[int, Meta(description="elements that convolutions and matrix products write")]
    bytes: int
    flops_fraction: float | None
    params_fraction: float | None
    own_params: tuple[OwnParameter, ...]


class DtypeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one dtype, and the bytes that they would take in others, scales left out."""

    dtype: str
    tensors: int
    params: int
    bytes: int
    bytes_as: dict[str, int]


class AssumedValueDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A value that depends on the data and was assumed while tracing; `share` of the candidates was taken as kept."""

    what: str
    count: int
    share: float | None = None
    lines: tuple[str, ...] = ()


class CountDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One cause of a difference between two counters."""

    amount: int
    cause: str


class NamedCount(msgspec.Struct, frozen=True, kw_only=True):
    """What another counter counts for an operator or module."""

    name: str
    macs: int


class CounterDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of another counter; the differences add up to its figure less capplan's."""

    counter: str
    version: str
    macs: int | None
    params: int | None
    macs_differences: tuple[CountDifference, ...]
    params_differences: tuple[CountDifference, ...]
    by_operator: tuple[NamedCount, ...]
    by_module: tuple[NamedCount, ...]
    skipped: dict[str, int]
    failure: str | None


class AnalysisDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan analyze --format json` writes: counts at one batch; rows of a view add up to the totals."""

    schema_version: Literal[2]
    capplan_version: str
    name: str
    class_name: str = field(name="class")
    recording: str
    batch: int
    params: int
    trainable_params: Annotated[int, Meta(description="elements of parameters that require a gradient")]
    frozen_params: int
    buffers: int
    params_bytes_by_dtype: dict[str, int]
    params_by_dtype: tuple[DtypeDocument, ...]
    macs: int
    flops: int
    bytes: int
    by_operator: tuple[ShareDocument, ...]
    by_module: tuple[ShareDocument, ...]
    by_module_and_operator: tuple[OperatorShareDocument, ...]
    tree: tuple[TreeNode, ...]
    uncounted: tuple[str, ...]
    counted_bytes_fraction: float
    backend: Annotated[str, Meta(pattern="^(meta|fake|real)$", description="the backend that the model was traced on")]
    assumed_values: tuple[AssumedValueDocument, ...]
    notes: tuple[str, ...]
    versions: dict[str, str]
    comparison: tuple[CounterDocument, ...] | msgspec.UnsetType = msgspec.UNSET


def analysis_document(answer: AnalyzeAnswer, *, compares: bool = False, depth: int | None = None) -> AnalysisDocument:
    """Return counts as a document.

    Args:
        answer: The counts, and those of other counters.
        depth: The deepest level of the tree of modules; None for all.
        compares: True if other counters were asked for.
    """
    analysis = answer.analysis
    trace = analysis.trace
    recording = trace.recording(analysis.configuration)
    return AnalysisDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        name=trace.name,
        class_name=trace.class_name,
        recording=str(analysis.configuration),
        batch=analysis.batch,
        params=trace.parameter_count,
        trainable_params=trace.trainable_count,
        frozen_params=trace.parameter_count - trace.trainable_count,
        buffers=trace.buffer_count,
        params_bytes_by_dtype=parameter_bytes_by_dtype(analysis),
        params_by_dtype=tuple(map(_dtype, parameters_by_dtype(trace))),
        macs=analysis.macs,
        flops=analysis.flops,
        bytes=analysis.size_bytes,
        by_operator=tuple(_share(share, name=share.operator) for share in analysis.by_operator),
        by_module=tuple(_share(share, name=share.module) for share in analysis.by_module),
        by_module_and_operator=tuple(map(_operator_share, analysis.by_module_and_operator)),
        tree=_tree(analysis, depth),
        uncounted=analysis.uncounted,
        counted_bytes_fraction=analysis.counted_bytes_fraction,
        backend=recording.backend,
        assumed_values=tuple(
            AssumedValueDocument(what=value.what, count=value.count, share=value.share, lines=value.lines)
            for value in recording.assumed_values
        ),
        notes=trace.provenance.notes,
        versions=dict(trace.provenance.versions),
        comparison=tuple(map(_counter, answer.comparisons)) if compares else msgspec.UNSET,
    )


def parameter_bytes_by_dtype(analysis: Analysis) -> dict[str, int]:
    """Return the bytes of the parameters by their own dtype. [bytes]"""
    sizes: Counter[str] = Counter()
    for parameter in analysis.trace.parameters:
        if not parameter.is_buffer:
            sizes[parameter.dtype] += parameter.size_bytes
    return dict(sizes)


def _tree(analysis: Analysis, depth: int | None) -> tuple[TreeNode, ...]:
    nodes = module_tree(analysis.trace, configuration=analysis.configuration, batch=analysis.batch)
    whole = nodes[0]
    return tuple(
        TreeNode(
            path=node.path,
            depth=node.depth,
            calls=node.calls,
            macs=node.macs,
            flops=node.flops,
            params=node.parameters,
            activations=node.activations,
            bytes=node.size_bytes,
            flops_fraction=node.flops / whole.flops if whole.flops else None,
            params_fraction=node.parameters / whole.parameters if whole.parameters else None,
            own_params=tuple(OwnParameter(name=name, shape=shape) for name, shape in node.own_parameters),
        )
        for node in nodes
        if depth is None or node.depth <= depth
    )


def _dtype(share: DtypeShare) -> DtypeDocument:
    return DtypeDocument(
        dtype=share.dtype,
        tensors=share.tensors,
        params=share.parameters,
        bytes=share.size_bytes,
        bytes_as={dtype: share.bytes_as(dtype) for dtype in NARROWER_DTYPES},
    )


def _share(share: CountShare, *, name: str) -> ShareDocument:
    return ShareDocument(
        name=name,
        calls=share.calls,
        macs=share.macs,
        flops=share.flops,
        params=share.parameters,
        bytes=share.size_bytes,
    )


def _operator_share(share: CountShare) -> OperatorShareDocument:
    return OperatorShareDocument(
        operator=share.operator,
        name=share.module,
        calls=share.calls,
        macs=share.macs,
        flops=share.flops,
        params=share.parameters,
        bytes=share.size_bytes,
    )


def _counter(comparison: CounterComparison) -> CounterDocument:
    count = comparison.count
    return CounterDocument(
        counter=count.counter,
        version=count.version,
        macs=count.macs,
        params=count.params,
        macs_differences=tuple(map(_difference, comparison.macs)),
        params_differences=tuple(map(_difference, comparison.params)),
        by_operator=tuple(NamedCount(name=name, macs=macs) for name, macs in count.by_operator.items()),
        by_module=tuple(NamedCount(name=name, macs=macs) for name, macs in count.by_module.items()),
        skipped=dict(count.skipped),
        failure=count.failure,
    )


def _difference(difference: CounterDifference) -> CountDifference:
    return CountDifference(amount=difference.amount, cause=difference.cause)
