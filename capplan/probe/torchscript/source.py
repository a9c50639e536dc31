"""The sources of a TorchScript archive, parsed: classes and functions by their qualified names.

TorchScript writes its code in Python's grammar, so that Python's own parser reads it; nothing is compiled or run.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capplan.errors import UsageError

MOST_MARKS = 400_000
"""Most line ends (twice), brackets, commas, dots and equals signs of an archive's sources. Parsing takes about 2 µs and
500 bytes for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFunction:
    """One function or method: parameters in order, the defaults of the last of them, and the statements."""

    name: str
    parameters: tuple[str, ...]
    defaults: tuple[ast.expr, ...]
    body: tuple[ast.stmt, ...]
    annotations: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptClass:
    """One class: kind of base (`Module`, `NamedTuple`, `Enum` or another), names of parameters and other attributes."""

    name: str
    base: str
    parameters: frozenset[str] = frozenset()
    buffers: frozenset[str] = frozenset()
    attributes: tuple[str, ...] = ()
    constants: Mapping[str, ast.expr] = field(default_factory=dict)
    methods: Mapping[str, ScriptFunction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All classes and functions of an archive."""

    classes: Mapping[str, ScriptClass]
    functions: Mapping[str, ScriptFunction]


def parse_sources(sources: Mapping[str, str], *, where: str) -> Sources:
    """Parse an archive's source files.

    Args:
        sources: texts by module name.
        where: the archive, for messages.

    Raises:
        UsageError: a file is not in the grammar; the message names file and line.
    """
    marks = sum(text.count(mark) for text in sources.values() for mark in "\n\n(,=.[")
    if marks > MOST_MARKS:
        raise UsageError(f"{where}: its sources hold more than {MOST_MARKS:,} statements and calls, the most read.")
    classes: dict[str, ScriptClass] = {}
    functions: dict[str, ScriptFunction] = {}
    for module, text in sources.items():
        for statement in _parse(module, text, where).body:
            if isinstance(statement, ast.ClassDef):
                name = f"{module}.{statement.name}"
                classes[name] = _class(name, statement)
            elif isinstance(statement, ast.FunctionDef):
                name = f"{module}.{statement.name}"
                functions[name] = _function(name, statement)
    return Sources(classes=classes, functions=functions)


def _parse(module: str, text: str, where: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"{where}: code/{module.replace('.', '/')}.py, line {error.lineno}: {error.msg}.") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise UsageError(f"{where}: code/{module.replace('.', '/')}.py cannot be parsed ({error}).") from error


def _class(name: str, statement: ast.ClassDef) -> ScriptClass:
    base = statement.bases[0].id if statement.bases and isinstance(statement.bases[0], ast.Name) else ""
    attributes: list[str] = []
    constants: dict[str, ast.expr] = {}
    methods: dict[str, ScriptFunction] = {}
    listed: dict[str, frozenset[str]] = {}
    for each in statement.body:
        if isinstance(each, ast.FunctionDef):
            methods[each.name] = _function(f"{name}.{each.name}", each)
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            listed[each.targets[0].id] = _names(each.value)
            if base == "Enum":
                constants[each.targets[0].id] = each.value
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            attributes.append(each.target.id)
            if each.value is not None:
                constants[each.target.id] = each.value
    return ScriptClass(
        name=name,
        base=base,
        parameters=listed.get("__parameters__", frozenset()),
        buffers=listed.get("__buffers__", frozenset()),
        attributes=tuple(attributes),
        constants=constants,
        methods=methods,
    )


def _names(value: ast.expr) -> frozenset[str]:
    items: list[Any] = value.elts if isinstance(value, ast.List) else []
    return frozenset(str(item.value) for item in items if isinstance(item, ast.Constant))


def _function(name: str, statement: ast.FunctionDef) -> ScriptFunction:
    given = statement.args
    return ScriptFunction(
        name=name,
        parameters=tuple(argument.arg for argument in given.args),
        defaults=tuple(given.defaults),
        body=tuple(statement.body),
        annotations=tuple("" if each.annotation is None else ast.unparse(each.annotation) for each in given.args),
    )
