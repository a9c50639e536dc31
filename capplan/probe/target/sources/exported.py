"""`.pt2` files of torch.export, read as data: the graph is replayed, nothing that the file holds is executed.

Loading one with torch's own loader evaluates expressions and may unpickle. Here only the JSON description is read:
operators by name out of PyTorch's and torchvision's own, shapes and dtypes of the weights, never the weights.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Mapping, Set
from math import prod
from pathlib import Path
from typing import Any

from capplan.core.json_fields import as_mapping
from capplan.core.trace.types import Affine
from capplan.errors import UsageError
from capplan.files import open_archive
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.inputs.tensors import FileInputs, SpecInputs
from capplan.probe.target.sources.exported_replay import CONDITIONAL, DTYPES, ExportedModule, WeightMeta, check_graph
from capplan.probe.target.types import Target, branch_notes, full_words, hash_files, versions_of
from capplan.strict_json import LARGEST_TEXT_BYTES, read_json

_SYMBOL = re.compile(r"Symbol\('(\w+)'.*\)|(s\d+)")


def exported_target(path: Path, request: InputRequest) -> Target:
    """Find the model in a `.pt2` archive; its inputs are those it was exported with."""
    if request.arguments or request.inputs or request.size or request.seq_len or request.inputs_from:
        raise UsageError(f"{path}: an exported model's arguments and inputs are fixed; export it with others.")
    program = read_program(path)
    try:
        check_graph(program["graph_module"]["graph"], where=str(path))
        weights = _weights(program)
        inputs = _inputs(program, path)
        conditionals = sum(node["target"] == CONDITIONAL for node in program["graph_module"]["graph"]["nodes"])
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"[:150]
        raise UsageError(f"{path}: its program is not as torch.export writes it ({reason}).") from error
    note = (
        "exported with a batch dimension that varies."
        if inputs.only_batch is None
        else f"exported with a static batch of {inputs.only_batch}: only that batch can be planned."
    )
    return Target(
        name=path.stem,
        words=full_words(str(path), request),
        library="torch.export",
        builder=lambda: ExportedModule(program["graph_module"], weights, where=str(path)),
        inputs=inputs,
        only_batch=inputs.only_batch,
        versions={**versions_of("torch"), "exported with torch": str(program.get("torch_version") or "unknown")},
        source_sha256=hash_files([path]),
        notes=(note, *inputs.notes, *branch_notes(conditionals, "torch.cond")),
    )


def _weights(program: Mapping[str, Any]) -> dict[str, WeightMeta]:
    """Return the shapes of parameters, buffers and constants by the graph's names for them."""
    graph_module, shared = program["graph_module"], program["shared"]
    values = graph_module["graph"]["tensor_values"]
    found = {}
    for spec in graph_module["signature"]["input_specs"]:
        for kind in ("parameter", "buffer", "tensor_constant"):
            if kind in spec:
                name = spec[kind]["arg"]["name"]
                path = spec[kind][f"{kind}_name"]
                meta, weight = values[name], shared.get(path)
                shape = tuple(_size(dim["as_int"]) for dim in meta["sizes"])
                if prod(shape) > _MOST_ELEMENTS:
                    raise ValueError(f"a weight of {prod(shape):.3g} elements")
                # tied weights share a storage; weights exported without data have none
                has_storage = weight is not None and weight["tensor_meta"]["device"]["type"] != "meta"
                found[name] = WeightMeta(
                    path=path,
                    shape=shape,
                    dtype=DTYPES[meta["dtype"]],
                    is_parameter=kind == "parameter",
                    trainable=bool(meta["requires_grad"]),
                    storage=str(weight["path_name"]) if has_storage else path,
                )
    return found


def _inputs(program: Mapping[str, Any], path: Path) -> FileInputs:
    """Return the user's inputs of a program, its first varying first dimension taken for the batch.

    First dimensions of other inputs that varied apart from it, and were as large when the program was exported, follow
    it: inputs that meet nowhere but in the outputs have symbols of their own.
    """
    graph_module = program["graph_module"]
    values = graph_module["graph"]["tensor_values"]
    names = [
        spec["user_input"]["arg"]["as_tensor"]["name"]
        for spec in graph_module["signature"]["input_specs"]
        if "user_input" in spec and "as_tensor" in spec["user_input"]["arg"]
    ]
    if not names:
        raise UsageError(f"{path} takes no tensors.")
    sizes = {name: values[name]["sizes"] for name in names}
    leading = {symbol: sizes[name][0] for name in names if sizes[name] and (symbol := _symbol(sizes[name][0]))}
    batch = next(iter(leading), None)
    batches = {symbol for symbol, dim in leading.items() if batch is not None and _hint(dim) == _hint(leading[batch])}
    specs = tuple(
        InputSpec(
            shape=tuple(_dim(dim, batches) for dim in sizes[name]),
            dtype=str(DTYPES[values[name]["dtype"]]).removeprefix("torch."),
        )
        for name in names
    )
    others = {symbol for name in names for dim in sizes[name] if (symbol := _symbol(dim)) and symbol not in batches}
    notes = (
        *(f"its dimension {symbol} is taken for the batch, too." for symbol in sorted(batches - {batch})),
        *(f"its dimension {symbol} varies too and is taken as exported." for symbol in sorted(others)),
    )
    first = sizes[names[0]]
    only = None if batch is not None else _dim(first[0], frozenset()).constant if first else 1
    return FileInputs(
        made=SpecInputs(specs=specs, positional_names=tuple(names)),
        fixed=f"{path} was exported with a static batch",
        instead="export it with dynamic_shapes, or ask for that batch.",
        only_batch=only,
        notes=notes,
    )


def _symbol(dim: Mapping[str, Any]) -> str | None:
    """Return the name of a dimension that varies; None for a fixed one, or one that is computed from others."""
    if "as_expr" not in dim:
        return None
    match = _SYMBOL.fullmatch(dim["as_expr"]["expr_str"])
    return (match[1] or match[2]) if match else None


def _dim(dim: Mapping[str, Any], batches: Set[str]) -> Affine:
    if "as_int" in dim:
        return Affine(_size(dim["as_int"]))
    return BATCH if _symbol(dim) in batches else Affine(_hint(dim))


def _hint(dim: Mapping[str, Any]) -> int:
    """Return how large a dimension that varies was when the program was exported."""
    return _size(dim["as_expr"]["hint"]["as_int"])


_MOST_ELEMENTS = 2**40
"""Most elements of one weight, and the largest size of a dimension: a hundred times those of the largest models."""


def _size(value: Any) -> int:
    """Return the size of a dimension as the JSON holds it."""
    if type(value) is not int or not 0 <= value <= _MOST_ELEMENTS:
        raise ValueError(f"a size of {str(value)[:40]}")
    return value


_PROGRAM = re.compile(r"[^/]+/models/[^/]+\.json")
_WEIGHTS = "/model_weights_config.json"


def without_weights(path: Path) -> bytes:
    """Return an archive of the program alone, which `read_program` reads as it does the whole."""
    read_program(path)
    made = io.BytesIO()
    with open_archive(path) as archive, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as kept:
        for name in archive.namelist():
            if _PROGRAM.fullmatch(name) or name.endswith(_WEIGHTS):
                with archive.open(name) as stream:
                    kept.writestr(zipfile.ZipInfo(name), stream.read(LARGEST_TEXT_BYTES + 1))
    return made.getvalue()


def read_program(path: Path) -> dict[str, Any]:
    """Read an archive's program, with its table of weights' files as "shared"."""
    try:
        with open_archive(path) as archive:
            names = archive.namelist()
            models = [name for name in names if _PROGRAM.fullmatch(name)]
            if len(models) != 1:
                raise UsageError(f"{path} {_not_exported(names)}")
            program = as_mapping(_member(archive, models[0]), models[0])
            configs = [name for name in names if name.endswith(_WEIGHTS)]
            shared = [_member(archive, name)["config"] for name in configs]
            return {**program, "shared": {path: weight for config in shared for path, weight in config.items()}}
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged or no torch.export archive ({error}).") from error


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(name) as stream:
        return read_json(stream.read(LARGEST_TEXT_BYTES + 1), allow_infinite=True)


def _not_exported(names: list[str]) -> str:
    if any(name.endswith("serialized_exported_program.json") for name in names):
        return "was written by torch before 2.8: save it again with a later torch.export.save."
    if any("aotinductor" in name for name in names):
        return "is a compiled AOTInductor package, made for one GPU: save the program with torch.export.save."
    if any(name.endswith("data.pkl") for name in names):
        return (
            "holds pickled weights or a pickled module, which only its own code can read: write the model with "
            "torch.export.save or torch.onnx.export."
        )
    return "is not an archive of one torch.export program, as torch.export.save writes it."
