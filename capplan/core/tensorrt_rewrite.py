"""Turn a recording into what an inference engine runs.

Engines fold constants, put norms, biases, activations and residual additions into the kernels of convolutions and
matrix products, and choose the layout of images and the number format of every layer. What is left of elementwise
chains and norms becomes one kernel each, as under torch.compile.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from capplan.core.compiled.grouping import Fuser
from capplan.core.compiled.rewrite import WEIGHT_ONLY, fuse_recording
from capplan.core.compiled.roles import FUSED, part
from capplan.core.ops.catalogue import FusedRole, OperatorClass, operator_class
from capplan.core.trace.types import (
    ALWAYS,
    ITEM_BYTES,
    PUBLIC_LIBRARIES,
    Affine,
    Kernel,
    Op,
    Operand,
    Recording,
    Role,
    Storage,
    distinct_kernels,
    first_and_last_use,
)
from capplan.core.workload import Framework, Precision, Workload

EPILOGUE = "epilogue"
"""Attribute: how many elementwise kernels a product has taken in."""

_PRODUCTS = frozenset({OperatorClass.CONVOLUTION, OperatorClass.MATMUL})
_NARROW = {Precision.INT8: "int8", Precision.FP8: "float8_e4m3fn"}
_CAPABILITY = {Precision.INT8: 61, Precision.FP8: 89}
_WIDE = frozenset({"half", "float16", "bfloat16", "float32"})
_SAMPLE_BATCH = 2


def engine_recording(recording: Recording, workload: Workload) -> Recording:
    made = _with_epilogues(_without_constants(fuse_recording(_with_places(recording), Fuser.ENGINE)))
    made = _with_attention(_placed(made))
    merged = merged_products(made, unmerged=EPILOGUE)
    made = replace(_replaced(made, merged.ops, made.storages), kernels=merged.kernels)
    narrow = _NARROW.get(workload.precision)
    return made if narrow is None else _narrowed(made, narrow, workload.precision)


_PLACED, _COPIED = "capplan.placed", "copied"


def _with_places(recording: Recording) -> Recording:
    """Mark concatenations of channels whose inputs are written into their places, and which inputs are copied there.

    TensorRT's builder says "Eliminating concatenation" and, of each input, "Retargeting" or "Generating copy ...
    because input is not movable", as of half a result (NVIDIA/TensorRT#3254 shows YOLOv8's). A result has one place.
    """
    kernels = recording.kernels
    places = Counter(storage for op in recording.ops if _joins(kernels[op.kernel]) for storage in set(op.reads))
    writers: dict[int, Kernel] = {}
    marked = []
    for op in recording.ops:
        kernel = kernels[op.kernel]
        if _joins(kernel):
            copied = tuple(
                index
                for index, (operand, storage) in enumerate(zip(kernel.inputs, op.reads, strict=True))
                if storage not in writers
                or operand.is_weight
                or places[storage] > 1
                or part(writers[storage]) is FusedRole.COPY
                or operand.size_bytes(_SAMPLE_BATCH) < recording.storages[storage].size_bytes.at(_SAMPLE_BATCH)
            )
            if len(copied) < len(kernel.inputs):
                kernel = replace(kernel, name=_PLACED, attributes={_COPIED: copied})
        writers |= dict.fromkeys(op.writes, kernel)
        marked.append((kernel, op))
    made, ops = distinct_kernels(marked)
    return replace(recording, kernels=made, ops=ops)


def _joins(kernel: Kernel) -> bool:
    return kernel.name == "aten.cat" and kernel.attributes.get("dim") == 1 and len(kernel.outputs[0].shape) == 4


def _placed(recording: Recording) -> Recording:
    """Leave of the concatenations that were marked what copies the inputs which are not written into their places."""
    placed: list[tuple[Kernel, Op]] = []
    for op in recording.ops:
        kernel = recording.kernels[op.kernel]
        if kernel.name != _PLACED:
            placed.append((kernel, op))
            continue
        copied = kernel.attributes[_COPIED]
        assert isinstance(copied, tuple)
        if copied:
            moved = tuple(kernel.inputs[index] for index in copied)
            copy = replace(kernel, name=FUSED, inputs=moved, outputs=moved, attributes={FusedRole.COPY.value: 1})
            placed.append(
                (copy, replace(op, reads=tuple(op.reads[index] for index in copied), writes=op.writes * len(copied)))
            )
            continue
        last = max(index for index, (_, other) in enumerate(placed) if set(other.writes) & set(op.reads))
        writer, other = placed[last]
        place = replace(kernel.outputs[0], shape=tuple(Affine(0) for _ in kernel.outputs[0].shape))
        placed[last] = (
            replace(writer, outputs=(*writer.outputs, place)), replace(other, writes=(*other.writes, *op.writes)),
        )  # fmt: skip
    kernels, ops = distinct_kernels(placed)
    return _replaced(replace(recording, kernels=kernels), ops, recording.storages)


def _with_attention(recording: Recording) -> Recording:
    """Make one kernel of two batched products with a softmax between, which all read alone, as TensorRT does.

    Queries, keys and values must share a length of heads (docs.nvidia.com/deeplearning/tensorrt, "Fused Attention").
    """
    ops, kernels = recording.ops, recording.kernels
    readers = Counter(storage for op in ops for storage in set(op.reads))
    writer = {storage: index for index, op in enumerate(ops) for storage in op.writes}
    made: dict[int, tuple[Kernel, Op] | None] = {index: (kernels[op.kernel], op) for index, op in enumerate(ops)}

    def before(storage: int, name: str) -> int | None:
        """Return the kernel of a name that writes a storage for one reader."""
        index = writer.get(storage)
        is_it = index is not None and kernels[ops[index].kernel].name == name and len(ops[index].writes) == 1
        return index if is_it and readers[storage] == 1 and not _is_result(recording, storage) else None

    for index, op in enumerate(ops):
        weighs = kernels[op.kernel]
        for place, at in enumerate(op.reads[:2] if weighs.name == "aten.bmm" else ()):
            soft = before(at, FUSED)
            softmax = kernels[ops[soft].kernel] if soft is not None else None
            is_softmax = softmax is not None and FusedRole.SOFTMAX.value in softmax.attributes
            scores = before(ops[soft or 0].reads[0], "aten.bmm") if is_softmax else None
            if soft is None or softmax is None or len(softmax.inputs) > 1 or scores is None:
                continue
            (query, key, *masks), value = kernels[ops[scores].kernel].inputs, weighs.inputs[1 - place]
            width = value.shape[-1 - place]
            if query.shape[-1] != width:
                continue
            heads = tuple(
                replace(operand, shape=(operand.shape[0], Affine(1), length, width))
                for operand, length in ((query, query.shape[1]), (key, key.shape[-1]), (value, key.shape[-1]))
            )
            more = (*masks, *weighs.inputs[2:])
            attributes = {"has_mask": bool(masks), "is_causal": False}
            result = replace(weighs.outputs[0], shape=heads[0].shape)
            fused = Kernel(name="capplan.attention", inputs=(*heads, *more), outputs=(result,), attributes=attributes)
            read = ops[scores].reads
            made[scores] = made[soft] = None
            made[index] = fused, replace(op, reads=(*read[:2], op.reads[1 - place], *read[2:], *op.reads[2:]))
    table, fewer = distinct_kernels(each for each in made.values() if each is not None)
    return _replaced(replace(recording, kernels=table), fewer, recording.storages)


def _without_constants(recording: Recording) -> Recording:
    """Drop kernels whose inputs are weights alone: an engine runs them once, when it is built."""
    kept = [op for op in recording.ops if WEIGHT_ONLY not in recording.kernels[op.kernel].attributes]
    made = {storage for op in recording.ops for storage in op.writes} - {s for op in kept for s in op.writes}
    read = {storage for op in kept for storage in op.reads}
    read_before = {storage for op in recording.ops for storage in op.reads}
    storages = tuple(
        replace(storage, role=Role.BUFFER, birth=ALWAYS) if index in made & read else storage
        for index, storage in enumerate(recording.storages)
    )
    unread = {
        index
        for index, storage in enumerate(storages)
        if storage.role in (Role.PARAMETER, Role.BUFFER) and index in read_before - read
    }
    storages = tuple(
        replace(storage, size_bytes=Affine(0)) if index in unread else storage for index, storage in enumerate(storages)
    )
    return _replaced(recording, kept, storages)


def _with_epilogues(recording: Recording) -> Recording:
    """Fuse each product with the elementwise kernel that alone reads its result."""
    merging = _Merging(recording)
    for index in range(len(recording.ops)):
        merging.add(index)
    return merging.recording()


class _Merging:
    """Merges kernels in order; a product waits in `_open` for its only reader."""

    def __init__(self, recording: Recording) -> None:
        self._source = recording
        counts: dict[int, int] = {}
        for op in recording.ops:
            for storage in set(op.reads):
                counts[storage] = counts.get(storage, 0) + 1
        self._readers = counts
        self._end = len(recording.ops)
        self._placed: list[tuple[Kernel, Op] | None] = []
        self._writer: dict[int, int] = {}

    def add(self, index: int) -> None:
        """Add one kernel, or fuse it into the product before it."""
        op = self._source.ops[index]
        kernel = self._source.kernels[op.kernel]
        ahead = self._product_before(kernel, op)
        if ahead is not None:
            product = self._placed[ahead]
            assert product is not None
            self._placed[ahead] = None
            kernel, op = _merged(*product, kernel, op)
        for storage in op.writes:
            self._writer[storage] = len(self._placed)
        self._placed.append((kernel, op))

    def _product_before(self, kernel: Kernel, op: Op) -> int | None:
        """Return the place of the last product whose result this elementwise kernel alone reads."""
        if not _is_elementwise(kernel):
            return None
        places = [
            place
            for operand, storage in zip(kernel.inputs, op.reads, strict=True)
            if (place := self._writer.get(storage)) is not None and self._takes(place, storage, operand, kernel)
        ]
        return max(places, default=None)

    def _takes(self, place: int, storage: int, operand: Operand, kernel: Kernel) -> bool:
        held = self._placed[place]
        if held is None or operator_class(held[0]) not in _PRODUCTS or len(held[1].writes) != 1:
            return False
        is_inside = self._readers.get(storage, 0) == 1 and self._source.storages[storage].death < self._end
        made, out = held[0].outputs[0], kernel.outputs[0]
        same = made.distinct_elements(_SAMPLE_BATCH) == out.distinct_elements(_SAMPLE_BATCH)
        is_convolution = operator_class(held[0]) is OperatorClass.CONVOLUTION
        return is_inside and same and (not is_convolution or made.shape == out.shape) and operand.expanded == ()

    def recording(self) -> Recording:
        kernels, ops = distinct_kernels(place for place in self._placed if place is not None)
        return _replaced(replace(self._source, kernels=kernels), ops, self._source.storages)


def _is_elementwise(kernel: Kernel) -> bool:
    """Return True for a kernel of elementwise operators alone: no reduction, norm, softmax, pooling or copy."""
    if kernel.name != FUSED or not kernel.outputs:
        return False
    others = {role.value for role in FusedRole if role is not FusedRole.POINTWISE}
    return not others & set(kernel.attributes)


def _merged(product: Kernel, product_op: Op, kernel: Kernel, op: Op) -> tuple[Kernel, Op]:
    inner = set(product_op.writes)
    more = [
        (operand, storage) for operand, storage in zip(kernel.inputs, op.reads, strict=True) if storage not in inner
    ]
    held = product.attributes.get(EPILOGUE, 0)
    assert isinstance(held, int)
    merged = replace(
        product,
        inputs=(*product.inputs, *(operand for operand, _ in more)),
        outputs=kernel.outputs,
        attributes={**product.attributes, EPILOGUE: held + 1},
    )
    reads = (*product_op.reads, *(storage for _, storage in more))
    return merged, replace(op, reads=reads)


def _replaced(recording: Recording, ops: Sequence[Op], storages: Sequence[Storage]) -> Recording:
    """Return a recording with other operators, and the births and deaths of storages by their order."""
    end = len(recording.ops)
    first, last = first_and_last_use(ops)
    placed: list[Storage] = []
    for index, facts in enumerate(storages):
        is_kept = facts.death >= end or facts.role in (Role.PARAMETER, Role.BUFFER)
        death = len(ops) if is_kept else last.get(index, 0)
        if facts.birth == ALWAYS:
            placed.append(replace(facts, death=max(death, 0)))
        elif index in first:
            placed.append(replace(facts, birth=first[index], death=max(death, first[index])))
        else:  # it lives within a kernel
            placed.append(replace(facts, size_bytes=Affine(0), birth=0, death=0))
    return replace(recording, ops=tuple(ops), storages=tuple(placed), phases=())


def _narrowed(recording: Recording, dtype: str, precision: Precision) -> Recording:
    """Convert a recording to a narrow format: weights and inputs of products, and results that are written narrow."""
    kernels = [_narrow_kernel(kernel, dtype, precision) for kernel in recording.kernels]
    ops = []
    for op in recording.ops:
        if any(_is_result(recording, storage) for storage in op.writes):  # what the network returns stays wide
            kernels.append(replace(kernels[op.kernel], outputs=recording.kernels[op.kernel].outputs))
            ops.append(replace(op, kernel=len(kernels) - 1))
        else:
            ops.append(op)
    narrow = _narrow_storages(recording, precision)
    storages = tuple(
        replace(storage, size_bytes=_scaled(storage.size_bytes, narrow[index], dtype)) if index in narrow else storage
        for index, storage in enumerate(recording.storages)
    )
    return replace(recording, kernels=tuple(kernels), ops=tuple(ops), storages=storages)


def _is_result(recording: Recording, storage: int) -> bool:
    return recording.storages[storage].death >= len(recording.ops)


def _narrow_storages(recording: Recording, precision: Precision) -> dict[int, Operand]:
    """Return the matrices that products read and the results that are written narrow, by the storage of each."""
    found: dict[int, Operand] = {}
    for op in recording.ops:
        kernel = recording.kernels[op.kernel]
        if operator_class(kernel) in _PRODUCTS:
            for operand, storage in zip(kernel.inputs, op.reads, strict=True):
                if operand.is_weight and len(operand.shape) > 1 and operand.dtype in _WIDE:
                    found[storage] = operand
        if _writes_narrow(kernel, precision):
            written = zip(kernel.outputs, op.writes, strict=True)
            found |= {
                storage: operand
                for operand, storage in written
                if operand.dtype in _WIDE and not _is_result(recording, storage)
            }
    return found


def _reads_narrow(kernel: Kernel, precision: Precision) -> bool:
    return operator_class(kernel) in _PRODUCTS or _is_between_products(kernel, precision)


def _writes_narrow(kernel: Kernel, precision: Precision) -> bool:
    return operator_class(kernel) is OperatorClass.CONVOLUTION or (
        precision is Precision.INT8 and _reads_narrow(kernel, precision)
    )


def _is_between_products(kernel: Kernel, precision: Precision) -> bool:
    """Return True for attention and fused elementwise kernels, which int8 engines run on int8 tensors.

    NVIDIA's BERT in int8 runs attention, norms and GELU so (demo/BERT and plugin/bertQKVToContextPlugin in the TensorRT
    repository). In fp8 only products are narrow.
    """
    return precision is Precision.INT8 and (kernel.name == FUSED or operator_class(kernel) is OperatorClass.ATTENTION)


def _scaled(size: Affine, operand: Operand, dtype: str) -> Affine:
    share = ITEM_BYTES[dtype] / ITEM_BYTES[operand.dtype]
    return Affine(int(size.constant * share), int(size.per_sample * share))


def _narrow_kernel(kernel: Kernel, dtype: str, precision: Precision) -> Kernel:
    if not _reads_narrow(kernel, precision):
        return kernel

    def narrow(operand: Operand) -> Operand:
        is_small = operand.is_weight and operator_class(kernel) not in _PRODUCTS
        return replace(operand, dtype=dtype) if operand.dtype in _WIDE and not is_small else operand

    made = replace(
        kernel,
        inputs=tuple(map(narrow, kernel.inputs)),
        outputs=tuple(map(narrow, kernel.outputs)) if _writes_narrow(kernel, precision) else kernel.outputs,
    )
    if operator_class(kernel) not in _PRODUCTS:
        return made
    marks = {"capability": _CAPABILITY[precision], "scheme": precision.value}
    return replace(made, attributes={**kernel.attributes, **marks})


_PLACES = {"aten.addmm": (1, 2, 1), "aten.mm": (0, 1, 1), "aten.linear": (0, 1, 0)}
"""Where a product keeps its input and its weight, and which dimension of the weight holds the output features."""


def merged_products(recording: Recording, *, unmerged: str) -> Recording:
    """Return a recording whose products of one input and several weights run as one product of all weights.

    TensorRT calls it horizontal fusion, ONNX Runtime packs the weights of queries, keys and values. The weights stay
    where they are: only how many kernels run changes, and how well they fill a GPU.
    """
    groups: dict[object, list[int]] = defaultdict(list)
    written: dict[int, int] = defaultdict(int)
    for index, op in enumerate(recording.ops):
        key = _key(recording, op, written, unmerged)
        if key is not None:
            groups[key].append(index)
        for storage in op.writes:
            written[storage] += 1
    merged = {members[0]: members for members in groups.values() if len(members) > 1}
    return _with_merged(recording, merged) if merged else recording


def _key(recording: Recording, op: Op, written: dict[int, int], unmerged: str) -> object:
    """Return what products must have in common; None for what is not merged."""
    kernel = recording.kernels[op.kernel]
    places = _PLACES.get(kernel.name)
    if places is None or unmerged in kernel.attributes or len(kernel.inputs) <= places[1] or kernel.flops:
        return None
    place, of_weight, features = places
    source, weight = kernel.inputs[place], kernel.inputs[of_weight]
    others = [operand for index, operand in enumerate(kernel.inputs) if index != place]
    if source.is_weight or len(weight.shape) != 2 or not all(operand.is_weight for operand in others):
        return None
    storage, depth = op.reads[place], weight.shape[1 - features]
    return kernel.name, len(kernel.inputs), source, storage, written[storage], weight.dtype, depth


def _with_merged(recording: Recording, merged: dict[int, list[int]]) -> Recording:
    dropped = {index for members in merged.values() for index in members[1:]}
    kernels = list(recording.kernels)
    ops: list[Op] = []
    for index, op in enumerate(recording.ops):
        if index in merged:
            kernel, together = _merge(recording, [recording.ops[at] for at in merged[index]])
            ops.append(replace(together, kernel=len(kernels)))
            kernels.append(kernel)
        elif index not in dropped:
            ops.append(op)
    table, ops_of_table = distinct_kernels((kernels[op.kernel], op) for op in ops)
    return replace(recording, kernels=table, ops=ops_of_table)


def _merge(recording: Recording, ops: Sequence[Op]) -> tuple[Kernel, Op]:
    """Return one product for several; the weights of the others stay inputs, of no size of their own."""
    first = ops[0]
    kernels = [recording.kernels[op.kernel] for op in ops]
    place = _PLACES[kernels[0].name][0]
    inputs = tuple(
        operand if index == place else _side_by_side(kernels, index) for index, operand in enumerate(kernels[0].inputs)
    )
    more = [
        (replace(operand, shape=tuple(Affine(0) for _ in operand.shape)), storage)
        for op, kernel in zip(ops[1:], kernels[1:], strict=True)
        for index, (operand, storage) in enumerate(zip(kernel.inputs, op.reads, strict=True))
        if index != place
    ]
    kernel = replace(
        kernels[0],
        inputs=(*inputs, *(operand for operand, _ in more)),
        outputs=tuple(operand for kernel in kernels for operand in kernel.outputs),
    )
    op = replace(
        first,
        reads=(*first.reads, *(storage for _, storage in more)),
        writes=tuple(storage for op in ops for storage in op.writes),
        calls=sum(op.calls for op in ops),
    )
    return kernel, op


def _side_by_side(kernels: Sequence[Kernel], index: int) -> Operand:
    """Return the weight, or the bias, of all products side by side."""
    operands = [kernel.inputs[index] for kernel in kernels]
    shape = list(operands[0].shape)
    _, of_weight, dimension = _PLACES[kernels[0].name]
    features = dimension if index == of_weight else len(shape) - 1
    shape[features] = Affine(sum(operand.shape[features].constant for operand in operands))
    return replace(operands[0], shape=tuple(shape))


_BOTH = frozenset(
    {"_fft_r2c", "_fft_c2c", "_fft_c2r", "fft_r2c", "linalg_eigh", "linalg_svd", "_linalg_svd", "linalg_qr",
     "linalg_inv_ex", "linalg_solve", "_linalg_solve_ex", "cholesky", "linalg_cholesky_ex", "_cdist_forward",
     "bincount",
     "_unique2", "unique_dim", "histc", "multinomial", "_ctc_loss", "sparse_mm", "_sparse_mm", "grid_sampler_3d",
     "triangular_solve", "renorm"}
)  # fmt: skip
"""Operators without a layer in either engine (TensorRT operator reference 10; ONNX operators of opset 20)."""
_TENSORRT = frozenset(
    {"deform_conv2d", "roi_pool", "ps_roi_align", "_embedding_bag", "masked_select", "index_put", "bernoulli"}
)
"""Operators that TensorRT needs a plugin for."""
_UNKNOWN_TO_ENGINES = frozenset({"quanto", "bitsandbytes"})
"""Libraries that the catalogue knows, and no engine."""


def refused_operators(recording: Recording, framework: Framework) -> tuple[str, ...]:
    """Name the operators that an engine would refuse: those of other libraries, and those without a layer."""
    lacking = _BOTH | (_TENSORRT if framework is Framework.TENSORRT else frozenset())
    found: dict[str, None] = {}
    for kernel in recording.kernels:
        library, _, name = kernel.name.partition(".")
        if (
            library not in PUBLIC_LIBRARIES - _UNKNOWN_TO_ENGINES
            or name in lacking
            or any(operand.dtype.startswith("complex") for operand in kernel.inputs)
        ):
            found[kernel.name.replace(".", "::", 1)] = None
    return tuple(found)


def refusal_notes(recording: Recording, framework: Framework) -> tuple[str, ...]:
    """Return which operators an engine would refuse, and what to do; empty if it accepts all."""
    refused = refused_operators(recording, framework)
    if not refused:
        return ()
    return (f"{framework.product} would refuse {', '.join(refused)}: each needs a plugin, or runs outside the engine",)
