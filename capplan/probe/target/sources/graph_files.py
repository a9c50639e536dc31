"""ONNX files and TorchScript archives as models: read as data, never executed, their weights never read."""

import hashlib
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

from capplan.errors import UsageError
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.inputs.tensors import InputMaker, asked_inputs, image_of_stated_size, refuse_seq_len
from capplan.probe.onnx.graph import OnnxModel
from capplan.probe.onnx.infer import ShapeInference
from capplan.probe.onnx.inputs import find_inputs
from capplan.probe.onnx.network import OnnxNetwork
from capplan.probe.onnx.operators.table import find_handler, unknown_name
from capplan.probe.onnx.parse import read_model
from capplan.probe.onnx.patterns import find_patterns
from capplan.probe.onnx.rewrite import hoist_constants, settle_branches
from capplan.probe.target.types import Target, branch_notes, full_words, versions_of
from capplan.probe.torchscript.archive import ScriptFunction, parse_sources, read_archive
from capplan.probe.torchscript.network import ScriptNetwork, find_forward
from capplan.probe.torchscript.records import ObjectRecord


def onnx_target(path: Path, request: InputRequest) -> Target:
    model = hoist_constants(read_model(path))
    graph, decided = settle_branches(model.graph)
    model = replace(model, graph=find_patterns(graph))
    inputs = find_inputs(model, request, str(path))
    inference = ShapeInference(path)
    batch_note = (
        "an ONNX file whose batch varies."
        if inputs.only_batch is None
        else f"an ONNX file with a fixed batch of {inputs.only_batch}: only that batch can be planned."
    )
    return Target(
        name=path.stem,
        words=full_words(str(path), request),
        library="onnx",
        builder=lambda: OnnxNetwork(model, inference),
        inputs=inputs,
        only_batch=inputs.only_batch,
        versions={**versions_of("torch", "onnx"), "opset": str(model.opset), "written by": model.producer or "unknown"},
        notes=(*_unknown_notes(model, path), *branch_notes(decided, "If"), batch_note, *inputs.notes),
    )


def _unknown_notes(model: OnnxModel, path: Path) -> tuple[str, ...]:
    """Name the operators that are not read, with how to add a formula for each."""
    unknown = {unknown_name(node): node for node in model.graph.nodes if find_handler(node) is None}
    return tuple(
        f"{node.full_operator} is not an operator that is read: its arithmetic is not counted and its outputs' shapes "
        f"are those that the onnx package infers. Add a formula of its FLOPs in Python with "
        f"capplan.trace({path.name!r}, formulas={{{name!r}: lambda call: ...}})."
        for name, node in unknown.items()
    )


def torchscript_target(path: Path, request: InputRequest) -> Target:
    """Find the model in a TorchScript archive, scripted or traced."""
    if request.arguments:
        raise UsageError(f"{path}: ⟨arg⟩ has no constructor to go to; TorchScript is saved with its arguments.")
    full = full_words(str(path), request)
    refuse_seq_len(full, request)
    archive = read_archive(path)
    sources = parse_sources(archive.sources, where=str(path))
    root: Any = archive.root
    if not isinstance(root, ObjectRecord) or root.class_name not in sources.classes:
        raise UsageError(f"{path}: the archive's model has no class among its sources.")
    code = "\0".join(part for source in sorted(archive.sources.items()) for part in source)
    return Target(
        name=path.stem,
        words=full,
        library="torchscript",
        builder=lambda: ScriptNetwork(archive, sources, where=str(path)),
        inputs=_inputs(find_forward(sources.classes[root.class_name]), full, request),
        versions=versions_of("torch"),
        source_sha256=hashlib.sha256(code.encode()).hexdigest(),
        notes=("a TorchScript archive, interpreted from its source; its weights are not read.",),
    )


def _inputs(forward: ScriptFunction, words: str, request: InputRequest) -> InputMaker:
    names = forward.parameters[1:]
    if asked := asked_inputs(request, positional_names=names, forward=_stand_in(forward)):
        return asked
    if image := image_of_stated_size(request, words, positional_names=names):
        return image
    kinds = ", ".join(f"{name}: {kind}" for name, kind in zip(names, forward.annotations[1:], strict=True))
    raise UsageError(
        f"{words}: TorchScript does not state shapes; say what forward({kinds}) is fed: "
        f"⟨input⟩ {names[0] if names else 'x'}=3x224x224, ⟨input-size⟩ or ⟨inputs-from⟩."
    )


def _stand_in(forward: ScriptFunction) -> Any:
    """Return a function with the parameters of the archive's forward, for those who inspect its signature."""

    def call(*_args: Any, **_kwargs: Any) -> None:
        """Declare the forward of an archive."""

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in forward.parameters[1:]]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what inspect looks for
    return call
