"""An interpreter of TorchScript's code: statements and expressions, one function call at a time."""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from capplan.budget import ITEM_BYTES, NUMBER_BYTES, STATEMENT_STEPS, Budget
from capplan.probe.torchscript.archive import ScriptClass, ScriptFunction, Sources
from capplan.probe.torchscript.liveness import LastUses, find_last_uses
from capplan.probe.torchscript.operators import call_operator, prim
from capplan.probe.torchscript.scalars import (
    ANYWHERE,
    CONTAINERS,
    DEEP,
    LARGEST_LIST,
    NUMBERS,
    TEXTS,
    ScriptError,
    bounded,
)
from capplan.units import whole_number

_ROOTS = frozenset({"torch", "ops", "__torch__", "CONSTANTS"})
_NAMES: Mapping[str, Any] = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf)}


class Instance:
    """An object of a class of the archive that is not a module."""

    def __init__(self, script_class: ScriptClass, state: Mapping[str, Any] | None = None) -> None:
        self.script_class = script_class
        self.state = dict(state or {})

    def script_get(self, name: str, budget: Budget) -> Any:
        del budget
        if name not in self.state:
            raise ScriptError(f"{self.script_class.name} has no attribute {name}")
        return self.state[name]

    def script_set(self, name: str, value: Any) -> None:
        self.state[name] = value

    def script_call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a method's code."""
        return call(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class EnumMember:
    """A member of an enum of the archive; members of equal class and value are equal."""

    class_name: str
    value: Any


class NamedValues(tuple[Any, ...]):
    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Any]) -> "NamedValues":
        made = cls(values)
        made.names = tuple(names)
        return made


@dataclass(frozen=True, slots=True)
class _Qualified:
    """A dotted name of the file's libraries: an operator, a function, a class, a constant."""

    path: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class _ScriptMethod:
    owner: Any
    name: str


class _ReturnError(Exception):
    """Carries a function's value out of its statements."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _BreakError(Exception):
    pass


class _ContinueError(Exception):
    pass


class _Frame:
    """The local names of one call; a name is taken away at its last use."""

    def __init__(self, values: dict[str, Any], last_uses: LastUses) -> None:
        self.values = values
        self._last_uses = last_uses
        self._moved: frozenset[str] = frozenset()

    def begin(self, statement: ast.stmt) -> None:
        """Note which names the statement uses last, and drop those that its branch never reads."""
        for name in self._last_uses.dropped_before.get(id(statement), ()):
            self.values.pop(name, None)
        self._moved = self._last_uses.moved.get(id(statement), frozenset())

    def end(self, statement: ast.stmt) -> None:
        """Drop the names that the statement used last."""
        for name in self._last_uses.dropped_after.get(id(statement), ()):
            self.values.pop(name, None)

    def read(self, name: str) -> Any:
        """Return a name's value, and forget it where the statement reads it last and once."""
        return self.values.pop(name) if name in self._moved else self.values[name]


class Interpreter:
    """Runs functions of an archive.

    Args:
        sources: its classes and functions.
        constants: its tensors, as `CONSTANTS.c0` and further name them.
        device: where the model is.
        last_uses: last uses of names by function, found once and kept for later passes.
        budget: what this pass may take.
    """

    def __init__(
        self,
        sources: Sources,
        constants: Sequence[Any],
        device: torch.device,
        last_uses: dict[str, LastUses],
        budget: Budget,
    ) -> None:
        self._sources = sources
        self._constants = constants
        self._device = device
        self._last_uses = last_uses
        self._budget = budget

    def call(self, function: ScriptFunction, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run one function and return what it returns; the arguments are taken out of `args` and `kwargs`."""
        if len(args) > len(function.parameters) or not set(kwargs) <= set(function.parameters[len(args) :]):
            raise ScriptError(f"{function.name} takes {', '.join(function.parameters)}")
        local = dict(zip(function.parameters, args, strict=False)) | kwargs
        args.clear()
        kwargs.clear()
        first_default = len(function.parameters) - len(function.defaults)
        for index, name in enumerate(function.parameters):
            if name in local:
                continue
            if index < first_default:
                raise ScriptError(f"{function.name} needs {name}")
            local[name] = self._value(function.defaults[index - first_default], _Frame({}, LastUses()))
        if function.name not in self._last_uses:
            self._last_uses[function.name] = find_last_uses(function)
        try:
            self._block(function.body, _Frame(local, self._last_uses[function.name]), function)
        except _ReturnError as returned:
            return returned.value
        return None

    def _block(self, statements: Sequence[ast.stmt], local: "_Frame", function: ScriptFunction) -> None:
        for statement in statements:
            local.begin(statement)
            self._budget.take_steps(STATEMENT_STEPS)
            try:
                self._statement(statement, local, function)
            except (_ReturnError, _BreakError, _ContinueError, NotImplementedError):
                raise
            except RuntimeError as error:
                raise _located(error, function, statement) from error
            except (
                TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, RecursionError,
            ) as error:  # fmt: skip
                words = str(error)[:_LONGEST_WORDS]
                raise _located(ScriptError(f"{type(error).__name__}: {words}"), function, statement) from error
            local.end(statement)

    def _statement(self, statement: ast.stmt, local: "_Frame", function: ScriptFunction) -> None:
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._value(value, local), local)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(target, self._value(value, local), local)
            case ast.Expr(value=value):
                self._value(value, local)
            case ast.If(test=test, body=body, orelse=orelse):
                self._block(body if self._value(test, local) else orelse, local, function)
            case ast.Return(value=value):
                raise _ReturnError(None if value is None else self._value(value, local))
            case ast.For() | ast.While():
                self._loop(statement, local, function)
            case ast.With(body=body):
                self._block(body, local, function)
            case ast.Pass() | ast.AnnAssign():
                pass
            case ast.Break():
                raise _BreakError
            case ast.Continue():
                raise _ContinueError
            case ast.Assert(test=test):
                if not self._value(test, local):
                    raise ScriptError("an assertion of the model's code does not hold")
            case ast.Delete(targets=[ast.Subscript(value=container, slice=key)]):
                del self._value(container, local)[self._key(key, local)]
            case _:
                raise ScriptError(f"a statement of {type(statement).__name__} is not read")

    def _loop(self, statement: ast.For | ast.While, local: "_Frame", function: ScriptFunction) -> None:
        try:
            if isinstance(statement, ast.For):
                items = self._value(statement.iter, local)
                exits = (isinstance(part, ast.Break | ast.Return | ast.Continue) for part in ast.walk(statement))
                if isinstance(items, range | list | tuple) and not any(exits):
                    self._budget.foresee_steps(len(items) * (1 + len(statement.body)) * STATEMENT_STEPS)
                for item in items:
                    self._assign(statement.target, item, local)
                    self._once(statement.body, local, function)
            else:
                while self._value(statement.test, local):
                    self._once(statement.body, local, function)
        except _BreakError:
            return

    def _once(self, body: Sequence[ast.stmt], local: "_Frame", function: ScriptFunction) -> None:
        self._budget.take_steps(STATEMENT_STEPS)  # a body of no statements is counted too
        try:
            self._block(body, local, function)
        except _ContinueError:
            return

    def _assign(self, target: ast.expr, value: Any, local: "_Frame") -> None:
        match target:
            case ast.Name(id=name):
                local.values[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for part, item in zip(targets, list(value), strict=True):
                    self._assign(part, item, local)
            case ast.Attribute(value=owner, attr=name):
                self._value(owner, local).script_set(name, value)
            case ast.Subscript(value=container, slice=key):
                self._value(container, local)[self._key(key, local)] = value
            case _:
                raise ScriptError(f"an assignment to {ast.unparse(target)[:100]} is not read")

    def _value(self, node: ast.expr, local: "_Frame") -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name in local.values:
                    return local.read(name)
                if name in _ROOTS:
                    return _Qualified((name,))
                if name in _NAMES:
                    return _NAMES[name]
                raise ScriptError(f"{name} is not defined")
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(self._value(owner, local), name)
            case ast.Call():
                if isinstance(node.func, ast.Name) and node.func.id not in local.values:
                    return self._builtin(node.func.id, node, local)
                self._budget.take_steps(STATEMENT_STEPS)
                called = self._value(node.func, local)
                args = [self._value(argument, local) for argument in node.args]
                kwargs = {word.arg: self._value(word.value, local) for word in node.keywords if word.arg is not None}
                if isinstance(called, _ScriptMethod):
                    return self._method(called.owner, called.name, args, kwargs)
                if isinstance(called, _Qualified):
                    return self._library_call(called, args, kwargs)
                raise ScriptError(f"{ast.unparse(node.func)[:100]} cannot be called")
            case ast.List(elts=items):
                self._make_room(len(items))
                return [self._value(item, local) for item in items]
            case ast.Tuple(elts=items):
                self._make_room(len(items))
                return tuple(self._value(item, local) for item in items)
            case ast.Dict(keys=keys, values=values):
                self._make_room(len(keys))
                named = ((key, value) for key, value in zip(keys, values, strict=True) if key is not None)
                return {self._key(key, local): self._value(value, local) for key, value in named}
            case ast.Subscript(value=container, slice=key):
                return self._value(container, local)[self._key(key, local)]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand, local)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._value(body if self._value(test, local) else orelse, local)
        raise ScriptError(f"an expression of {type(node).__name__} is not read")

    def _make_room(self, items: int) -> None:
        """Charge the cost of a list, a tuple or a dictionary that is written out."""
        self._budget.take_steps(items)
        self._budget.take_bytes(items * ITEM_BYTES)

    def _key(self, node: ast.expr, local: "_Frame") -> Any:
        """Return a key or an index; TorchScript's are numbers, texts and tensors, whose hash takes no time."""
        key = self._value(node, local)
        if key is not None and not isinstance(key, _KEYS):
            raise ScriptError(f"a key of type {type(key).__name__} is not read")
        return key

    def _attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, _Qualified):
            return self._qualified((*owner.path, name))
        if isinstance(owner, NamedValues):
            return owner[owner.names.index(name)]
        if isinstance(owner, EnumMember) and name == "value":
            return owner.value
        if isinstance(owner, Tensor):
            return prim(name, [owner], device=self._device)
        if hasattr(owner, "script_class"):
            if name in owner.script_class.methods:
                return _ScriptMethod(owner, name)
            return owner.script_get(name, self._budget)
        raise ScriptError(f"{type(owner).__name__} has no attribute {name}")

    def _qualified(self, path: tuple[str, ...]) -> Any:
        if path[0] == "CONSTANTS":
            index = whole_number(path[1].removeprefix("c"))
            if index is None or index >= len(self._constants):
                raise ScriptError(f"there is no constant {path[1]}")
            return self._constants[index]
        owner = self._sources.classes.get(".".join(path[:-1]))
        if owner is not None and owner.base == "Enum" and path[-1] in owner.constants:
            return EnumMember(owner.name, constant_value(owner.constants[path[-1]], self._budget))
        return _Qualified(path)

    def _builtin(self, name: str, node: ast.Call, local: "_Frame") -> Any:
        """Evaluate a call of one of the words of TorchScript's grammar."""
        if name in ("annotate", "unchecked_cast", "unchecked_unwrap_optional"):
            return self._value(node.args[-1], local)
        if name == "uninitialized":
            return None
        if name == "isinstance":
            value, kind = self._value(node.args[0], local), _outermost(node.args[1])
            if kind not in _TYPES:
                raise ScriptError(f"isinstance of {kind[:100]} is not read")
            return isinstance(value, _TYPES[kind])
        values = [self._value(argument, local) for argument in node.args]
        if name == "getattr":
            return self._attribute(values[0], values[1])
        if name == "hasattr":
            return True
        if name == "range":
            return _range(*values)
        if name in ("int", "float", "bool", "str"):
            self._budget.weigh(*values)
            return bounded({"int": int, "float": float, "bool": bool, "str": str}[name](*values))
        if name == "print":
            return None
        if name == "unwrap_optional":
            return values[0]
        raise ScriptError(f"{name}() is not read")

    def _method(self, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        method = owner.script_class.methods[name]
        args.insert(0, owner)
        return owner.script_call(self.call, method, args, kwargs)

    def _library_call(self, called: _Qualified, args: list[Any], kwargs: dict[str, Any]) -> Any:
        root, *rest = called.path
        if root == "__torch__":
            *_, last = called.path
            if last == "__new__" and (owner := self._sources.classes.get(".".join(called.path[:-1]))) is not None:
                return Instance(owner)
            if (function := self._sources.functions.get(called.name)) is not None:
                return self.call(function, args, kwargs)
            if (script_class := self._sources.classes.get(called.name)) is not None:
                if script_class.base == "NamedTuple":
                    return NamedValues.of(script_class.attributes, args)
                instance = Instance(script_class)
                if "__init__" in script_class.methods:
                    self._method(instance, "__init__", args, kwargs)
                return instance
            raise ScriptError(f"{called.name} is not defined in the archive")
        if root == "ops" and len(rest) == 2:
            namespace, name = rest
            if namespace == "prim":
                self._budget.weigh(*args)
                if name == "rangelist":
                    self._budget.take_bytes(NUMBER_BYTES * max(0, args[0]))
                if name == "tolist" and isinstance(args[0], Tensor):
                    self._budget.take_bytes(NUMBER_BYTES * args[0].numel())
                return prim(name, args, device=self._device)
            return self._operator(namespace, name, args, kwargs)
        return self._torch_call(rest[-1], args, kwargs)

    def _torch_call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Evaluate `torch.NAME`: on the host where no tensor is among the arguments, else as PyTorch's operator."""
        if name in ANYWHERE:
            if name not in _BY_IDENTITY:
                self._budget.weigh(*args)
            if args and isinstance(args[0], str):
                self._budget.take_steps(len(args[0]))  # a template is cut at each of its places
            return self._made(ANYWHERE[name](*args))
        first = args[0] if args else None
        if isinstance(first, list | dict | tuple | str) and not kwargs:
            if name in CONTAINERS and not (name in ("add", "mul", "eq", "ne") and isinstance(args[-1], Tensor)):
                # Call a function of a list, a dictionary or a text: deep ones walk all within, the others move the
                # items.
                if name in DEEP:
                    self._budget.weigh(*args)
                elif name not in _BY_PLACE:
                    self._budget.take_steps(1 + len(args[0]) // 64)
                value = CONTAINERS[name](*args)
                return bounded(value) if name in _IN_PLACE else self._made(value)
            if name in TEXTS and isinstance(first, str):
                self._budget.weigh(*args)
                if name == "join":
                    pieces = list(args[1])
                    self._budget.take_bytes(sum(map(len, pieces)) + len(first) * len(pieces))
                return self._made(getattr(first, name)(*args[1:]))
        if name in NUMBERS and args and not kwargs and all(isinstance(arg, _PLAIN) or arg is None for arg in args):
            self._budget.weigh(*args)
            return self._made(NUMBERS[name](*args))
        return self._operator("aten", name, args, kwargs)

    def _operator(self, namespace: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call PyTorch's operator; its arguments are walked as its own parser of arguments will walk them."""
        self._budget.take_nodes(1)
        self._budget.weigh(*args, *kwargs.values())
        return call_operator(namespace, name, args, kwargs, device=self._device)

    def _made(self, value: Any) -> Any:
        """Charge the memory of a new value of the host, and return the value."""
        if isinstance(value, list | tuple | dict):
            holds_texts = isinstance(value, list) and value and isinstance(value[0], str)
            self._budget.take_bytes(len(value) * (64 if holds_texts else ITEM_BYTES))
        elif isinstance(value, str):
            self._budget.take_bytes(len(value))
        return bounded(value)


def constant_value(node: ast.expr, budget: Budget) -> Any:
    """Return the value of a class's constant, what it costs taken from the file's budget."""
    return Interpreter(Sources(classes={}, functions={}), (), torch.device("cpu"), {}, budget)._value(
        node, _Frame({}, LastUses())
    )


_LONGEST_WORDS = 200
_BY_IDENTITY = ("__is__", "__isnot__", "warn", "manual_seed", "__derive_index", "__range_length", "ord")
"""Functions that do not look into their arguments."""
_BY_PLACE = ("append", "len", "__getitem__", "_set_item", "get", "setdefault", "clear")
"""Functions of containers whose time does not depend on how much these hold."""
_IN_PLACE = ("append", "extend", "insert", "_set_item", "__getitem__", "get", "setdefault", "pop", "add_", "update")
"""Functions of containers that return what was there before."""
_KEYS = (bool, int, float, complex, str, Tensor)
_PLAIN = (bool, int, float, complex, str, torch.device, torch.dtype, EnumMember)
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "int": int, "float": float, "bool": bool, "str": str, "Tensor": Tensor, "NoneType": type(None),
    "List": list, "list": list, "Tuple": tuple, "tuple": tuple, "Dict": dict, "dict": dict,
}  # fmt: skip


def _outermost(node: ast.expr) -> str:
    """Return the outermost name of a type: "List" of `List[Tensor]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else "NoneType" if isinstance(node, ast.Constant) else ""


def _range(*values: int) -> range:
    made = range(*values)
    if len(made) > LARGEST_LIST:
        raise ScriptError(f"a loop of more than {LARGEST_LIST:,} rounds")
    return made


def _located(error: RuntimeError, function: ScriptFunction, statement: ast.stmt) -> RuntimeError:
    """Return an error with the innermost place of the archive's code in its message."""
    if isinstance(error, ScriptError) and getattr(error, "is_located", False):
        return error
    name = ".".join(function.name.split(".")[-2:])
    located = ScriptError(f"{name}, line {statement.lineno}: {str(error)[:_LONGEST_WORDS]}")
    located.is_located = True  # type: ignore[attr-defined] # our own mark
    return located
