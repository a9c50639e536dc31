"""The rules of the house: which way imports run, and what a command may load."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import capplan

PACKAGE = Path(capplan.__file__).parent
LOWER = {
    "errors": set(),
    "units": {"errors"},
    "core": {"core", "units", "errors"},
    "specs": {"specs", "core", "units", "errors"},
    "probe": {"probe", "core", "units", "errors"},
    "report": {"report", "core", "units", "errors"},
    "cli": {"cli", "specs", "probe", "report", "core", "units", "errors"},
}
DOORS = {
    "torch": {"probe"},
    "thop": {"probe"},
    "fvcore": {"probe"},
    "timm": {"probe"},
    "torchvision": {"probe"},
    "transformers": {"probe"},
    "pynvml": {"probe"},
    "yaml": {"specs"},
    "pydantic": {"specs"},
    "typer": {"cli"},
    "pandas": {"report", "cli", "specs"},
    "numpy": {"core", "probe", "report"},
    "xlsxwriter": {"report"},
    "jinja2": {"report"},
    "typst": {"report"},
}


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE or path.stem != "__init__"]


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_down(path: Path) -> None:
    for name, _ in imports(path):
        parts = name.split(".")
        if parts[0] == "capplan" and len(parts) > 1:
            assert parts[1] in LOWER[layer(path)], f"{path.name} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_each_package_has_its_doors(path: Path) -> None:
    for name, _ in imports(path):
        package = name.split(".")[0]
        assert layer(path) in DOORS.get(package, {layer(path)}), f"{path.name} imports {name}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda path: path.stem)
def test_core_is_pure(path: Path) -> None:
    impure = {"os", "pathlib", "time", "logging", "sys", "subprocess", "random", "io", "tempfile"}
    assert not impure & {name.split(".")[0] for name, _ in imports(path)}
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not {"print", "open", "input"} & {call.id for call in calls if isinstance(call, ast.Name)}


def loaded_by(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom capplan.cli.main import app\n"
        f"try:\n    app({list(arguments)!r})\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "sys.stderr.write('LOADED ' + ' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("LOADED ")[2].split())


@pytest.mark.parametrize("arguments", [("--help",), ("plan", "--help"), ("gpus",)])
def test_light_commands_load_neither_torch_nor_pandas_nor_numpy(arguments: tuple[str, ...]) -> None:
    assert not {"torch", "pandas", "numpy"} & loaded_by(*arguments)
