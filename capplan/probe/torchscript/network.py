"""A TorchScript archive as modules: the tree of the archive's objects, run by the interpreter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from capplan.budget import Budget
from capplan.errors import UsageError
from capplan.probe.foreign.graphs import counted_host_memory, device_of, empty_weight
from capplan.probe.record.value_store import attach
from capplan.probe.torchscript.archive import ScriptArchive, ScriptClass, ScriptFunction, Sources
from capplan.probe.torchscript.liveness import LastUses
from capplan.probe.torchscript.records import ObjectRecord, TensorRecord
from capplan.probe.torchscript.run import EnumMember, Instance, Interpreter, NamedValues, constant_value
from capplan.probe.torchscript.scalars import ScriptError


class ScriptModule(torch.nn.Module):
    """One module of an archive, with its parameters, buffers, submodules and plain attributes."""

    def __init__(self, script_class: ScriptClass) -> None:
        super().__init__()
        self.script_class = script_class
        self.plain: dict[str, Any] = {}
        self._running = False

    def forward(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run one method's code."""
        return call(*args, **kwargs)

    def script_call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a method's code as a call of this module, so that its operators are counted to it."""
        if self._running:
            return call(*args, **kwargs)
        self._running = True
        try:
            return self(call, *args, **kwargs)
        finally:
            self._running = False

    def script_get(self, name: str, budget: Budget) -> Any:
        """Return an attribute, its cost taken from the file's budget."""
        if name == "training":
            return self.training
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                return table[name]
        if name in self.plain:
            value = self.plain[name]
            if isinstance(value, _WithTensors):
                budget.take_steps(value.items)
                return _with_tensors(value.value)
            return value
        if name in self.script_class.constants:
            return constant_value(self.script_class.constants[name], budget)
        raise ScriptError(f"{self.script_class.name} has no attribute {name}")

    def script_set(self, name: str, value: Any) -> None:
        """Set an attribute; a tensor that takes a buffer's place is kept as a buffer."""
        if name in self._buffers and (value is None or isinstance(value, Tensor)):
            self._buffers[name] = value
        elif name in self._parameters or name in self._modules:
            raise ScriptError(f"{self.script_class.name}.{name} is set while the model runs")
        else:
            self.plain[name] = value


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A tensor among plain attributes, which is looked up where it is registered."""

    owner: torch.nn.Module
    name: str

    def tensor(self) -> Any:
        table = self.owner._parameters if self.name in self.owner._parameters else self.owner._buffers
        return table[self.name]


@dataclass(frozen=True, slots=True, eq=False)
class _WithTensors:
    """A plain attribute that holds tensors somewhere within; `items` is what reading it takes. [steps]"""

    value: Any
    items: int


def _with_tensors(value: Any, made: dict[int, Any] | None = None) -> Any:
    """Return a plain attribute with the module's tensors of now in the place of what stands for them.

    A value that stands in several places is made once and stands in them again.
    """
    made = {} if made is None else made
    if isinstance(value, _Held):
        return value.tensor()
    if not isinstance(value, list | tuple | dict):
        return value
    if id(value) not in made:
        if isinstance(value, list):
            made[id(value)] = [_with_tensors(item, made) for item in value]
        elif isinstance(value, NamedValues):
            made[id(value)] = NamedValues.of(value.names, [_with_tensors(item, made) for item in value])
        elif isinstance(value, tuple):
            made[id(value)] = tuple(_with_tensors(item, made) for item in value)
        else:
            made[id(value)] = {key: _with_tensors(item, made) for key, item in value.items()}
    return made[id(value)]


class ScriptNetwork(ScriptModule):
    def __init__(self, archive: ScriptArchive, sources: Sources, *, where: str) -> None:
        root = archive.root
        super().__init__(_class_of(root, sources, where))
        self._sources = sources
        self._where = where
        self._last_uses: dict[str, LastUses] = {}
        _Builder(sources, where=where).fill(self, root)
        self._constants = [self._constant(index, constant) for index, constant in enumerate(archive.constants)]
        if not any(True for _ in self.parameters()):  # `torch.jit.freeze` turns every weight into a constant
            for name, tensor in list(self._buffers.items()):
                if tensor is not None and tensor.is_floating_point() and name.startswith("constant_"):
                    del self._buffers[name]
                    self._parameters[name] = torch.nn.Parameter(tensor, requires_grad=True)

    @property
    def forward_function(self) -> ScriptFunction:
        """Return the code of the model's forward."""
        return find_forward(self.script_class)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._running:  # a method of the model's own, called by its submodules
            call, *rest = args
            return call(*rest, **kwargs)
        function = self.forward_function
        if len(kwargs) == 1 and not args and not set(kwargs) & set(function.parameters):
            args, kwargs = tuple(kwargs.values()), {}
        held = (*self.parameters(), *self.buffers(), *args, *kwargs.values())
        device = device_of(held, ())
        budget = Budget(self._where)
        interpreter = Interpreter(
            self._sources, [_with_tensors(constant) for constant in self._constants], device, self._last_uses, budget
        )
        self._running = True
        try:
            with counted_host_memory(budget, device=device, held=held):
                return interpreter.call(function, [self, *args], dict(kwargs))
        finally:
            self._running = False

    def _constant(self, index: int, value: Any) -> Any:
        """Return a constant: a scalar stays on the host, as PyTorch keeps it, and a larger tensor becomes a buffer."""
        if not isinstance(value, TensorRecord):
            return value
        values = _values(value)
        if not value.shape:
            return torch.zeros((), dtype=getattr(torch, value.dtype), device="cpu") if values is None else values
        name = f"constant_{index}"
        tensor = empty_weight(value.shape, getattr(torch, value.dtype))
        if values is not None and tensor.is_meta:
            attach(tensor, values)
        elif values is not None:
            tensor.copy_(values)
        self.register_buffer(name, tensor)
        return _Held(self, name)


def find_forward(script_class: ScriptClass) -> ScriptFunction:
    """Return the method that a call of a module runs."""
    found = script_class.methods.get("forward") or script_class.methods.get("forward__0")
    if found is None:
        raise UsageError(f"the model of the archive, {script_class.name}, has no forward.")
    return found


def _class_of(value: Any, sources: Sources, where: str) -> ScriptClass:
    if not isinstance(value, ObjectRecord) or value.class_name not in sources.classes:
        name = getattr(value, "class_name", type(value).__name__)
        raise UsageError(f"{where}: {name} has no class among the archive's sources.")
    return sources.classes[value.class_name]


class _Builder:
    """Makes the modules and values of an archive's objects; an object that is met twice is one."""

    def __init__(self, sources: Sources, *, where: str) -> None:
        self._sources = sources
        self._where = where
        self._modules: dict[int, ScriptModule] = {}
        self._tensors: dict[int, _Held] = {}
        self._parameters: dict[tuple[Any, ...], torch.nn.Parameter] = {}
        self._values: dict[int, Any] = {}
        self._costs: dict[int, int] = {}
        self._held = self._walked = 0

    def fill(self, module: ScriptModule, record: ObjectRecord) -> None:
        self._modules[id(record)] = module
        for name, value in record.state.items():
            if not name or "." in name:
                raise UsageError(f"{self._where}: {name[:100]!r} is no name of an attribute.")
            if isinstance(value, TensorRecord):
                if name in module.script_class.parameters:
                    # One parameter for every tensor over the same elements, as tied weights are.
                    key = (value.storage.key, value.offset, value.shape, value.strides)
                    if key not in self._parameters:
                        tensor = empty_weight(value.shape, getattr(torch, value.dtype))
                        trainable = value.requires_grad and tensor.is_floating_point()
                        self._parameters[key] = torch.nn.Parameter(tensor, requires_grad=trainable)
                    module._parameters[name] = self._parameters[key]
                else:
                    module._buffers[name] = empty_weight(value.shape, getattr(torch, value.dtype))
                self._tensors.setdefault(id(value), _Held(module, name))
            elif isinstance(value, ObjectRecord) and _class_of(value, self._sources, self._where).base == "Module":
                module._modules[name] = self._module(value)
            elif name != "training":
                module.plain[name] = value
        for name, value in list(module.plain.items()):  # tensors of lists are registered once all others are
            held, walked = self._held, self._walked
            plain = self._plain(module, name, value)
            module.plain[name] = plain if self._held == held else _WithTensors(plain, self._walked - walked)

    def _module(self, record: ObjectRecord) -> ScriptModule:
        if id(record) not in self._modules:
            made = ScriptModule(_class_of(record, self._sources, self._where))
            self.fill(made, record)
        return self._modules[id(record)]

    def _plain(self, module: ScriptModule, name: str, value: Any) -> Any:
        if isinstance(value, TensorRecord):
            if id(value) not in self._tensors:
                own = f"{name}_{len(module._buffers)}"
                module._buffers[own] = empty_weight(value.shape, getattr(torch, value.dtype))
                self._tensors[id(value)] = _Held(module, own)
            self._held += 1
            return self._tensors[id(value)]
        if not isinstance(value, list | tuple | dict):
            return self._object(module, name, value)
        if id(value) in self._values:  # the archive's objects stay, and with them what their ids mean
            self._held += 1  # it may hold tensors
            self._walked += self._costs.get(id(value), 0)
        else:
            self._values[id(value)] = None  # met again while it is made, it holds itself
            walked = self._walked
            self._walked += 1 + len(value)
            if isinstance(value, list):
                self._values[id(value)] = [self._plain(module, name, item) for item in value]
            elif isinstance(value, tuple):
                self._values[id(value)] = tuple(self._plain(module, name, item) for item in value)
            else:
                self._values[id(value)] = {key: self._plain(module, name, item) for key, item in value.items()}
            self._costs[id(value)] = self._walked - walked
        return self._values[id(value)]

    def _object(self, module: ScriptModule, name: str, value: Any) -> Any:
        """Make what an object of the archive stands for; anything else is itself."""
        if isinstance(value, ObjectRecord):
            script_class = _class_of(value, self._sources, self._where)
            if script_class.base == "Module":
                return self._module(value)
            if script_class.base == "NamedTuple":
                return self._named_tuple(module, name, script_class, value)
            if script_class.base == "Enum" and len(value.values) == 1:
                return EnumMember(script_class.name, value.values[0])
            return Instance(script_class, {key: self._plain(module, name, item) for key, item in value.state.items()})
        return value

    def _named_tuple(self, module: ScriptModule, name: str, script_class: ScriptClass, record: ObjectRecord) -> Any:
        names, values = script_class.attributes, record.values
        if len(names) != len(values):
            raise UsageError(f"{self._where}: {script_class.name} has {len(names)} names and {len(values)} values.")
        return NamedValues.of(names, [self._plain(module, name, value) for value in values])


def _values(record: TensorRecord) -> Tensor | None:
    """Return a small constant's values; None where the archive's reader left them out."""
    content = record.storage.content
    if content is None:
        return None
    flat = numpy.frombuffer(content, dtype=numpy.uint8)[: record.storage.size_bytes].copy()
    with torch.device("cpu"):
        elements = torch.from_numpy(flat).view(getattr(torch, record.dtype))
        return torch.as_strided(elements, record.shape, record.strides, record.offset).clone()
