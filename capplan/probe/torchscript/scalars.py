"""Functions of TorchScript on numbers, texts, lists and dictionaries: what its interpreter computes on the host.

Integers have 64 bits and lists a bounded length, as in TorchScript itself or below it, so that no line of a hostile
file fills the memory.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LARGEST_LIST = 500_000
"""Most items of one list, and most characters of one text."""

_LARGEST_INT = 2**63


class ScriptError(RuntimeError):
    """What the code of an archive asks for cannot be done; the message says where."""


def bounded(value: Any) -> Any:
    """Return a value, refused where it is an integer of more than 64 bits or a list of too many items."""
    if isinstance(value, int) and not -_LARGEST_INT <= value < _LARGEST_INT:
        raise ScriptError("an integer exceeds 64 bits")
    if isinstance(value, list | str) and len(value) > LARGEST_LIST:
        raise ScriptError(f"a list exceeds {LARGEST_LIST:,} items")
    return value


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if base and abs(base) > 1 and exponent > 64:
            raise ScriptError("an integer exceeds 64 bits")
        return base**exponent
    return float(base) ** exponent


def _shift_left(value: int, count: int) -> int:
    if count > 64:
        raise ScriptError("an integer exceeds 64 bits")
    return value << count


def _multiply(left: Any, right: Any) -> Any:
    for several, count in ((left, right), (right, left)):
        if isinstance(several, list | str) and isinstance(count, int) and len(several) * count > LARGEST_LIST:
            raise ScriptError(f"a list exceeds {LARGEST_LIST:,} items")
    return left * right


def _format(template: str, *values: Any) -> str:
    parts = str(template).split("{}")
    texts = [str(value)[:200] for value in values]
    ends = [*texts, *[""] * len(parts)]
    return "".join(part + end for part, end in zip(parts, [*ends[: len(parts) - 1], ""], strict=True))


def _set_item(container: Any, key: Any, value: Any) -> Any:
    container[key] = value
    return container


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _extend(items: list[Any], more: Sequence[Any]) -> None:
    if len(items) + len(more) > LARGEST_LIST:
        raise ScriptError(f"a list exceeds {LARGEST_LIST:,} items")
    items.extend(more)


def _range_length(low: int, high: int, step: int) -> int:
    if step == 0:
        raise ScriptError("range() arg 3 must not be zero")
    return len(range(low, high, step))


def _unary(function: Callable[[float], Any]) -> Callable[..., Any]:
    return lambda value: function(float(value))


NUMBERS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": _multiply, "div": lambda left, right: float(left / right),
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "fmod": math.fmod, "neg": operator.neg, "pow": _power,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor, "__not__": operator.not_,
    "__lshift__": _shift_left, "__rshift__": operator.rshift, "bitwise_not": operator.invert, "abs": abs,
    "floor": _unary(math.floor), "ceil": _unary(math.ceil), "sqrt": _unary(math.sqrt), "exp": _unary(math.exp),
    "log": _unary(math.log), "log2": _unary(math.log2), "log10": _unary(math.log10), "log1p": _unary(math.log1p),
    "sin": _unary(math.sin), "cos": _unary(math.cos), "tan": _unary(math.tan), "tanh": _unary(math.tanh),
    "isnan": _unary(math.isnan), "isinf": _unary(math.isinf), "isfinite": _unary(math.isfinite),
    "round": lambda value: float(round(value)),
    "Int": int, "Float": float, "Bool": bool, "Complex": complex, "IntImplicit": int, "FloatImplicit": float,
    "ScalarImplicit": lambda value: value, "degrees": math.degrees, "radians": math.radians, "gcd": math.gcd,
    "atan2": math.atan2, "copysign": math.copysign,
}  # fmt: skip
"""Functions where all arguments are numbers, texts, truth values or None."""

CONTAINERS: Mapping[str, Callable[..., Any]] = {
    "len": len, "append": _append, "extend": _extend, "insert": list.insert, "pop": lambda items, *key: items.pop(*key),
    "clear": lambda items: items.clear(), "reverse": list.reverse, "copy": lambda items: items.copy(), "list": list,
    "_set_item": _set_item, "__getitem__": operator.getitem, "__contains__": operator.contains,
    "slice": lambda items, start=None, end=None, step=1: items[start:end:step],
    "add": operator.add, "add_": operator.iadd, "mul": _multiply, "eq": operator.eq, "ne": operator.ne,
    "keys": lambda table: list(table.keys()),
    "values": lambda table: list(table.values()), "items": lambda table: list(table.items()),
    "Delete": operator.delitem,
    "index": lambda items, *item: items.index(*item), "count": lambda items, *item: items.count(*item),
    "sort": lambda items, *down: items.sort(reverse=bool(down and down[0])),
    "sorted": lambda items, reverse=False: sorted(items, reverse=reverse), "sum": sum, "any": any,
    "all": all, "max": max, "min": min, "get": lambda table, *key: table.get(*key),
    "update": lambda table, more: table.update(more), "remove": lambda items, item: items.remove(item),
    "setdefault": lambda table, *key: table.setdefault(*key), "dict": dict, "unpack": list,
}  # fmt: skip
"""Functions whose first argument is a list, a tuple, a dictionary or a text."""

DEEP = frozenset(
    {"eq", "ne", "index", "count", "sort", "sorted", "sum", "any", "all", "max", "min", "remove", "__contains__"}
)
"""Functions that look at what the items hold, or at all of them."""

TEXTS = frozenset(
    {"startswith", "endswith", "upper", "lower", "strip", "lstrip", "rstrip", "split", "rsplit", "join", "find",
     "rfind", "capitalize", "title", "isdigit", "isalpha", "isalnum", "isupper", "islower", "splitlines"}
)  # fmt: skip
"""Functions of texts that are Python's methods of that name."""

ANYWHERE: Mapping[str, Callable[..., Any]] = {
    "__is__": operator.is_, "__isnot__": operator.is_not, "format": _format, "percentFormat": _format,
    "__derive_index": lambda index, start, step: start + index * step, "__range_length": _range_length,
    "warn": lambda *_: None, "str": str, "ord": ord, "manual_seed": lambda *_: None,
}  # fmt: skip
"""Functions whatever their arguments are."""
