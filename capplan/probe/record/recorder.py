"""Record, below autograd, every operator that one pass through a model runs, and every storage's life.

The recorder holds no tensor of the model's.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from capplan.core.trace.types import ALWAYS, Attribute, Role
from capplan.errors import TraceError
from capplan.probe.foreign.code import calling_line
from capplan.probe.record.known_values import KnownValues
from capplan.probe.record.storages import Operands, Storages, Tag, accumulate_in_place
from capplan.probe.record.types import (
    READING_VALUES,
    Operator,
    Pass,
    Prelude,
    RawKernel,
    describe_operator,
    flatten,
    plain_attribute,
)

_sequence_number = torch._C._autograd._get_sequence_nr


_PRODUCTS = frozenset({"aten.mm", "aten.addmm", "aten.bmm", "aten.mv", "aten._sparse_addmm", "aten._sparse_mm"})
"""Products that take sparse operands, too."""


_WRAPPING = frozenset(
    {"aten._sparse_coo_tensor_with_dims_and_tensors", "aten._sparse_compressed_tensor_unsafe",
     "aten._sparse_csr_tensor_unsafe", "aten.sparse_compressed_tensor"}
)  # fmt: skip
"""Operators that make a sparse tensor of the indices and elements given: no kernel runs."""


def lacks_data(tensor: Tensor) -> bool:
    """Return True for meta and fake tensors, which have shapes alone."""
    return tensor.is_meta or hasattr(tensor, "fake_mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassLimits:
    """Where a pass is stopped: after so many calls of operators, so much processor time, or at so many live bytes."""

    calls: int = 2_000_000
    seconds: float = 300.0
    live_bytes: int | None = None


_CHECKED_EVERY = 1024
"""Calls of operators from one look at the limits to the next."""


def zeroed_if_new(operator: Operator, out: Any) -> Any:
    """Fill fresh memory with zeros, so that a model which reads what it never wrote runs alike every time."""
    if not operator.launches and isinstance(out, Tensor) and out.layout is torch.strided and not lacks_data(out):
        out.zero_()
    return out


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """The dispatch mode that records a pass."""

    def __init__(
        self,
        operators: dict[Any, Operator],
        known: KnownValues,
        preludes: Mapping[str, Prelude],
        limits: PassLimits = PassLimits(),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._limits = limits
        self._began_s = time.process_time()
        self._dispatched = 0
        self.record = Pass()
        self.module = 0
        self.trains = False
        self.packed: Mapping[int, tuple[Tensor, ...]] = {}  # what packed weights store, by the hash of their object
        self._in_backward = False
        self._modules_by_node: dict[int, int] = {}
        self._operators = operators
        self._preludes = preludes
        self.known = known
        known.recorded = self.record.op_kernels
        self._token = object()
        self._calls = 0
        self._kernel_ids: dict[RawKernel, int] = {}
        self._storages = Storages(self.record)
        self._storage_of = self._storages.index_of
        self._is_weight = self._storages.is_weight
        self._operand = Operands(self.record).index_of
        self._sums: list[int] = []
        self._wrappers: set[type] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Skip the wrapper that keeps torch.compile out of modes: nothing is compiled here, and it costs time."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types and any(kind in self._wrappers or self._is_wrapper(kind) for kind in types):
            return NotImplemented  # the class runs it on the tensors that it stores
        self._calls += 1
        self._dispatched += 1
        if not self._dispatched % _CHECKED_EVERY:
            self._check_limits()
        operator = self._operators.get(func) or self.describe(func)
        kwargs = kwargs or {}
        if operator.is_composite:
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        with torch._C.DisableTorchFunction():  # else each look at a shape passes through the rules of CUDA
            if operator.is_view:
                return self._view(operator, args, kwargs)
            return self._op(operator, args, kwargs)

    def _check_limits(self) -> None:
        """Stop a pass that does not end."""
        spent_s = time.process_time() - self._began_s
        if self._dispatched < self._limits.calls and spent_s < self._limits.seconds:
            return
        line = calling_line()
        raise TraceError(
            f"the model's forward did not end within {self._dispatched:,} calls of operators and {spent_s:.0f} s of "
            f"processor time{f', and was stopped at {line}' if line else ''}: bound its loop."
        )

    def _is_wrapper(self, kind: type) -> bool:
        """Return True if a tensor class keeps its data in other tensors; fake tensors do not."""
        if not hasattr(kind, "__tensor_flatten__") or kind.__module__.startswith("torch._subclasses.fake"):
            return False
        self._wrappers.add(kind)
        return True

    def describe(self, overload: OpOverload) -> Operator:
        """Look an overload up, reading its schema the first time."""
        operator = self._operators.get(overload)
        if operator is None:
            operator = self._operators[overload] = describe_operator(overload, preludes=self._preludes)
        return operator

    def _view(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source = args[0] if args else next(iter(kwargs.values()))
        out = operator.overload(*args, **kwargs)
        if source.is_cpu:
            return out
        storage = self._tag(source).storage
        for tensor in (out,) if isinstance(out, Tensor) else out:
            if tensor is not source:
                tag = tensor.__dict__["_capplan"] = Tag(self._token, storage)
                tag.is_view = True
        self.known.follow(operator, args, kwargs, out)
        return out

    def _op(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs = flatten(args)
        if kwargs:
            inputs += flatten(kwargs.values())
        if not self.known.on_device(inputs, kwargs):
            return zeroed_if_new(operator, operator.overload(*args, **kwargs))
        if self.known.leaves_device(kwargs):
            return self.known.to_host(inputs[0], kwargs)
        args, kwargs, inputs = self.known.to_device(operator, args, kwargs, inputs)
        if operator.prelude is not None:
            return operator.prelude(self, operator, args, kwargs)
        return self._run(operator, args, kwargs, inputs)

    def run(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._run(operator, args, kwargs, flatten((*args, *kwargs.values())))

    def _run(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Tensor]) -> Any:
        if operator.reshapes_in_place:
            out = operator.overload(*args, **kwargs)
            out.__dict__["_capplan"] = Tag(self._token, self._storage_of(out))
            self.known.follow(operator, args, kwargs, out)
            return out
        if operator.name in _PRODUCTS and inputs[-2].dtype is not inputs[-1].dtype:
            # refused as CUDA and the CPU do; the meta device lets it pass
            dtypes = f"{inputs[-2].dtype} and {inputs[-1].dtype}"
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {dtypes}")
        reads, read_operands, weight = self._reading(operator, inputs)
        out = zeroed_if_new(operator, self.known.run(operator, args, kwargs, inputs))
        met = (*inputs, *flatten((out,)))
        if any(tensor.layout is not torch.strided for tensor in met) and any(map(lacks_data, met)):
            raise NotImplementedError("sparse tensors need their data")  # how many elements they store is in it
        outputs: Sequence[Tensor] = (out,) if isinstance(out, Tensor) else flatten((out,))
        if not outputs:
            written: list[Any] = [args[index] for index in operator.written if index < len(args)]
            written += [kwargs[name] for name in operator.written_names if name in kwargs]
            outputs = tuple(flatten(written))
        name = operator.name
        if name in _WRAPPING:
            return out
        if name in _PRODUCTS and any(tensor.layout is not torch.strided for tensor in inputs):
            name = "capplan.sparse_mm"
        self.append(name, self._attributes(operator, args, kwargs), reads, read_operands, outputs, weight)
        most = self._limits.live_bytes
        if most is not None and self._storages.live_bytes > most:
            raise TraceError(f"the model holds more than {most / 1e9:g} GB, the most of a run on the CPU.")
        if self._in_backward and operator.overload is torch.ops.aten.add.Tensor and self._is_sum(args, out):
            self._sums.append(len(self.record.op_kernels) - 1)
        return out

    def _is_sum(self, args: tuple[Any, ...], out: Tensor) -> bool:
        """Return True if an addition in the backward pass may be autograd's, into a gradient that is not a view."""
        return not torch.is_grad_enabled() and out.numel() > 0 and not self._tag(args[0]).is_view

    def _reading(self, operator: Operator, inputs: list[Tensor]) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        if operator.written and not operator.reads_written:
            inputs = inputs[1:] if operator.written[0] == 0 else inputs[: -len(operator.written)]
        return self._looked_up(inputs)

    def _looked_up(self, inputs: Sequence[Tensor]) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        """Return the storages and operands of inputs, and whether all of them are weights."""
        reads, operands = [], []
        weight = True
        for tensor in inputs:
            tag = self._tag(tensor)
            if tag.operand < 0:
                tag.operand = self._operand(tensor)
            is_weight = self._is_weight[tag.storage]
            weight = weight and is_weight
            reads.append(tag.storage)
            operands.append(2 * tag.operand + is_weight)
        return tuple(reads), tuple(operands), weight

    def append(  # noqa: PLR0917  # called for every op
        self,
        name: str,
        attributes: tuple[tuple[str, Attribute], ...],
        reads: tuple[int, ...],
        read_operands: tuple[int, ...],
        outputs: Iterable[Tensor],
        weight: bool,
    ) -> None:
        """Add an op whose inputs were looked up before it ran."""
        record = self.record
        op = len(record.op_kernels)
        writes, operands = [], []
        for tensor in outputs:
            tag = getattr(tensor, "_capplan", None)
            if tag is None or tag.token is not self._token:
                if tensor.numel() == 0:
                    continue
                storage = self._storage_of(tensor, birth=op, weight=weight)
                tag = tensor.__dict__["_capplan"] = Tag(self._token, storage)
            if tag.operand < 0:
                tag.operand = self._operand(tensor)
            if not weight and record.roles[tag.storage] is not Role.PARAMETER:
                self._is_weight[tag.storage] = False
            writes.append(tag.storage)
            operands.append(2 * tag.operand + self._is_weight[tag.storage])
        if not writes and not (reads and name in READING_VALUES):
            return
        key = (name, attributes, read_operands, tuple(operands))
        kernel = self._kernel_ids.get(key)
        if kernel is None:
            kernel = self._kernel_ids[key] = len(record.kernels)
            record.kernels.append(key)
        record.op_kernels.append(kernel)
        record.op_modules.append(self._module_now() if self.trains else self.module)
        record.op_calls.append(self._calls)
        record.op_reads.append(reads)
        record.op_writes.append(tuple(writes))
        self._calls = 0

    def note(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        attributes: tuple[tuple[str, Attribute], ...] = (),
    ) -> None:
        """Record a logical op whose outputs the caller made outside the mode."""
        reads, operands, weight = self._looked_up(inputs)
        self._calls += 1
        self.append(name, attributes, reads, operands, outputs, weight)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Run plain PyTorch without recording, though modes may be on."""
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            yield

    def laid_out(self, tensor: Tensor, layout: torch.memory_format) -> Tensor:
        """Copy a tensor to a layout unless it has it already."""
        if tensor.is_contiguous(memory_format=layout):
            return tensor
        if lacks_data(tensor):
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device, memory_format=layout)
        else:
            copy = tensor.clone(memory_format=layout)
        self.note("aten.clone", [tensor], [copy])
        return copy

    def adopt_view(self, view: Tensor, source: Tensor) -> None:
        """Register a view that was made outside the mode."""
        view.__dict__["_capplan"] = Tag(self._token, self._tag(source).storage)

    def adopt(self, tensor: Tensor, role: Role) -> int:
        """Register a tensor that exists before the pass; gives its storage's index."""
        is_weight = role in (Role.PARAMETER, Role.BUFFER)
        index = self._storage_of(tensor, birth=ALWAYS, role=role, weight=is_weight)
        tensor.__dict__["_capplan"] = Tag(self._token, index)
        return index

    def forget(self, tensors: Iterable[Tensor]) -> None:
        """Remove the recorder's tag from tensors that outlive the pass."""
        for tensor in tensors:
            if "_capplan" in tensor.__dict__:
                del tensor.__dict__["_capplan"]

    def close(self) -> Pass:
        """End the pass: whatever is alive now outlives it."""
        self._storages.close()
        accumulate_in_place(self.record, self._sums)
        return self.record

    def outlived(self) -> bool:
        """Return True if something keeps storages that the pass made, once its output is gone."""
        return self._storages.outlived()

    def assign_role(self, tensors: Iterable[Tensor], role: Role) -> None:
        """Set the role of tensors that already have a recorded storage."""
        for tensor in tensors:
            if tensor.is_meta == (self.known.device.type == "meta"):
                self.record.roles[self._tag(tensor).storage] = role

    @contextlib.contextmanager
    def in_backward(self) -> Iterator[None]:
        """Attribute ops to the modules whose forward they differentiate."""
        self._in_backward = True
        try:
            yield
        finally:
            self._in_backward = False
            self._modules_by_node.clear()

    def _module_now(self) -> int:
        if not self._in_backward:
            if torch.is_grad_enabled():
                self._modules_by_node[_sequence_number() - 1] = self.module
            return self.module
        node = torch._C._current_autograd_node()
        return self.module if node is None else self._modules_by_node.get(node._sequence_nr(), self.module)

    def lacks_value(self, tensor: Tensor) -> bool:
        """Return True if a tensor's value is unknown and could only be assumed."""
        return tensor.is_meta and not self.known.knows(tensor)

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """Run checks of values that kernels of the CPU make and those of the device do not, without noting them."""
        self.known.is_deaf = True
        try:
            yield
        finally:
            self.known.is_deaf = False

    def begin_phase(self, name: str, step: int) -> None:
        """Mark that the next op starts a phase."""
        self.record.phases.append((name, step, len(self.record.op_kernels)))

    def _tag(self, tensor: Tensor) -> Any:
        tag = getattr(tensor, "_capplan", None)
        if tag is None or tag.token is not self._token:
            tag = Tag(self._token, self._storage_of(tensor, role=Role.BUFFER, weight=True))
            tensor.__dict__["_capplan"] = tag
        return tag

    def _attributes(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[str, Attribute], ...]:
        found = []
        count = len(args)
        for index, name in operator.scalars:
            value = args[index] if index < count else kwargs.get(name)
            if value is not None:
                plain = plain_attribute(value)
                if plain is not None:
                    found.append((name, plain))
        return tuple(found)
