"""Last uses of local names, so that tensors are freed where TorchScript's own executor frees them.

TorchScript moves a value out of its register at its last use. A name that lives until its function returns would
count activations that are long gone.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from capplan.probe.torchscript.archive import ScriptFunction


@dataclass(slots=True)
class LastUses:
    """Names by the statement (its id) that uses them last.

    `moved` are taken away while the statement's value is computed, because it reads them once; `dropped` are taken
    away before it (a branch that does not read them) or after it.
    """

    moved: dict[int, frozenset[str]] = field(default_factory=dict)
    dropped_before: dict[int, frozenset[str]] = field(default_factory=dict)
    dropped_after: dict[int, frozenset[str]] = field(default_factory=dict)


def find_last_uses(function: ScriptFunction) -> LastUses:
    """Find where each local name of a function is used last."""
    found = LastUses()
    _block(function.body, frozenset(), found, in_loop=frozenset())
    return found


def _block(
    statements: Sequence[ast.stmt], live: frozenset[str], found: LastUses, *, in_loop: frozenset[str]
) -> frozenset[str]:
    """Walk a block backwards from the names that are live behind it, and return those that are live before it."""
    for statement in reversed(statements):
        live = _statement(statement, live, found, in_loop)
    return live


def _statement(statement: ast.stmt, live: frozenset[str], found: LastUses, in_loop: frozenset[str]) -> frozenset[str]:
    if isinstance(statement, ast.If):
        before = [_block(branch, live, found, in_loop=in_loop) for branch in (statement.body, statement.orelse)]
        needed = before[0] | before[1]
        for branch, own in zip((statement.body, statement.orelse), before, strict=True):
            if branch:
                found.dropped_before[id(branch[0])] = frozenset(needed - own - in_loop)
        tested, _ = _names(statement.test)
        return needed | tested.keys()
    loads, stores = _names(statement)
    if isinstance(statement, ast.For | ast.While):
        kept = live | loads.keys() | in_loop
        _block(statement.body, kept, found, in_loop=kept)
        found.dropped_after[id(statement)] = frozenset((loads.keys() | stores) - live - in_loop)
        return live | loads.keys()
    if isinstance(statement, ast.With):
        return _block(statement.body, live, found, in_loop=in_loop) | loads.keys()
    dead = frozenset((loads.keys() | stores) - live - in_loop)
    found.moved[id(statement)] = frozenset(name for name in dead if loads.get(name) == 1)
    found.dropped_after[id(statement)] = dead
    return (live - stores) | loads.keys()


def _names(node: ast.AST) -> tuple[dict[str, int], frozenset[str]]:
    """Return the names that a statement reads, with how often, and those that it sets."""
    loads: dict[str, int] = {}
    stores: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            if isinstance(part.ctx, ast.Load):
                loads[part.id] = loads.get(part.id, 0) + 1
            else:
                stores.add(part.id)
    return loads, frozenset(stores)
