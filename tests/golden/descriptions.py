"""What capplan says about itself: schemas, signatures and stubs."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from typer.main import get_command

import capplan
import capplan.llm
from capplan.cli.main import app
from tests.golden.documents import parquet_columns
from tests.golden.world import masked, transcript, world


def _schema(name: str) -> Callable[[], str]:
    def printed() -> str:
        with world():
            return transcript(f"schema {name}")

    return printed


def _faces(module: ModuleType) -> str:
    """Return everything public of a module: functions with their signatures, classes with those of their methods."""
    names = {each.name for each in ast.parse(_stub(module)).body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    names = {name for name in names if hasattr(module, name)} | set(getattr(module, "__all__", ()))
    assert len(names) > 5
    return masked("\n".join(_described(module, name) for name in sorted(names)) + "\n")


def _described(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    if inspect.isclass(value):
        return "\n".join([f"class {name}{_signature(value)}", *(f"    {line}" for line in _members(value))])
    if callable(value):
        return f"def {name}{_signature(value)}"
    return f"{name}: {type(value).__name__}"


def _members(kind: type[Any]) -> Iterator[str]:
    for name, value in sorted(vars(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"{name}: property"
        elif callable(value) or isinstance(value, classmethod | staticmethod):
            yield f"def {name}{_signature(getattr(kind, name))}"


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return "(...)"
    spelled = _MODULES.sub("", str(signature))
    parameters = [_MODULES.sub("", str(each)) for each in signature.parameters.values()]
    return spelled if len(spelled) < LONG else "\n        ".join(["", *parameters])


def _stub(module: ModuleType) -> str:
    """Return the stub that editors read, without where a name lies and what the types of answers are called."""
    assert module.__file__ is not None
    text = Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(("from capplan", "class _"))]
    return re.sub(r"-> _\w+Shown", "-> Answer", "".join(lines))


_MODULES = re.compile(r"\b(?:capplan|collections\.abc|typing|pathlib|msgspec)\.(?:[a-z_]+\.)*(?=\w)")
"""Where the classes of a signature lie, which is no part of it."""
LONG = 100
"""Characters from which on a signature has a line for each parameter."""
SCHEMAS = (
    "analyze",
    "cache",
    "calibrate-device",
    "calibrate-host",
    "check",
    "compare",
    "config",
    "diff",
    "estimate",
    "gpus",
    "gpus-detect",
    "gpus-show",
    "llm-estimate",
    "llm-fleet",
    "llm-memory",
    "llm-models",
    "llm-support",
    "llm-plan",
    "llm-report",
    "llm-scale",
    "llm-simulate",
    "llm-start",
    "llm-train-estimate",
    "llm-train-memory",
    "llm-train-plan",
    "llm-train-validate",
    "llm-validate",
    "measure",
    "measure-compare",
    "measure-pipeline",
    "memory",
    "plan",
    "prices",
    "report",
    "sweep",
    "validate",
)
"""The documents; the case schema/names shows where one is missing here."""


def _help() -> str:
    """Return the help of every command, as a terminal of 80 columns shows it."""
    with world():
        root = get_command(app)
        return "\n".join(_helps(root, typer.Context(root, info_name="capplan"), ""))


def _helps(command: Any, context: Any, words: str) -> Iterator[str]:
    yield transcript(f"80> {words} --help".replace(">  ", "> "))
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        yield from _helps(below, typer.Context(below, info_name=name, parent=context), f"{words} {name}".strip())


def _columns(definition: str) -> Callable[[], str]:
    def listed() -> str:
        with world() as folder:
            transcript(f"sweep {definition} -o out --workers 1 --progress none")
            files = sorted((folder / "out").rglob("*.parquet"))
            assert files
            return parquet_columns(files[0])

    return listed


DESCRIPTIONS: Mapping[str, Callable[[], str]] = {
    **{f"schema/{name}": _schema(name) for name in SCHEMAS},
    "help/all": _help,
    "sweep/columns": _columns("sweep.yaml"),
    "python/capplan": lambda: _faces(capplan),
    "python/capplan-llm": lambda: _faces(capplan.llm),
    "python/capplan.pyi": lambda: _stub(capplan),
    "python/capplan-llm.pyi": lambda: _stub(capplan.llm),
}
"""What makes each description, by its name."""
