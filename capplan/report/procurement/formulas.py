"""Print the formulas of `capplan.core.formulas` in the languages of the workbook and of the page's script."""

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Final

from capplan.core import formulas

_BINARY: Final = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_FUNCTIONS: Final = {"min": "MIN", "max": "MAX", "pow": "POWER"}
_SCRIPTED: Final = {name: f"Math.{name}" for name in (*_FUNCTIONS, "ceil")} | {"ceil_guarded": "ceilGuarded"}
_GUARD = "0.000000001"


@cache
def _parsed(name: str) -> ast.FunctionDef:
    tree = ast.parse(inspect.getsource(getattr(formulas, name))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _expression(name: str) -> ast.expr:
    returned = _parsed(name).body[-1]
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    return returned.value


def _parameters(name: str) -> list[str]:
    return [argument.arg for argument in _parsed(name).args.args]


def spreadsheet(formula: Callable[..., float], *arguments: str, of_arrays: bool = False) -> str:
    """Print a formula for a cell, without its equals sign."""
    name = formula.__name__
    values = dict(zip(_parameters(name), (_atom(words) for words in arguments), strict=True))
    return _cell(_expression(name), values, of_arrays)


def _atom(words: str) -> str:
    """Return words that an operator may stand beside: a name, a cell, a call or a number, else in brackets."""
    return words if words.replace("$", "").replace("_", "").replace(".", "").isalnum() else f"({words})"


def _cell(node: ast.expr, values: Mapping[str, str], of_arrays: bool) -> str:
    match node:
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=value):
            return str(value)
        case ast.BinOp(left=left, op=op, right=right):
            return f"({_cell(left, values, of_arrays)}{_BINARY[type(op)]}{_cell(right, values, of_arrays)})"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"(-{_cell(operand, values, of_arrays)})"
        case ast.IfExp(test=ast.Compare(left=left, comparators=[right]), body=body, orelse=orelse):
            parts = [_cell(part, values, of_arrays) for part in (left, right, body, orelse)]
            return f"IF({parts[0]}={parts[1]},{parts[2]},{parts[3]})"
        case ast.Call(func=ast.Name(id=name), args=args):
            given = [_cell(argument, values, of_arrays) for argument in args]
            if name == "max" and of_arrays:
                return _larger(*given)
            if name in _FUNCTIONS:
                return f"{_FUNCTIONS[name]}({','.join(given)})"
            if name == "ceil":
                return f"ROUNDUP({given[0]},0)"
            if name == "ceil_guarded":
                guarded = _larger("1", given[0]) if of_arrays else f"MAX(1,{given[0]})"
                return f"ROUNDUP({given[0]}-{_GUARD}*{guarded},0)"
            return _cell(_expression(name), dict(zip(_parameters(name), given, strict=True)), of_arrays)
    raise TypeError(f"a formula cannot hold {ast.dump(node)}")


def _larger(one: str, other: str) -> str:
    """Print the larger of two values for each element of an array, of which MAX would make one number."""
    return f"({other}+({one}>{other})*({one}-{other}))"


def script() -> str:
    """Print every formula as a function of the page's script, in one object named `formulas`."""
    names = [name for name, function in inspect.getmembers(formulas, inspect.isfunction) if _is_own(function, formulas)]
    lines = [f"  {name}: ({', '.join(_parameters(name))}) => {_javascript(_expression(name))}," for name in names]
    return "const formulas = {\n" + "\n".join(lines) + "\n};\n"


def _is_own(function: Callable[..., float], module: ModuleType) -> bool:
    return function.__module__ == module.__name__


def _javascript(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=value):
            return str(value)
        case ast.BinOp(left=left, op=op, right=right):
            return f"({_javascript(left)} {_BINARY[type(op)]} {_javascript(right)})"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"(-{_javascript(operand)})"
        case ast.IfExp(test=ast.Compare(left=left, comparators=[right]), body=body, orelse=orelse):
            test = f"{_javascript(left)} === {_javascript(right)}"
            return f"({test} ? {_javascript(body)} : {_javascript(orelse)})"
        case ast.Call(func=ast.Name(id=name), args=args):
            given = ", ".join(_javascript(argument) for argument in args)
            return f"{_SCRIPTED.get(name, f'formulas.{name}')}({given})"
    raise TypeError(f"a formula cannot hold {ast.dump(node)}")
