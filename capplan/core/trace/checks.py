"""Check the JSON of a trace before it becomes a trace: structure, types, ranges and indices.

A trace is arithmetic from here on: an index of -1 or a negative lifetime would change an answer without a word.
Every message names the place, what is there, and what would do.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from capplan.core.trace.types import ITEM_BYTES, MemoryFormat, Role
from capplan.core.workload import Layout, Optimizer, Variant

LARGEST_NUMBER = 2**62
"""Largest size, dimension or count that a trace may hold: sums of a few stay exact in 64 bits."""

_LARGEST_BATCH = 2**40
_LARGEST_RANK = 64
_LAYOUTS = frozenset(layout + weight for layout in MemoryFormat for weight in ("", "w"))
_RUNGS = ("meta", "fake", "real")
_AT_LEAST_ONE = ("groups", "group", "num_groups", "hidden_size", "layers")
"""Attributes that formulas divide by or multiply with; zero or less is no operator."""


class DamageError(ValueError):
    """Why a trace is refused, worded to follow the name of its file."""

    def __init__(self, place: str, given: object, wanted: str) -> None:
        super().__init__(f"{place} is {_shortened(given)}; it must be {wanted}")


def _shortened(given: object) -> str:
    if isinstance(given, dict | list):
        return f"{'an object' if isinstance(given, dict) else 'a list'} of {len(given)}"
    shown = repr(given)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def check_trace(document: Mapping[str, Any]) -> None:
    """Check a trace's JSON document.

    Raises:
        DamageError: a part is missing, of another type, or out of range.
    """
    for key in ("name", "target", "class_name"):
        _text(_member(document, key, ""), key)
    parameters = _list(_member(document, "parameters", ""), "parameters")
    for index, row in enumerate(parameters):
        _check_parameter(row, f"parameters[{index}]")
    for index, row in enumerate(_list(_member(document, "inputs", ""), "inputs")):
        _check_input(row, f"inputs[{index}]")
    _check_provenance(_mapping(_member(document, "provenance", ""), "provenance"))
    for index, row in enumerate(_list(_member(document, "recordings", ""), "recordings")):
        _check_recording(_mapping(row, f"recordings[{index}]"), f"recordings[{index}]", parameters=len(parameters))


def _check_parameter(row: Any, place: str) -> None:
    names, dtype, shape, is_buffer, trainable = _row(row, 5, place)
    if not _list(names, f"{place} names"):
        raise DamageError(f"{place} names", names, "at least one name")
    _texts(names, f"{place} names")
    _dtype(dtype, f"{place} dtype")
    _wholes(_list(shape, f"{place} shape"), f"{place} shape", low=0, high=LARGEST_NUMBER)
    _flag(is_buffer, f"{place} is_buffer")
    _flag(trainable, f"{place} trainable")


def _check_input(row: Any, place: str) -> None:
    name, dtype, shape = _row(row, 3, place)
    _text(name, f"{place} name")
    _dtype(dtype, f"{place} dtype")
    for index, dim in enumerate(_list(shape, f"{place} shape")):
        _affine(dim, f"{place} shape[{index}]", batch=1)


def _check_provenance(row: Mapping[str, Any]) -> None:
    _text(_member(row, "capplan_version", "provenance."), "provenance.capplan_version")
    versions = _mapping(_member(row, "versions", "provenance."), "provenance.versions")
    _texts(versions.values(), "provenance.versions")
    if (source := _member(row, "source_sha256", "provenance.")) is not None:
        _text(source, "provenance.source_sha256")
    _texts(_list(_member(row, "notes", "provenance."), "provenance.notes"), "provenance.notes")


def _check_recording(row: Mapping[str, Any], place: str, *, parameters: int) -> None:
    _check_configuration(_mapping(_member(row, "configuration", f"{place}."), f"{place}.configuration"), place)
    batch = _check_batches(row, place)
    modules = _list(_member(row, "modules", f"{place}."), f"{place}.modules")
    _texts(modules, f"{place}.modules")
    kernels = _list(_member(row, "kernels", f"{place}."), f"{place}.kernels")
    for index, kernel in enumerate(kernels):
        _check_kernel(kernel, f"{place}.kernels[{index}]", batch=batch)
    storages = _columns(_member(row, "storages", f"{place}."), f"{place}.storages", _STORAGE_COLUMNS)
    ops = _columns(_member(row, "ops", f"{place}."), f"{place}.ops", _OP_COLUMNS)
    count = len(ops["kernel"])
    _check_ops(ops, f"{place}.ops", kernels=kernels, modules=len(modules), storages=len(storages["role"]))
    _check_storages(storages, f"{place}.storages", ops=count, batch=batch)
    _check_owners(row["storages"], f"{place}.storages.parameter", storages=len(storages["role"]), parameters=parameters)
    _check_phases(_list(_member(row, "phases", f"{place}."), f"{place}.phases"), f"{place}.phases", ops=count)


_OP_COLUMNS = ("kernel", "module", "calls", "reads", "writes")
_STORAGE_COLUMNS = ("size_bytes", "role", "birth", "lifetime")


def _check_configuration(row: Mapping[str, Any], place: str) -> None:
    for key, kind in (("variant", Variant), ("layout", Layout)):
        _one_of(_member(row, key, f"{place}.configuration."), f"{place}.configuration.{key}", tuple(kind))
    training = row.get("training")
    if training is None:
        return
    where = f"{place}.configuration.training"
    _one_of(_member(_mapping(training, where), "optimizer", f"{where}."), f"{where}.optimizer", tuple(Optimizer))
    _flag(_member(training, "checkpointing", f"{where}."), f"{where}.checkpointing")
    _whole(_member(training, "accumulate", f"{where}."), f"{where}.accumulate", low=1, high=_LARGEST_BATCH)


def _check_batches(row: Mapping[str, Any], place: str) -> int:
    """Check the batches that a recording is made from, and return the smallest that it is true for."""
    batches = _list(_member(row, "batches", f"{place}."), f"{place}.batches")
    _wholes(batches, f"{place}.batches", low=1, high=_LARGEST_BATCH)
    exact = _member(row, "exact_batch", f"{place}.")
    if exact is not None:
        _whole(exact, f"{place}.exact_batch", low=1, high=_LARGEST_BATCH)
    elif not batches:
        raise DamageError(f"{place}.batches", batches, "the batches that were traced")
    _one_of(_member(row, "rung", f"{place}."), f"{place}.rung", _RUNGS)
    for index, guess in enumerate(_list(_member(row, "guesses", f"{place}."), f"{place}.guesses")):
        what, count = _row(guess, 2, f"{place}.guesses[{index}]")
        _text(what, f"{place}.guesses[{index}]")
        _whole(count, f"{place}.guesses[{index}] count", low=0, high=LARGEST_NUMBER)
    return int(exact if exact is not None else min(batches))


def _check_kernel(row: Any, place: str, *, batch: int) -> None:
    kernel = _mapping(row, place)
    _text(_member(kernel, "name", f"{place}."), f"{place}.name")
    for side in ("in", "out"):
        for index, operand in enumerate(_list(_member(kernel, side, f"{place}."), f"{place}.{side}")):
            _check_operand(operand, f"{place}.{side}[{index}]", batch=batch)
    for name, value in _mapping(kernel.get("attributes", {}), f"{place}.attributes").items():
        _check_attribute(name, value, f"{place}.attributes.{name}")
    if "flops" in kernel:
        _affine(kernel["flops"], f"{place}.flops", batch=batch)


def _check_attribute(name: str, value: Any, place: str) -> None:
    if name in _AT_LEAST_ONE:
        _whole(value, place, low=1, high=LARGEST_NUMBER)
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, bool | int | float | str):
            raise DamageError(place, each, "a number, a text, true or false, or a list of these")


def _check_operand(row: Any, place: str, *, batch: int) -> None:
    dtype, shape, layout, *more = _row(row, 4, place, at_least=3)
    _dtype(dtype, f"{place} dtype")
    for index, dim in enumerate(_list(shape, f"{place} shape")):
        _affine(dim, f"{place} shape[{index}]", batch=batch)
    if len(shape) > _LARGEST_RANK:
        raise DamageError(f"{place} shape", shape, f"of at most {_LARGEST_RANK} dimensions")
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise DamageError(f"{place} layout", layout, f"one of {', '.join(sorted(_LAYOUTS))}")
    for expanded in more:
        _wholes(_list(expanded, f"{place} expanded"), f"{place} expanded", low=0, high=len(shape) - 1)


def _check_ops(
    ops: Mapping[str, Sequence[Any]], place: str, *, kernels: Sequence[Any], modules: int, storages: int
) -> None:
    _wholes(ops["kernel"], f"{place}.kernel", low=0, high=len(kernels) - 1)
    _wholes(ops["module"], f"{place}.module", low=0, high=modules - 1)
    _wholes(ops["calls"], f"{place}.calls", low=0, high=_LARGEST_BATCH)
    for name, side in (("reads", "in"), ("writes", "out")):
        wanted = [len(kernel[side]) for kernel in kernels]
        for index, (indices, kernel) in enumerate(zip(ops[name], ops["kernel"], strict=True)):
            if not isinstance(indices, list) or not _are_wholes(indices, low=0, high=storages - 1):
                where = f"{place}.{name}[{index}]"
                _wholes(_list(indices, where), where, low=0, high=storages - 1)
            if len(indices) != wanted[kernel]:
                where = f"{place}.{name}[{index}]"
                raise DamageError(where, indices, f"one storage for each of the kernel's {wanted[kernel]} tensors")


def _check_storages(storages: Mapping[str, Sequence[Any]], place: str, *, ops: int, batch: int) -> None:
    for index, size in enumerate(storages["size_bytes"]):
        _affine(size, f"{place}.size_bytes[{index}]", batch=batch)
    for index, role in enumerate(storages["role"]):
        _one_of(role, f"{place}.role[{index}]", tuple(Role))
    _wholes(storages["birth"], f"{place}.birth", low=-1, high=ops - 1)
    _wholes(storages["lifetime"], f"{place}.lifetime", low=0, high=ops + 1)
    for index, (birth, lifetime) in enumerate(zip(storages["birth"], storages["lifetime"], strict=True)):
        if birth + lifetime > ops:
            raise DamageError(
                f"{place}.lifetime[{index}]", lifetime, f"at most {ops - birth}: the recording has {ops} ops"
            )


def _check_owners(columns: Mapping[str, Any], place: str, *, storages: int, parameters: int) -> None:
    owners = _mapping(_member(columns, "parameter", place.removesuffix("parameter")), place)
    for key, owner in owners.items():
        if not key.isdecimal() or not key.isascii() or int(key) >= storages:
            raise DamageError(f"{place}: the key", key, f"the index of one of the {storages} storages")
        _whole(owner, f"{place}.{key}", low=0, high=parameters - 1)


def _check_phases(rows: Sequence[Any], place: str, *, ops: int) -> None:
    before = 0
    for index, row in enumerate(rows):
        name, step, first = _row(row, 3, f"{place}[{index}]")
        _text(name, f"{place}[{index}] name")
        _whole(step, f"{place}[{index}] step", low=0, high=_LARGEST_BATCH)
        _whole(first, f"{place}[{index}] first_op", low=before, high=ops)
        before = first


def _member(row: Mapping[str, Any], key: str, prefix: str) -> Any:
    if key not in row:
        raise ValueError(f"{prefix}{key} is missing")
    return row[key]


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DamageError(place, value, "an object")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise DamageError(place, value, "a list")
    return value


def _row(value: Any, length: int, place: str, *, at_least: int | None = None) -> list[Any]:
    if not isinstance(value, list) or not (at_least or length) <= len(value) <= length:
        raise DamageError(place, value, f"a list of {at_least or length}")
    return value


def _columns(value: Any, place: str, names: Iterable[str]) -> Mapping[str, list[Any]]:
    row = _mapping(value, place)
    columns = {name: _list(_member(row, name, f"{place}."), f"{place}.{name}") for name in names}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"{place} has columns of different lengths, {', '.join(map(str, sorted(lengths)))}")
    return columns


def _text(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise DamageError(place, value, "a text")


def _texts(values: Iterable[Any], place: str) -> None:
    for value in values:
        _text(value, place)


def _flag(value: Any, place: str) -> None:
    if not isinstance(value, bool):
        raise DamageError(place, value, "true or false")


def _one_of(value: Any, place: str, known: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise DamageError(place, value, f"one of {', '.join(known)}")


def _dtype(value: Any, place: str) -> None:
    if not isinstance(value, str) or value not in ITEM_BYTES:
        raise DamageError(place, value, f"a dtype, such as float32; known are {', '.join(ITEM_BYTES)}")


def _whole(value: Any, place: str, *, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise DamageError(place, value, f"a whole number from {low} to {high}")


def _are_wholes(values: Sequence[Any], *, low: int, high: int) -> bool:
    """Return True if all values are whole numbers within bounds; several times as fast as looking at each."""
    return not values or (set(map(type, values)) == {int} and low <= min(values) and max(values) <= high)


def _wholes(values: Sequence[Any], place: str, *, low: int, high: int) -> None:
    if _are_wholes(values, low=low, high=high):
        return
    for index, value in enumerate(values):
        if type(value) is not int or not low <= value <= high:
            raise DamageError(f"{place}[{index}]", value, f"a whole number from {low} to {high}")


def _affine(value: Any, place: str, *, batch: int) -> None:
    """Check a function of the batch: it never falls, and is not negative at a batch that was traced."""
    if type(value) is int:
        if not 0 <= value <= LARGEST_NUMBER:
            raise DamageError(place, value, f"a whole number from 0 to {LARGEST_NUMBER}, or [constant, per_sample]")
        return
    constant, per_sample = _row(value, 2, place)
    _whole(constant, f"{place} constant", low=-LARGEST_NUMBER, high=LARGEST_NUMBER)
    _whole(per_sample, f"{place} per_sample", low=0, high=LARGEST_NUMBER)
    if constant + per_sample * batch < 0:
        raise DamageError(place, value, f"at least 0 at batch {batch}")
