"""Decide the inputs of an ONNX graph: the first axis that varies is the batch, others are stated or assumed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capplan.core.trace.types import Affine
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.inputs.tensors import FileInputs, SpecInputs
from capplan.probe.onnx.graph import Dim, OnnxModel, Port

DEFAULT_IMAGE = 224
DEFAULT_CHANNELS = 3
DEFAULT_TOKENS = 128


def find_inputs(model: OnnxModel, request: InputRequest, words: str) -> FileInputs:
    """Decide the shapes of a graph's inputs.

    The first dimension that is called batch, N or the like is the batch, else the first that varies, of the first input
    that has one; and so is every dimension of the same name, and the first dimension of every input if it varies
    without a name. Other dimensions that vary are taken from `--input`, `--input-size` and `--seq-len`, or assumed,
    which a note says.
    """
    if request.arguments or request.inputs_from:
        raise UsageError(f"{words} is an ONNX file: it takes no ⟨arg⟩ and no ⟨inputs-from⟩; give shapes with ⟨input⟩.")
    ports = model.graph.inputs
    if not ports:
        raise UsageError(f"{words} takes no tensors.")
    for port in ports:
        if port.dtype is None or port.shape is None:
            raise UsageError(f"{words}: its input {port.name!r} is not a tensor of numbers whose rank is known.")
    batch = _batch_dim(ports)
    notes: dict[str, None] = {}
    specs = [_spec(port, batch, request, notes) for port in ports]
    given = _given(request.inputs, ports, words)
    made = [_overridden(spec, port, given.get(port.name), words) for spec, port in zip(specs, ports, strict=True)]
    varies = any(BATCH in spec.shape for spec in made)
    if given and not any(BATCH in spec.shape for spec in specs) and varies:
        notes[
            "the file fixes the batch, and ⟨input⟩ overrides it: shapes inside that fix it, too, would be refused."
        ] = None
    first = made[0].shape
    return FileInputs(
        made=SpecInputs(specs=tuple(made), positional_names=tuple(port.name for port in ports)),
        fixed=f"{words} has a fixed batch",
        instead="export it with dynamic axes, or give the inputs with ⟨input⟩ and N for the batch.",
        only_batch=None if varies else first[0].constant if first else 1,
        notes=tuple(notes),
    )


_BATCH_NAMES = frozenset({"batch", "batch_size", "batchsize", "batch_dim", "n", "bs"})
"""Names that exporters give to the batch, which recurrent networks may keep behind the time."""


def _batch_dim(ports: Sequence[Port]) -> str | None:
    """Return the name of the dimension that is the batch; None where none that varies has a name."""
    shapes = [port.shape or () for port in ports]
    called = (dim for shape in shapes for dim in shape if isinstance(dim, str) and dim.casefold() in _BATCH_NAMES)
    if (name := next(called, None)) is not None:
        return name
    first = [shape[0] for shape in shapes if shape and isinstance(shape[0], str)]
    if first or any(shape and shape[0] is None for shape in shapes):
        return first[0] if first else None
    return next((dim for shape in shapes for dim in shape if isinstance(dim, str)), None)


def _spec(port: Port, batch: str | None, request: InputRequest, notes: dict[str, None]) -> InputSpec:
    shape = port.shape or ()
    dims: list[Affine] = []
    for axis, dim in enumerate(shape):
        if isinstance(dim, int):
            dims.append(Affine(dim))
        elif (dim is not None and dim == batch) or (dim is None and axis == 0):
            dims.append(BATCH)
        else:
            dims.append(Affine(_assumed(port, axis, dim, request, notes)))
    if request.size is not None and _is_image(port) and len(request.size) == len(dims) - 1:
        dims = [dims[0], *map(Affine, request.size)]  # in the place of those that the file fixes, too
    return InputSpec(shape=tuple(dims), dtype=port.dtype or "float32")


def _is_image(port: Port) -> bool:
    return len(port.shape or ()) >= 4 and (port.dtype or "").startswith(("float", "bfloat", "uint8"))


def _assumed(port: Port, axis: int, dim: Dim, request: InputRequest, notes: dict[str, None]) -> int:
    """Return the size of a dimension that varies apart from the batch: the stated one, or a usual one."""
    shape = port.shape or ()
    if _is_image(port):
        size, option = (DEFAULT_CHANNELS if axis == 1 else DEFAULT_IMAGE), "⟨input-size⟩"
        if request.size is not None and len(request.size) == len(shape) - 1:
            return request.size[axis - 1]
    else:
        size, option = DEFAULT_TOKENS, "⟨seq-len⟩"
        if request.seq_len is not None:
            return request.seq_len
    name = f"dimension {dim!r}" if dim else f"dimension {axis}"
    notes[f"{name} of the input {port.name!r} varies and is taken as {size}; give another by {option} or ⟨input⟩."] = (
        None
    )
    return size


def _given(specs: Sequence[InputSpec], ports: Sequence[Port], words: str) -> Mapping[str, InputSpec]:
    """Assign the user's inputs to the graph's, by name (with `_` for other signs than letters) or in order."""
    by_name = {_plain(port.name): port.name for port in ports}
    unnamed = iter([port.name for port in ports])
    found: dict[str, InputSpec] = {}
    for spec in specs:
        name = next(unnamed, None) if spec.name is None else by_name.get(_plain(spec.name))
        if name is None:
            takes = ", ".join(port.name for port in ports)
            raise UsageError(
                f"{words} has no input {spec.name or 'number ' + str(len(found) + 1)!r}; it takes {takes}."
            )
        found[name] = spec
    return found


def _plain(name: str) -> str:
    return "".join(sign if sign.isalnum() else "_" for sign in name)


def _overridden(spec: InputSpec, port: Port, given: InputSpec | None, words: str) -> InputSpec:
    if given is None:
        return spec
    if len(given.shape) != len(spec.shape):
        raise UsageError(
            f"{words}: its input {port.name!r} has {len(spec.shape)} dimensions, and ⟨input⟩ gives {len(given.shape)} "
            "(the batch included)."
        )
    return replace(spec, shape=given.shape)
