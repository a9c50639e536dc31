"""Strategies of traces that hold together: indices within range, lifetimes within the recording."""

from hypothesis import strategies as st

from capplan.core.trace.types import (
    Affine,
    AssumedValue,
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

affines = st.builds(Affine, st.integers(0, 2**40), st.integers(0, 2**20))


assumed_values = st.builds(AssumedValue, what=st.text(), count=st.integers(1, 9))


@st.composite
def operands(draw: st.DrawFn) -> Operand:
    shape = tuple(draw(st.lists(affines, max_size=4)))
    dims = st.lists(st.integers(0, len(shape) - 1), max_size=2) if shape else st.just([])
    return Operand(
        dtype=draw(st.sampled_from(["float32", "half", "int64"])),
        shape=shape,
        memory_format=draw(st.sampled_from(MemoryFormat)),
        is_weight=draw(st.booleans()),
        expanded=tuple(draw(dims)),
    )


attributes = st.dictionaries(
    st.text(max_size=5),
    st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.tuples(st.integers())),
)
kernels = st.builds(
    Kernel,
    name=st.text(max_size=9).map("my.{}".format),
    inputs=st.lists(operands(), max_size=3).map(tuple),
    outputs=st.lists(operands(), max_size=2).map(tuple),
    attributes=attributes,
    flops=st.none() | affines,
)
PARAMETER = Parameter(names=("a", "b"), dtype="float32", shape=(3, 4))


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    found = tuple(draw(st.lists(kernels, min_size=1, max_size=3)))
    count = draw(st.integers(1, 4))
    storages = tuple(draw(_storage(count)) for _ in range(draw(st.integers(1, 4))))
    modules = tuple(draw(st.lists(st.text(max_size=5), min_size=1, max_size=3)))
    return Recording(
        configuration=draw(configurations),
        modules=modules,
        kernels=found,
        ops=tuple(draw(_op(found, len(modules), len(storages))) for _ in range(count)),
        storages=storages,
        phases=(Phase(name="forward", step=1, first_op=0),),
        batches=(2, 3, 5),
        exact_batch=draw(st.none() | st.integers(1, 9)),
        assumed_values=tuple(
            draw(st.lists(st.builds(AssumedValue, what=st.text(), count=st.integers(1, 9)), max_size=2))
        ),
    )


configurations = st.builds(
    Configuration,
    variant=st.sampled_from(Variant),
    layout=st.sampled_from(Layout),
    training=st.none() | st.builds(Training, optimizer=st.sampled_from(Optimizer), accumulate=st.integers(1, 4)),
)


@st.composite
def _op(draw: st.DrawFn, known: tuple[Kernel, ...], modules: int, storages: int) -> Op:
    kernel = draw(st.integers(0, len(known) - 1))
    index = st.integers(0, storages - 1)
    return Op(
        kernel=kernel,
        module=draw(st.integers(0, modules - 1)),
        reads=tuple(draw(index) for _ in known[kernel].inputs),
        writes=tuple(draw(index) for _ in known[kernel].outputs),
        calls=draw(st.integers(0, 9)),
    )


@st.composite
def _storage(draw: st.DrawFn, ops: int) -> Storage:
    birth = draw(st.integers(-1, ops - 1))
    return Storage(
        size_bytes=draw(affines),
        role=draw(st.sampled_from(Role)),
        birth=birth,
        death=draw(st.integers(birth, ops)),
        parameter=draw(st.none() | st.just(0)),
    )


traces = st.builds(
    Trace,
    name=st.text(max_size=9),
    target=st.text(max_size=9),
    class_name=st.text(max_size=9),
    parameters=st.just((PARAMETER,)),
    inputs=st.just((InputTensor(name="x", dtype="float32", shape=(Affine(0, 1), Affine(3))),)),
    recordings=st.lists(recordings(), max_size=2).map(tuple),
    provenance=st.builds(Provenance, capplan_version=st.text(max_size=5), notes=st.just(("a note",))),
)
