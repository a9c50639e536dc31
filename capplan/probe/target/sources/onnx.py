"""ONNX files as models: read as data, nothing in them is executed, and their weights are never read."""

from dataclasses import replace
from pathlib import Path

from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.onnx.graph import OnnxModel
from capplan.probe.onnx.infer import ShapeInference
from capplan.probe.onnx.inputs import find_inputs
from capplan.probe.onnx.network import OnnxNetwork
from capplan.probe.onnx.operators.table import find_handler
from capplan.probe.onnx.parse import read_model
from capplan.probe.onnx.patterns import find_patterns
from capplan.probe.onnx.rewrite import hoist_constants, settle_branches
from capplan.probe.onnx.unknown import unknown_name
from capplan.probe.target.types import Target
from capplan.probe.target.words import full_words, versions_of


def onnx_target(path: Path, request: InputRequest) -> Target:
    """Find the model in an `.onnx` file.

    Raises:
        UsageError: the file is missing, damaged or hostile, or the inputs do not fit it.
    """
    model = hoist_constants(read_model(path))
    graph, decided = settle_branches(model.graph)
    model = replace(model, graph=find_patterns(graph))
    inputs = find_inputs(model, request, str(path))
    inference = ShapeInference(path)
    return Target(
        name=path.stem,
        words=full_words(str(path), request),
        library="onnx",
        builder=lambda: OnnxNetwork(model, inference),
        inputs=inputs,
        only_batch=inputs.only_batch,
        versions={**versions_of("torch", "onnx"), "opset": str(model.opset), "written by": model.producer or "unknown"},
        notes=(*_unknown_notes(model, path), *_branch_notes(decided), _batch_note(inputs.only_batch), *inputs.notes),
    )


def _batch_note(only_batch: int | None) -> str:
    if only_batch is None:
        return "an ONNX file whose batch varies."
    return f"an ONNX file with a fixed batch of {only_batch}: only that batch can be planned."


def _branch_notes(count: int) -> tuple[str, ...]:
    words = "an If" if count == 1 else f"{count} Ifs"
    return (f"data decide which branch of {words} runs; the longer one is counted.",) if count else ()


def _unknown_notes(model: OnnxModel, path: Path) -> tuple[str, ...]:
    """Name the operators that are not read, with how to add a formula for each."""
    unknown = {unknown_name(node): node for node in model.graph.nodes if find_handler(node) is None}
    return tuple(
        f"{node.full_operator} is not an operator that is read: its arithmetic is not counted and its outputs' shapes "
        f"are those that the onnx package infers. Add a formula of its FLOPs in Python with "
        f"capplan.trace({path.name!r}, formulas={{{name!r}: lambda call: ...}})."
        for name, node in unknown.items()
    )
