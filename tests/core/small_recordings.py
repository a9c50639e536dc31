"""Small recordings made by hand."""

from collections.abc import Sequence

from capplan.core.trace.types import (
    Affine,
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
from capplan.core.workload import Configuration

BATCH = Affine(0, 1)


def dims(*sizes: int | Affine) -> tuple[Affine, ...]:
    return tuple(size if isinstance(size, Affine) else Affine(size) for size in sizes)


def operand(*sizes: int | Affine, dtype: str = "float32", layout: MemoryFormat = MemoryFormat.CONTIGUOUS) -> Operand:
    return Operand(dtype=dtype, shape=dims(*sizes), memory_format=layout)


def kernel(
    name: str, inputs: Sequence[Operand] = (), outputs: Sequence[Operand] = (), **attributes: Attribute
) -> Kernel:
    return Kernel(name=name, inputs=tuple(inputs), outputs=tuple(outputs), attributes=attributes)


def make_trace(
    *,
    kernels: Sequence[Kernel],
    ops: Sequence[Op],
    storages: Sequence[Storage],
    parameters: Sequence[Parameter] = (),
    inputs: Sequence[InputTensor] = (),
    configuration: Configuration | None = None,
    phases: Sequence[Phase] = (),
    exact_batch: int | None = None,
) -> Trace:
    recording = Recording(
        configuration=configuration or Configuration(),
        modules=("", "layer"),
        kernels=tuple(kernels),
        ops=tuple(ops),
        storages=tuple(storages),
        phases=tuple(phases),
        batches=(exact_batch,) if exact_batch else (2, 3, 5),
        exact_batch=exact_batch,
    )
    return Trace(
        name="toy",
        target="toy.py:Toy",
        class_name="Toy",
        parameters=tuple(parameters),
        inputs=tuple(inputs),
        recordings=(recording,),
        provenance=Provenance(capplan_version="0"),
    )


def chain(*per_sample_bytes: int, weight_bytes: int = 0, fixed_bytes: Sequence[int] = ()) -> Trace:
    """Operators in a row: the input, then each output, freed after the next operator has read it; the last is held.

    `per_sample_bytes` are the input's and the outputs' sizes per sample; `fixed_bytes` add constants to the outputs.
    """
    count = len(per_sample_bytes) - 1
    fixed = [0, *fixed_bytes, *[0] * count]
    storages = [
        Storage(size_bytes=Affine(weight_bytes), role=Role.PARAMETER, death=count, parameter=0),
        Storage(size_bytes=Affine(0, per_sample_bytes[0]), role=Role.INPUT, death=count),
    ]
    storages += [
        Storage(
            size_bytes=Affine(fixed[index], per_sample_bytes[index]),
            role=Role.ACTIVATION,
            birth=index - 1,
            death=min(index, count),
        )
        for index in range(1, count + 1)
    ]
    shapes = [operand(BATCH, max(1, size // 4)) for size in per_sample_bytes]
    kernels = [kernel("aten.relu", [shapes[index]], [shapes[index + 1]]) for index in range(count)]
    ops = [Op(kernel=index, module=1, reads=(index + 1,), writes=(index + 2,)) for index in range(count)]
    return make_trace(
        kernels=kernels,
        ops=ops,
        storages=storages,
        parameters=[Parameter(names=("layer.weight",), dtype="float32", shape=(weight_bytes // 4,))],
        inputs=[InputTensor(name="x", dtype="float32", shape=dims(BATCH, per_sample_bytes[0] // 4))],
    )
