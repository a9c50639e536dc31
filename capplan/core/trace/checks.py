"""Check the JSON of a trace before it becomes a trace: structure, types, ranges and indices.

A trace is arithmetic from here on: an index of -1 or a negative lifetime would change an answer without a word.
Every message names the place, what is there, and what would do.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from capplan.core.json_fields import (
    DamageError,
    are_wholes,
    as_columns,
    as_list,
    as_mapping,
    as_row,
    check_choice,
    check_flag,
    check_text,
    check_texts,
    check_whole,
    check_wholes,
    member,
)
from capplan.core.trace.types import ITEM_BYTES, MemoryFormat, Role
from capplan.core.workload import Layout, Optimizer, Variant
from capplan.units import whole_number

LARGEST_NUMBER = 2**62
"""Largest size, dimension or count that a trace may hold: sums of a few stay exact in 64 bits."""

_LARGEST_BATCH = 2**40
_LARGEST_RANK = 64
_LAYOUTS = frozenset(layout + weight for layout in MemoryFormat for weight in ("", "w"))
_BACKENDS = ("meta", "fake", "real")
_KNOWN_NAMESPACES = ("aten.", "capplan.")
_AT_LEAST_ONE = ("groups", "group", "num_groups", "hidden_size", "layers")
"""Attributes that formulas divide by or multiply with; zero or less is not an operator."""


def check_trace(document: Mapping[str, Any]) -> None:
    """Check a trace's JSON document."""
    for key in ("name", "target", "class_name"):
        check_text(member(document, key, ""), key)
    parameters = as_list(member(document, "parameters", ""), "parameters")
    for index, row in enumerate(parameters):
        place = f"parameters[{index}]"
        names, dtype, shape, is_buffer, trainable = as_row(row, 5, place)
        if not as_list(names, f"{place} names"):
            raise DamageError(f"{place} names", names, "at least one name")
        check_texts(names, f"{place} names")
        _dtype(dtype, f"{place} dtype")
        check_wholes(as_list(shape, f"{place} shape"), f"{place} shape", low=0, high=LARGEST_NUMBER)
        check_flag(is_buffer, f"{place} is_buffer")
        check_flag(trainable, f"{place} trainable")
    for index, row in enumerate(as_list(member(document, "inputs", ""), "inputs")):
        _check_input(row, f"inputs[{index}]")
    _check_provenance(as_mapping(member(document, "provenance", ""), "provenance"))
    for index, row in enumerate(as_list(member(document, "recordings", ""), "recordings")):
        _check_recording(as_mapping(row, f"recordings[{index}]"), f"recordings[{index}]", parameters=len(parameters))


def _check_input(row: Any, place: str) -> None:
    name, dtype, shape = as_row(row, 3, place)
    check_text(name, f"{place} name")
    _dtype(dtype, f"{place} dtype")
    for index, dim in enumerate(as_list(shape, f"{place} shape")):
        _affine(dim, f"{place} shape[{index}]", batch=1)


def _check_provenance(row: Mapping[str, Any]) -> None:
    check_text(member(row, "capplan_version", "provenance."), "provenance.capplan_version")
    versions = as_mapping(member(row, "versions", "provenance."), "provenance.versions")
    check_texts(versions.values(), "provenance.versions")
    if (source := member(row, "source_sha256", "provenance.")) is not None:
        check_text(source, "provenance.source_sha256")
    check_texts(as_list(member(row, "notes", "provenance."), "provenance.notes"), "provenance.notes")


def _check_recording(row: Mapping[str, Any], place: str, *, parameters: int) -> None:
    _check_configuration(as_mapping(member(row, "configuration", f"{place}."), f"{place}.configuration"), place)
    # Check the batches that a recording is made from, and return the smallest that it is true for.
    batches = as_list(member(row, "batches", f"{place}."), f"{place}.batches")
    check_wholes(batches, f"{place}.batches", low=1, high=_LARGEST_BATCH)
    exact = member(row, "exact_batch", f"{place}.")
    if exact is not None:
        check_whole(exact, f"{place}.exact_batch", low=1, high=_LARGEST_BATCH)
    elif not batches:
        raise DamageError(f"{place}.batches", batches, "the batches that were traced")
    check_choice(member(row, "backend", f"{place}."), f"{place}.backend", _BACKENDS)
    for index, assumed in enumerate(as_list(member(row, "assumed_values", f"{place}."), f"{place}.assumed_values")):
        _check_assumed(assumed, f"{place}.assumed_values[{index}]")
    batch = int(exact if exact is not None else min(batches))
    modules = as_list(member(row, "modules", f"{place}."), f"{place}.modules")
    check_texts(modules, f"{place}.modules")
    kernels = as_list(member(row, "kernels", f"{place}."), f"{place}.kernels")
    for index, kernel in enumerate(kernels):
        _check_kernel(kernel, f"{place}.kernels[{index}]", batch=batch)
    storages = as_columns(member(row, "storages", f"{place}."), f"{place}.storages", _STORAGE_COLUMNS)
    ops = as_columns(member(row, "ops", f"{place}."), f"{place}.ops", _OP_COLUMNS)
    count = len(ops["kernel"])
    _check_ops(ops, f"{place}.ops", kernels=kernels, modules=len(modules), storages=len(storages["role"]))
    _check_storages(storages, f"{place}.storages", ops=count, batch=batch)
    _check_owners(row["storages"], f"{place}.storages.parameter", storages=len(storages["role"]), parameters=parameters)
    _check_phases(as_list(member(row, "phases", f"{place}."), f"{place}.phases"), f"{place}.phases", ops=count)


_OP_COLUMNS = ("kernel", "module", "calls", "reads", "writes")
_STORAGE_COLUMNS = ("size_bytes", "role", "birth", "lifetime")


def _check_configuration(row: Mapping[str, Any], place: str) -> None:
    for key, kind in (("variant", Variant), ("layout", Layout)):
        check_choice(member(row, key, f"{place}.configuration."), f"{place}.configuration.{key}", tuple(kind))
    training = row.get("training")
    if training is None:
        return
    where = f"{place}.configuration.training"
    check_choice(member(as_mapping(training, where), "optimizer", f"{where}."), f"{where}.optimizer", tuple(Optimizer))
    check_flag(member(training, "checkpointing", f"{where}."), f"{where}.checkpointing")
    check_whole(member(training, "accumulate", f"{where}."), f"{where}.accumulate", low=1, high=_LARGEST_BATCH)


def _check_assumed(row: Any, place: str) -> None:
    """Check a value that was assumed: name, count, and where they are known a share, lines of code and the next op."""
    columns = as_list(row, place)
    if not 2 <= len(columns) <= 5:
        raise DamageError(place, row, "a name, a count, a share up to 1, lines of code and the op after")
    padded: list[Any] = [*columns, *[None] * (5 - len(columns))]
    what, count, share, lines, first_op = padded
    check_text(what, place)
    check_whole(count, f"{place} count", low=0, high=LARGEST_NUMBER)
    if share is not None and not (isinstance(share, int | float) and not isinstance(share, bool) and 0 < share <= 1):
        raise DamageError(f"{place} share", share, "a share up to 1")
    named: Sequence[Any] = () if lines is None else as_list(lines, f"{place} lines")
    for line in named:
        check_text(line, f"{place} lines")
    if first_op is not None:
        check_whole(first_op, f"{place} first op", low=0, high=LARGEST_NUMBER)


def _check_kernel(row: Any, place: str, *, batch: int) -> None:
    kernel = as_mapping(row, place)
    check_text(member(kernel, "name", f"{place}."), f"{place}.name")
    for side in ("in", "out"):
        for index, operand in enumerate(as_list(member(kernel, side, f"{place}."), f"{place}.{side}")):
            _check_operand(operand, f"{place}.{side}[{index}]", batch=batch)
    is_known = kernel["name"].startswith(_KNOWN_NAMESPACES)
    for name, value in as_mapping(kernel.get("attributes", {}), f"{place}.attributes").items():
        if is_known and name in _AT_LEAST_ONE:
            check_whole(value, f"{place}.attributes.{name}", low=1, high=LARGEST_NUMBER)
        _check_attribute(value, f"{place}.attributes.{name}")
    if "flops" in kernel:
        _affine(kernel["flops"], f"{place}.flops", batch=batch)


def _check_attribute(value: Any, place: str) -> None:
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, bool | int | float | str):
            raise DamageError(place, item, "a number, a text, true or false, or a list of these")


def _check_operand(row: Any, place: str, *, batch: int) -> None:
    dtype, shape, layout, *more = as_row(row, 4, place, at_least=3)
    _dtype(dtype, f"{place} dtype")
    for index, dim in enumerate(as_list(shape, f"{place} shape")):
        _affine(dim, f"{place} shape[{index}]", batch=batch)
    if len(shape) > _LARGEST_RANK:
        raise DamageError(f"{place} shape", shape, f"of at most {_LARGEST_RANK} dimensions")
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise DamageError(f"{place} layout", layout, f"one of {', '.join(sorted(_LAYOUTS))}")
    for expanded in more:
        check_wholes(as_list(expanded, f"{place} expanded"), f"{place} expanded", low=0, high=len(shape) - 1)


def _check_ops(
    ops: Mapping[str, Sequence[Any]], place: str, *, kernels: Sequence[Any], modules: int, storages: int
) -> None:
    check_wholes(ops["kernel"], f"{place}.kernel", low=0, high=len(kernels) - 1)
    check_wholes(ops["module"], f"{place}.module", low=0, high=modules - 1)
    check_wholes(ops["calls"], f"{place}.calls", low=0, high=_LARGEST_BATCH)
    for name, side in (("reads", "in"), ("writes", "out")):
        wanted = [len(kernel[side]) for kernel in kernels]
        for index, (indices, kernel) in enumerate(zip(ops[name], ops["kernel"], strict=True)):
            if not isinstance(indices, list) or not are_wholes(indices, low=0, high=storages - 1):
                where = f"{place}.{name}[{index}]"
                check_wholes(as_list(indices, where), where, low=0, high=storages - 1)
            if len(indices) != wanted[kernel]:
                where = f"{place}.{name}[{index}]"
                raise DamageError(where, indices, f"one storage for each of the kernel's {wanted[kernel]} tensors")


def _check_storages(storages: Mapping[str, Sequence[Any]], place: str, *, ops: int, batch: int) -> None:
    for index, size in enumerate(storages["size_bytes"]):
        _affine(size, f"{place}.size_bytes[{index}]", batch=batch)
    for index, role in enumerate(storages["role"]):
        check_choice(role, f"{place}.role[{index}]", tuple(Role))
    check_wholes(storages["birth"], f"{place}.birth", low=-1, high=ops - 1)
    check_wholes(storages["lifetime"], f"{place}.lifetime", low=0, high=ops + 1)
    for index, (birth, lifetime) in enumerate(zip(storages["birth"], storages["lifetime"], strict=True)):
        if birth + lifetime > ops:
            raise DamageError(
                f"{place}.lifetime[{index}]", lifetime, f"at most {ops - birth}: the recording has {ops} ops"
            )


def _check_owners(columns: Mapping[str, Any], place: str, *, storages: int, parameters: int) -> None:
    owners = as_mapping(member(columns, "parameter", place.removesuffix("parameter")), place)
    for key, owner in owners.items():
        if (index := whole_number(key)) is None or index >= storages:
            raise DamageError(f"{place}: the key", key, f"the index of one of the {storages} storages")
        check_whole(owner, f"{place}.{key}", low=0, high=parameters - 1)


def _check_phases(rows: Sequence[Any], place: str, *, ops: int) -> None:
    before = 0
    for index, row in enumerate(rows):
        name, step, first = as_row(row, 3, f"{place}[{index}]")
        check_text(name, f"{place}[{index}] name")
        check_whole(step, f"{place}[{index}] step", low=0, high=_LARGEST_BATCH)
        check_whole(first, f"{place}[{index}] first_op", low=before, high=ops)
        before = first


def _dtype(value: Any, place: str) -> None:
    if not isinstance(value, str) or value not in ITEM_BYTES:
        raise DamageError(place, value, f"a dtype, such as float32; known are {', '.join(ITEM_BYTES)}")


def _affine(value: Any, place: str, *, batch: int) -> None:
    """Check a function of the batch: it never falls, and is not negative at a batch that was traced."""
    if type(value) is int:
        if not 0 <= value <= LARGEST_NUMBER:
            raise DamageError(place, value, f"a whole number from 0 to {LARGEST_NUMBER}, or [constant, per_sample]")
        return
    constant, per_sample = as_row(value, 2, place)
    check_whole(constant, f"{place} constant", low=-LARGEST_NUMBER, high=LARGEST_NUMBER)
    check_whole(per_sample, f"{place} per_sample", low=0, high=LARGEST_NUMBER)
    if constant + per_sample * batch < 0:
        raise DamageError(place, value, f"at least 0 at batch {batch}")
