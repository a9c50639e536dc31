"""The shape of a model's counts: MACs, FLOPs, parameters and bytes at one batch."""

from typing import Final, Literal

from msgspec import UNSET, Meta

from capplan.core.ops.analysis import CountShare
from capplan.core.ops.counters import AnalyzeAnswer, CounterComparison, CounterDifference
from capplan.core.ops.module_tree import (
    NARROWER_DTYPES,
    DtypeShare,
    ModuleNode,
    parameter_bytes_by_dtype,
    parameters_by_dtype,
)
from capplan.core.trace.types import AssumedValue
from capplan.shapes.common import SIGNED, in_words
from capplan.shapes.shape import CSV, Shape, Show, Typed, figure, reads


def _fraction(name: str) -> Typed:
    """Return how a module's share of the model is read; None where the model has none."""

    def fraction(node: ModuleNode, answer: AnalyzeAnswer) -> float | None:
        total: int = {"flops": answer.analysis.flops, "parameters": answer.analysis.trace.parameter_count}[name]
        return getattr(node, name) / total if total else None

    return reads(float | None, fraction)


def _named_counts(name: str) -> Typed:
    return reads(tuple[_NamedCount, ...], lambda comparison: tuple(getattr(comparison.count, name).items()))


_Named = tuple[str, tuple[int, ...]]
_NamedCount = tuple[str, int]

# fmt: off
COUNTS: Final = (
    figure("calls", show=CSV),
    figure("macs", show=CSV),
    figure("flops", show=CSV),
    figure("params", "parameters", show=CSV),
    figure("bytes", "size_bytes", show=CSV),
)
SHARE: Final = Shape("ShareDocument", CountShare, "The counts of one operator or module.", (
    figure("name", reads(str, lambda share: share.operator or share.module)),
    *COUNTS,
))
OPERATOR_SHARE: Final = Shape("OperatorShareDocument", CountShare, "The counts of one operator in one module.", (
    figure("operator", show=CSV),
    figure("name", "module", show=Show(csv=("module=expected",))),
    *COUNTS,
))
OWN_PARAMETER: Final = Shape("OwnParameter", _Named, "A parameter that a module holds itself.", (
    figure("name", reads(str, lambda parameter: parameter[0])),
    figure("shape", reads(tuple[int, ...], lambda parameter: parameter[1])),
))
TREE_NODE: Final = Shape("TreeNode", ModuleNode, "One module with all below it; the first node is the model, and parents stand before their children.", (
    figure("path"),
    figure("depth"),
    figure("calls"),
    figure("macs"),
    figure("flops"),
    figure("params", "parameters"),
    figure("activations", meaning="elements that convolutions and matrix products write"),
    figure("bytes", "size_bytes"),
    figure("flops_fraction", _fraction("flops")),
    figure("params_fraction", _fraction("parameters")),
    figure("own_params", OWN_PARAMETER.at("own_parameters")),
))
DTYPE: Final = Shape("DtypeDocument", DtypeShare, "The parameters of one dtype, and the bytes that they would take in others, scales left out.", (
    figure("dtype"),
    figure("tensors"),
    figure("params", "parameters"),
    figure("bytes", "size_bytes"),
    figure("bytes_as", reads(dict[str, int], lambda share: {dtype: share.bytes_as(dtype) for dtype in NARROWER_DTYPES})),
))
ASSUMED_VALUE: Final = Shape("AssumedValueDocument", AssumedValue, "A value that depends on the data and was assumed while tracing; `share` of the candidates was taken as kept.", (
    figure("what"),
    figure("count"),
    figure("share", default=None),
    figure("lines", default=()),
))
DIFFERENCE: Final = Shape("CountDifference", CounterDifference, "One cause of a difference between two counters.", (
    figure("amount"),
    figure("cause"),
))
NAMED_COUNT: Final = Shape("NamedCount", _NamedCount, "What another counter counts for an operator or module.", (
    figure("name", reads(str, lambda count: count[0])),
    figure("macs", reads(int, lambda count: count[1])),
))
COUNTER: Final = Shape("CounterDocument", CounterComparison, "The figures of another counter; the differences add up to its figure less capplan's.", (
    figure("counter", "count.counter"),
    figure("version", "count.version"),
    figure("macs", "count.macs"),
    figure("params", "count.params"),
    figure("macs_differences", DIFFERENCE.at("macs")),
    figure("params_differences", DIFFERENCE.at("params")),
    figure("by_operator", NAMED_COUNT.at(_named_counts("by_operator"))),
    figure("by_module", NAMED_COUNT.at(_named_counts("by_module"))),
    figure("skipped", "count.skipped"),
    figure("failure", "count.failure"),
))
ANALYSIS: Final = Shape("AnalysisDocument", AnalyzeAnswer, "What `capplan analyze --format json` writes: counts at one batch; rows of a view add up to the totals.", (
    figure("schema_version", reads(Literal[2], lambda _: 2)),
    *SIGNED[1:],
    figure("name", "analysis.trace.name"),
    figure("class", "analysis.trace.class_name"),
    figure("recording", in_words("analysis.configuration")),
    figure("batch", "analysis.batch"),
    figure("params", "analysis.trace.parameter_count"),
    figure("trainable_params", "analysis.trace.trainable_count", "elements of parameters that require a gradient"),
    figure("frozen_params", "analysis.trace.frozen_count"),
    figure("buffers", "analysis.trace.buffer_count"),
    figure("params_bytes_by_dtype", reads(dict[str, int], lambda answer: parameter_bytes_by_dtype(answer.analysis.trace))),
    figure("params_by_dtype", DTYPE.at(reads(tuple[DtypeShare, ...], lambda answer: parameters_by_dtype(answer.analysis.trace)))),
    figure("macs", "analysis.macs"),
    figure("flops", "analysis.flops"),
    figure("bytes", "analysis.size_bytes"),
    figure("by_operator", SHARE.at("analysis.by_operator")),
    figure("by_module", SHARE.at("analysis.by_module")),
    figure("by_module_and_operator", OPERATOR_SHARE.at("analysis.by_module_and_operator")),
    figure("tree", TREE_NODE.at("analysis.tree")),
    figure("uncounted", "analysis.uncounted"),
    figure("counted_bytes_fraction", "analysis.counted_bytes_fraction"),
    figure("backend", "analysis.recording.backend",
        Meta(pattern="^(meta|fake|real)$", description="the backend that the model was traced on")),
    figure("assumed_values", ASSUMED_VALUE.at("analysis.recording.assumed_values")),
    figure("notes", "analysis.trace.provenance.notes"),
    figure("versions", "analysis.trace.provenance.versions"),
    figure("comparison", COUNTER.at(reads(tuple[CounterComparison, ...] | None, lambda answer: answer.comparisons or None)),
        default=UNSET),
))
# fmt: on
