"""Real values for the small bookkeeping of a model on the meta device: positions, masks, sizes.

A meta tensor has a shape and no values. Models nevertheless ask for `.item()`, truth or a boolean selection of
tensors that do not depend on data: those carry their value along, as a small tensor on the CPU. What a model asks of
unknown values is assumed and counted.
"""

import contextlib
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from capplan.probe.foreign.code import calling_line
from capplan.probe.foreign.constructors import LARGEST_KNOWN
from capplan.probe.record.answers import Patience, RecordedAnswers, Replay, absorbing
from capplan.probe.record.assumed_values import (
    ASKING,
    CandidateSelection,
    assume_output,
    assumed_values,
    is_choice,
    needs_values,
    note_class_mask,
    selected_output,
)
from capplan.probe.record.shape_memory import ShapeMemory
from capplan.probe.record.shape_rules import broadcasts
from capplan.probe.record.types import Assumed, Operator, describe_operator, flatten
from capplan.probe.record.value_store import LARGEST_COMPUTED, attach, is_repeated, on_meta, real_of, run_elementwise

_CONSTANT = frozenset({"aten.ones", "aten.zeros", "aten.full"})
"""Factories whose output, however large, is one number repeated."""

_BY_STRIDES = frozenset({"aten.as_strided", "aten._reshape_alias", "aten.as_strided_"})
"""Views known by strides, which a value that repeats itself does not share."""

_SCALARS_MOVED = frozenset({"aten.masked_fill"})
"""Operators that take a scalar on the host on CUDA, and not on the meta device."""


class KnownValues:
    """Runs operators on the meta device and, where every input's value is known, on the values too."""

    def __init__(
        self,
        device: torch.device,
        *,
        assumes_choices: bool = False,
        selection: CandidateSelection | None = None,
        answers: RecordedAnswers | None = None,
    ) -> None:
        self.device = device
        self.heard = RecordedAnswers()
        self.is_deaf = False
        self.replay = None if answers is None else Replay(answers)
        self.operators = 0
        self.recorded: Sequence[int] = ()
        self._patience = Patience()
        self._selection = selection or CandidateSelection(share=1.0)
        self.chose = False
        self._assumes_choices = assumes_choices
        self.assumed: dict[str, Assumed] = {}
        self._notes: dict[str, None] = {}
        self._is_meta = device.type == "meta"
        self._spoiled: dict[int, Tensor] = {}
        self._shapes = ShapeMemory()

    def on_device(self, inputs: Sequence[Tensor], kwargs: dict[str, Any]) -> bool:
        """Return True if an operator would run on the GPU: one of its tensors, or what it makes, is there."""
        if not self._is_meta:
            return True
        for tensor in inputs:
            if tensor.is_meta:
                return True
        device = kwargs.get("device")
        return device is not None and torch.device(device).type == "meta"

    def leaves_device(self, kwargs: dict[str, Any]) -> bool:
        """Return True if an operator on device tensors makes its output on the host."""
        device = kwargs.get("device")
        return device is not None and self._is_meta and torch.device(device).type == "cpu"

    def to_host(self, tensor: Tensor, kwargs: dict[str, Any]) -> Tensor:
        """Copy a value to the host; where it is not known, zeros are assumed and counted."""
        dtype = kwargs.get("dtype") or tensor.dtype
        if self.knows(tensor):
            value: Tensor = tensor._known_value  # type: ignore[attr-defined]  # our own mark
            return value.to(dtype, copy=True)
        self.count_assumed("values copied to the host")
        return torch.zeros(tensor.shape, dtype=dtype)

    def to_device(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Tensor]
    ) -> tuple[Any, ...]:
        """Move CPU tensors that meet meta tensors over, values kept; scalars stay where kernels read them."""
        strangers = [tensor for tensor in inputs if not tensor.is_meta] if self._is_meta else None
        if not strangers:
            return args, kwargs, inputs
        keeps_scalars = operator.name not in _SCALARS_MOVED
        if kwargs.get("device") is not None or (keeps_scalars and all(tensor.dim() == 0 for tensor in strangers)):
            return args, kwargs, [tensor for tensor in inputs if tensor.is_meta]
        args = tuple(self._moved(value, keeps_scalars) for value in args)
        kwargs = {name: self._moved(value, keeps_scalars) for name, value in kwargs.items()}
        moved = [value for value in flatten((*args, *kwargs.values())) if value.is_meta]
        return args, kwargs, moved

    def _moved(self, value: Any, keeps_scalars: bool) -> Any:
        if isinstance(value, Tensor):
            return value if value.is_meta or (keeps_scalars and value.dim() == 0) else self.place(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._moved(item, keeps_scalars) for item in value)
        return value

    def place(self, value: Tensor) -> Tensor:
        """Make a meta tensor that carries a CPU tensor's value."""
        if value.layout is not torch.strided:
            raise NotImplementedError("sparse tensors need their data")
        placed = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        attach(placed, value.detach())
        return placed

    def run(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Tensor]) -> Any:
        self.operators += 1
        if not self._is_meta:
            out = operator.overload(*args, **kwargs)
            if operator.name in ASKING and not self.is_deaf:
                self.heard.hear(operator.name, out)
            return out
        if operator.launches and not operator.is_random and all(map(self.knows, inputs)):
            out = self._run_known(operator, args, kwargs, inputs)
            if out is not NotImplemented:
                if self.replay is not None and operator.name in ASKING:
                    self.replay.skip(operator.name)
                return out
        for index in operator.written:
            if index < len(args) and isinstance(args[index], Tensor):
                value = getattr(args[index], "_known_value", None)
                if value is not None:
                    self._spoiled[value.untyped_storage()._cdata] = value
        if operator.is_foreach_in_place and _lists_agree(args):
            return None
        if operator.returns_first and operator.shape_rule is None and _fits(args):
            return args[0]
        if operator.is_data_dependent and needs_values(operator.overload, args):
            selected = selected_output(operator.overload, args, self.knows)
            return self._assume_output(operator, args, kwargs) if selected is NotImplemented else selected
        if operator.tells_equal and getattr(args[0], "_drawn", False) and not isinstance(args[1], Tensor):
            out = operator.overload(*args)  # an input's random floats against a number, which none of them is
            attach(out, torch.tensor(operator.name == "aten.ne").expand(out.shape))
            return out
        if operator.shape_rule is not None:
            out = operator.shape_rule(*args, **kwargs)
            if out is not None:
                return out
        out = self._shapes.run(operator, args, kwargs)
        note_class_mask(operator.name, args, out)
        whole = absorbing(operator.name, args, self.knows)
        if whole is not None and not operator.written:
            attach(out, torch.tensor(whole, dtype=out.dtype).expand(out.shape))
        if operator.is_assumed:
            self._assume(operator.name, args, out)
        return out

    def _assume(self, name: str, args: tuple[Any, ...], out: Any) -> None:
        if is_choice(name, args):
            self.chose = True
            if not self._assumes_choices:
                return
        assumed = assumed_values(name, args, out)
        if assumed is not None:
            attach(*assumed)
            self.count_assumed(name)

    def _run_known(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Tensor]
    ) -> Any:
        values = tuple(real_of(value) for value in args)
        written = [(args[at], values[at]) for at in operator.written if at < len(args) and isinstance(args[at], Tensor)]
        if any(tensor._is_view() and 0 in value.stride() for tensor, value in written):
            return NotImplemented  # a part of one number that is kept for a large whole
        named = {name: real_of(value) for name, value in kwargs.items()}
        if "device" in named:
            named["device"] = torch.device("cpu")
        size = args[0] if args else kwargs.get("size", ())
        is_large = isinstance(size, (list, tuple)) and not inputs and prod(map(int, size)) > LARGEST_KNOWN
        if is_large:
            out = operator.overload(*args, **kwargs)
            if operator.name in _CONSTANT:
                attach(out, operator.overload([], *args[1:], **named).expand(out.shape))
            return out
        if any(map(is_repeated, flatten((*values, *named.values())))):
            return self._run_repeated(operator, args, kwargs, values, named)
        if operator.is_data_dependent and not operator.is_view:
            return on_meta(operator.overload(*values, **named))
        out = operator.overload(*args, **kwargs)
        makes_more = not operator.written and not operator.is_view
        if makes_more and any(tensor.numel() > LARGEST_KNOWN for tensor in flatten((out,))):
            return out  # its values would not be kept: `arange` and `repeat` may be as large as they like
        attach(out, operator.overload(*values, **named))
        return out

    def _run_repeated(  # the operator's arguments, on meta and real
        self,
        operator: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        values: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """Run an operator on values that repeat themselves; NotImplemented where that would take long."""
        if operator.is_elementwise:
            out = operator.overload(*args, **kwargs)
            attach(out, run_elementwise(operator.overload, values, named, out))
            return out
        volume = sum(value.numel() for value in flatten((*values, *named.values())))
        if operator.written or operator.is_data_dependent or volume > LARGEST_COMPUTED:
            return NotImplemented
        out = operator.overload(*args, **kwargs)
        attach(out, operator.overload(*values, **named))
        return out

    def follow(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Propagate a known value through a view, sharing storage; drop it if the view would need a copy."""
        if not self._is_meta:
            return
        source = args[0]
        if self.knows(source):
            value = source._known_value
            if value.stride() == source.stride():
                attach(out, operator.overload(value, *(real_of(argument) for argument in args[1:]), **kwargs))
            elif operator.name not in _BY_STRIDES:
                with contextlib.suppress(RuntimeError):  # a view that this layout does not have
                    attach(out, operator.overload(value, *(real_of(argument) for argument in args[1:]), **kwargs))
        elif getattr(source, "_drawn", False) and isinstance(out, Tensor):
            out.__dict__["_drawn"] = True

    def knows(self, tensor: Tensor) -> bool:
        value = getattr(tensor, "_known_value", None)
        if value is None:
            return False
        return not self._spoiled or value.untyped_storage()._cdata not in self._spoiled

    def _assume_output(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.replay is not None and (answer := self.replay.take(operator.name)) is not None:
            return on_meta(answer)
        out = assume_output(operator.overload, args, kwargs, self._selection)
        if out is NotImplemented:
            return operator.overload(*args, **kwargs)
        if isinstance(out, bool | int | float):
            out = self._patience.choose(out, operators=self.operators)
        self.count_assumed(operator.name)
        return out

    def count_assumed(self, name: str) -> None:
        """Count a value that was assumed, under the operator's name."""
        assumed = self.assumed.setdefault(name, Assumed(first_op=len(self.recorded)))
        assumed.count += 1
        if (line := calling_line()) is not None:
            assumed.lines[line] = None

    def note(self, what: str) -> None:
        """Note something that may have changed what the model ran, with the line that asked for it."""
        line = calling_line()
        self._notes[f"{what} (at {line})" if line else what] = None

    def notes(self) -> tuple[str, ...]:
        """Return a note for each operator whose value was assumed, with the lines that asked, and other notes."""
        lines = {
            name if " " in name else name.replace(".", "::", 1): _listed(list(assumed.lines))
            for name, assumed in self.assumed.items()
            if assumed.lines
        }
        answered = () if self.replay is None else self.replay.lines
        ran = (
            f"what hangs on data at {_listed(list(answered))} is that of a run on the CPU with random inputs and "
            "weights: other data may take more or less",
        )
        return (
            *(f"assumed: {name} at {where}" for name, where in lines.items()),
            *(ran if answered else ()),
            *self._patience.notes(),
            *self._notes,
        )


def _lists_agree(args: tuple[Any, ...]) -> bool:
    """Return True if lists of tensors have the same shapes in order: an operator on them in place computes no shape."""
    first, *others = (value for value in args if isinstance(value, (list, tuple)) and flatten(value))
    shapes = [tensor.shape for tensor in first]
    return all([tensor.shape for tensor in other] == shapes for other in others)


def _fits(args: tuple[Any, ...]) -> bool:
    """Return True if an in-place operator plainly leaves its first argument's shape: nothing needs computing."""
    first = args[0]
    if len(args) > 1 and isinstance(args[1], Tensor):
        other = args[1]
        agrees = other.shape == first.shape or broadcasts(other, first)
        return len(args) == 2 and other.dtype is first.dtype and agrees
    return not any(isinstance(value, (list, tuple, Tensor)) for value in args[1:])


def _listed(lines: list[str]) -> str:
    more = len(lines) - 3
    return ", ".join(lines[:3]) + (f" and {more} more" if more > 0 else "")


class KnownValueMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Keeps the values of small meta tensors while modules are built."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._known = KnownValues(torch.device("meta"))
        self._operators: dict[Any, Operator] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        operator = self._operators.get(func)
        if operator is None:
            operator = self._operators[func] = describe_operator(func, preludes={})
        kwargs = kwargs or {}
        inputs = flatten((*args, *kwargs.values()))
        if not self._known.on_device(inputs, kwargs):
            return func(*args, **kwargs)
        if operator.is_view or operator.reshapes_in_place:
            out = func(*args, **kwargs)
            self._known.follow(operator, args, kwargs, out)
            return out
        args, kwargs, inputs = self._known.to_device(operator, args, kwargs, inputs)
        return self._known.run(operator, args, kwargs, inputs)
