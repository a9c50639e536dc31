"""Arithmetic that a pipeline file states over its parameters: `steps * passes`, `ceil(height / 8)`.

Nothing but numbers, names of parameters, + - * / // %, comparisons, `a if b else c` and five functions is read, so that
a file from anywhere cannot run code.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from capplan.errors import UsageError, nearest_names

Number: TypeAlias = int | float

_LONGEST = 300
_LARGEST = 1e18
_OPERATORS: Mapping[type[ast.AST], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "ceil": math.ceil, "floor": math.floor, "min": min, "max": max, "round": round,
}  # fmt: skip


def evaluate(text: str, values: Mapping[str, Number], *, where: str) -> Number:
    if len(text) > _LONGEST:
        raise UsageError(f"{where}: an expression has at most {_LONGEST} characters, this one {len(text)}.")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        result = _value(tree.body, values, f"{where}: {text!r}")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{where}: {text!r} is not arithmetic such as steps * 2 or ceil(height / 8).") from error
    except (ZeroDivisionError, OverflowError) as error:
        raise UsageError(f"{where}: {text!r} divides by zero or leaves the range of numbers.") from error
    return int(result) if isinstance(result, bool) else result


def _value(node: ast.AST, values: Mapping[str, Number], where: str) -> Number:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return _bounded(node.value, where)
    if isinstance(node, ast.Name):
        if node.id not in values:
            meant = nearest_names(node.id, values) or sorted(values)
            raise UsageError(f"{where} names {node.id!r}, which is no parameter; known are {', '.join(meant[:8])}.")
        return values[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, values, where), _value(node.right, values, where)
        return _bounded(_OPERATORS[type(node.op)](left, right), where)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, values, where)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
        left, right = _value(node.left, values, where), _value(node.comparators[0], values, where)
        return _OPERATORS[type(node.ops[0])](left, right)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, values, where) else node.orelse, values, where)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        arguments = [_value(argument, values, where) for argument in node.args]
        if arguments and not node.keywords and (len(arguments) == 1 or node.func.id in ("min", "max")):
            takes_one = node.func.id in ("min", "max") and len(arguments) == 1
            return arguments[0] if takes_one else _bounded(_FUNCTIONS[node.func.id](*arguments), where)
    raise UsageError(
        f"{where} is not arithmetic: numbers, parameters, + - * / // %, comparisons, a if b else c, and "
        f"{', '.join(_FUNCTIONS)} are read."
    )


def _bounded(number: Number, where: str) -> Number:
    if not abs(number) <= _LARGEST:
        raise UsageError(f"{where} leaves the range of numbers, {_LARGEST:g}.")
    return number


_HOLE = re.compile(r"\{([^{}]*)\}")


def filled(template: str, values: Mapping[str, Number], *, where: str) -> str:
    """Return text with each expression in braces replaced by its whole value: `Nx{height // 8}` to `Nx128`."""

    def whole(match: "re.Match[str]") -> str:
        value = evaluate(match[1], values, where=where)
        if value != int(value):
            raise UsageError(f"{where}: {match[1].strip()!r} is {value:g}, and must be a whole number.")
        return str(int(value))

    return _HOLE.sub(whole, template)
