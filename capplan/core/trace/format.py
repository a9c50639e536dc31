"""The trace file: versioned JSON, read and written without torch. See docs/trace.md.

Deterministic: the same trace gives the same bytes, compressed or not. A file is data: no code, no
weights, no pickle. A dimension is an integer, or `[constant, per_sample]` where it grows with the batch.
"""

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from capplan.core.trace.checks import check_trace
from capplan.core.trace.types import (
    PUBLIC_LIBRARIES,
    SCHEMA_VERSION,
    Affine,
    AssumedValue,
    Attribute,
    InputTensor,
    Kernel,
    MemoryFormat,
    Op,
    Operand,
    Parameter,
    Phase,
    Provenance,
    Recording,
    Role,
    Storage,
    Trace,
)
from capplan.core.workload import Configuration, Layout, Optimizer, Training, Variant
from capplan.errors import TraceFileError
from capplan.strict_json import GZIP_MAGIC, JsonError, decompress, read_json

FORMAT = "capplan-trace"
CHECKSUM = "sha256"
TRACE_SUFFIXES = (".trace.json", ".trace.json.gz")


def dump_trace(trace: Trace, *, compress: bool) -> bytes:
    """Write a trace as JSON, gzip-compressed if asked; the same trace gives the same bytes."""
    document = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "name": trace.name,
        "target": trace.target,
        "class_name": trace.class_name,
        "parameters": [[list(p.names), p.dtype, list(p.shape), p.is_buffer, p.trainable] for p in trace.parameters],
        "inputs": [[i.name, i.dtype, [_affine_to_json(dim) for dim in i.shape]] for i in trace.inputs],
        "recordings": [_recording_to_json(recording) for recording in trace.recordings],
        "provenance": {
            "capplan_version": trace.provenance.capplan_version,
            "versions": dict(sorted(trace.provenance.versions.items())),
            "source_sha256": trace.provenance.source_sha256,
            "notes": list(trace.provenance.notes),
        },
    }
    text = _to_text({**document, CHECKSUM: _checksum(document)}) + "\n"
    content = text.encode(errors="backslashreplace")  # half characters, which JSON writes the same way
    return gzip.compress(content, compresslevel=9, mtime=0) if compress else content


def load_trace(content: bytes, *, where: str) -> Trace:
    """Read a trace from the bytes of its file, compressed or not."""
    try:
        plain = decompress(content) if content[:2] == GZIP_MAGIC else content
        document = read_json(plain, allow_infinite=True)  # masks of -Infinity are attributes of operators
    except JsonError as error:
        raise TraceFileError(f"{where} {error}.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise TraceFileError(f"{where} is JSON but no trace file; `capplan trace MODEL -o FILE` makes one.")
    version = document.get("schema_version")
    if type(version) is not int or version < 1:
        raise TraceFileError(f"{where} is not a trace file: its schema_version is {version!r}.")
    if version > SCHEMA_VERSION:
        raise TraceFileError(
            f"{where} has trace schema {version}; this capplan reads up to {SCHEMA_VERSION}: upgrade capplan."
        )
    _verify(document, where=where)
    if version == 1:
        document = _upgraded(document)
    try:
        check_trace(document)
    except ValueError as error:
        raise TraceFileError(f"{where} is a damaged trace file: {error}.") from error
    return _trace_from_json(document)


def _to_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _checksum(document: Mapping[str, Any]) -> str:
    """Hash what a document says, however it is indented. [SHA-256, hexadecimal]"""
    return hashlib.sha256(_to_text(document).encode(errors="backslashreplace")).hexdigest()


def _verify(document: dict[str, Any], *, where: str) -> None:
    """Compare a trace with its checksum, and drop it; traces of capplan 0.1 have none."""
    if CHECKSUM not in document:
        return
    written = document.pop(CHECKSUM)
    if written != _checksum(document):
        raise TraceFileError(
            f"{where} was changed after it was written: its {CHECKSUM} does not match its content; trace the model "
            f"again, or delete {CHECKSUM} from the file if the change was meant."
        )


_RENAMED = {"rung": "backend", "guesses": "assumed_values"}
"""Members of a recording by their names in version 1, and since."""


def _upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """Return a trace of version 1 with the names of version 2; what is damaged stays for the checks to name."""
    recordings = document.get("recordings")
    if not isinstance(recordings, list):
        return document
    renamed = [
        {_RENAMED.get(key, key): value for key, value in recording.items()}
        if isinstance(recording, dict)
        else recording
        for recording in recordings
    ]
    return {**document, "recordings": renamed}


def is_trace_content(content: bytes) -> bool:
    """Return True if bytes look like a trace file rather than some other JSON."""
    return content.startswith(GZIP_MAGIC) or f'"{FORMAT}"'.encode() in content[:200]


def _affine_to_json(value: Affine) -> int | list[int]:
    return [value.constant, value.per_sample] if value.per_sample else value.constant


def _affine_from_json(value: int | list[int]) -> Affine:
    return Affine(*value) if isinstance(value, list) else Affine(value)


def _operand_to_json(operand: Operand) -> list[Any]:
    row: list[Any] = [operand.dtype, [_affine_to_json(dim) for dim in operand.shape]]
    row.append(operand.memory_format.value + ("w" if operand.is_weight else ""))
    return [*row, list(operand.expanded)] if operand.expanded else row


def _operand_from_json(row: list[Any]) -> Operand:
    return Operand(
        dtype=row[0],
        shape=tuple(map(_affine_from_json, row[1])),
        memory_format=MemoryFormat(row[2][0]),
        is_weight=row[2].endswith("w"),
        expanded=tuple(row[3]) if len(row) > 3 else (),
    )


def _kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": kernel.name,
        "in": [_operand_to_json(operand) for operand in kernel.inputs],
        "out": [_operand_to_json(operand) for operand in kernel.outputs],
    }
    if kernel.attributes:
        row["attributes"] = {
            key: list(value) if isinstance(value, tuple) else value for key, value in sorted(kernel.attributes.items())
        }
    if kernel.flops is not None:
        row["flops"] = _affine_to_json(kernel.flops)
    return row


def _kernel_from_json(row: dict[str, Any]) -> Kernel:
    attributes: dict[str, Attribute] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.get("attributes", {}).items()
    }
    return Kernel(
        name=row["name"],
        inputs=tuple(map(_operand_from_json, row["in"])),
        outputs=tuple(map(_operand_from_json, row["out"])),
        attributes=attributes,
        flops=_affine_from_json(row["flops"]) if "flops" in row else None,
    )


def _configuration_to_json(configuration: Configuration) -> dict[str, Any]:
    row: dict[str, Any] = {"variant": configuration.variant.value, "layout": configuration.layout.value}
    if configuration.training:
        row["training"] = {
            "optimizer": configuration.training.optimizer.value,
            "checkpointing": configuration.training.checkpointing,
            "accumulate": configuration.training.accumulate,
        }
    return row


def _configuration_from_json(row: dict[str, Any]) -> Configuration:
    training = row.get("training")
    return Configuration(
        variant=Variant(row["variant"]),
        layout=Layout(row["layout"]),
        training=training
        and Training(
            optimizer=Optimizer(training["optimizer"]),
            checkpointing=training["checkpointing"],
            accumulate=training["accumulate"],
        ),
    )


def _assumed_row(assumed: AssumedValue) -> list[Any]:
    row: list[Any] = [assumed.what, assumed.count, assumed.share, list(assumed.lines), assumed.first_op]
    while row[-1] in (None, []):
        row.pop()
    return row


def _recording_to_json(recording: Recording) -> dict[str, Any]:
    storages = recording.storages
    return {
        "configuration": _configuration_to_json(recording.configuration),
        "batches": list(recording.batches),
        "exact_batch": recording.exact_batch,
        "backend": recording.backend,
        "assumed_values": [_assumed_row(assumed) for assumed in recording.assumed_values],
        "phases": [[phase.name, phase.step, phase.first_op] for phase in recording.phases],
        "modules": list(recording.modules),
        "kernels": [_kernel_to_json(kernel) for kernel in recording.kernels],
        "ops": {
            "kernel": [op.kernel for op in recording.ops],
            "module": [op.module for op in recording.ops],
            "calls": [op.calls for op in recording.ops],
            "reads": [list(op.reads) for op in recording.ops],
            "writes": [list(op.writes) for op in recording.ops],
        },
        "storages": {
            "size_bytes": [_affine_to_json(storage.size_bytes) for storage in storages],
            "role": [storage.role.value for storage in storages],
            "birth": [storage.birth for storage in storages],
            "lifetime": [storage.death - storage.birth for storage in storages],
            "parameter": {str(i): s.parameter for i, s in enumerate(storages) if s.parameter is not None},
        },
    }


def _recording_from_json(row: dict[str, Any]) -> Recording:
    ops, storages = row["ops"], row["storages"]
    owners = {int(index): owner for index, owner in storages["parameter"].items()}
    op_columns = (ops["kernel"], ops["module"], ops["calls"], ops["reads"], ops["writes"])
    storage_columns = (storages["size_bytes"], storages["role"], storages["birth"], storages["lifetime"])
    return Recording(
        configuration=_configuration_from_json(row["configuration"]),
        modules=tuple(row["modules"]),
        kernels=tuple(map(_kernel_from_json, row["kernels"])),
        ops=tuple(
            Op(kernel=kernel, module=module, calls=calls, reads=tuple(reads), writes=tuple(writes))
            for kernel, module, calls, reads, writes in zip(*op_columns, strict=True)
        ),
        storages=tuple(
            Storage(
                size_bytes=_affine_from_json(size),
                role=Role(role),
                birth=birth,
                death=birth + lifetime,
                parameter=owners.get(index),
            )
            for index, (size, role, birth, lifetime) in enumerate(zip(*storage_columns, strict=True))
        ),
        phases=tuple(Phase(name=name, step=step, first_op=first) for name, step, first in row["phases"]),
        batches=tuple(row["batches"]),
        exact_batch=row["exact_batch"],
        backend=row["backend"],
        assumed_values=tuple(
            AssumedValue(what=what, count=count, share=share, lines=tuple(lines or ()), first_op=first_op)
            for what, count, share, lines, first_op in (
                [*values, *[None] * (5 - len(values))] for values in row["assumed_values"]
            )
        ),
    )


def _trace_from_json(document: dict[str, Any]) -> Trace:
    provenance = document["provenance"]
    return Trace(
        name=document["name"],
        target=document["target"],
        class_name=document["class_name"],
        parameters=tuple(
            Parameter(names=tuple(names), dtype=dtype, shape=tuple(shape), is_buffer=is_buffer, trainable=trainable)
            for names, dtype, shape, is_buffer, trainable in document["parameters"]
        ),
        inputs=tuple(
            InputTensor(name=name, dtype=dtype, shape=tuple(map(_affine_from_json, shape)))
            for name, dtype, shape in document["inputs"]
        ),
        recordings=tuple(map(_recording_from_json, document["recordings"])),
        provenance=Provenance(
            capplan_version=provenance["capplan_version"],
            versions=provenance["versions"],
            source_sha256=provenance["source_sha256"],
            notes=tuple(provenance["notes"]),
        ),
    )


def anonymize_trace(trace: Trace) -> Trace:
    """Drop the model's, its modules', parameters', inputs' and own operators' names, its source and its library.

    Modules keep their place in the tree: `0.1.3` is the fourth child of the second child of the first module.
    """
    modules = _number_paths(path for recording in trace.recordings for path in recording.modules)
    names = [kernel.name for recording in trace.recordings for kernel in recording.kernels]
    names += [
        value.what for recording in trace.recordings for value in recording.assumed_values if " " not in value.what
    ]
    own = dict.fromkeys(name for name in names if name.partition(".")[0] not in PUBLIC_LIBRARIES)
    operators = {name: f"custom.op{index}" for index, name in enumerate(own)}
    provenance = Provenance(
        capplan_version=trace.provenance.capplan_version,
        versions={key: value for key, value in trace.provenance.versions.items() if key == "torch"},
    )
    return replace(
        trace,
        name="anonymous",
        target="anonymous",
        class_name="Module",
        parameters=tuple(
            replace(parameter, names=tuple(f"p{index}.{alias}" for alias in range(len(parameter.names))))
            for index, parameter in enumerate(trace.parameters)
        ),
        inputs=tuple(replace(tensor, name=f"input{index}") for index, tensor in enumerate(trace.inputs)),
        recordings=tuple(_anonymous_recording(recording, modules, operators) for recording in trace.recordings),
        provenance=provenance,
    )


def _anonymous_recording(recording: Recording, modules: dict[str, str], operators: dict[str, str]) -> Recording:
    return replace(
        recording,
        modules=tuple(modules[path] for path in recording.modules),
        kernels=tuple(
            kernel if kernel.name not in operators else replace(kernel, name=operators[kernel.name], attributes={})
            for kernel in recording.kernels
        ),
        assumed_values=tuple(
            replace(value, what=operators.get(value.what, value.what), lines=()) for value in recording.assumed_values
        ),
    )


def _number_paths(paths: Iterable[str]) -> dict[str, str]:
    """Replace each step of each path by its number among its siblings, in order of appearance."""
    children: dict[str, dict[str, int]] = {}
    numbered = {"": ""}
    for path in paths:
        parent, steps = "", []
        for step in path.split(".") if path else ():
            siblings = children.setdefault(parent, {})
            steps.append(str(siblings.setdefault(step, len(siblings))))
            parent = f"{parent}.{step}"
        numbered[path] = ".".join(steps)
    return numbered
