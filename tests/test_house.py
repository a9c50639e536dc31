"""The layout of the package: import rules, the length of functions, and what a light command may load."""

import ast
import re
import subprocess
import symtable
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import capplan
from tests.groups import GROUPS
from tests.seen import at_least

PACKAGE = Path(capplan.__file__).parent
TORCH_SIGNATURES = {"attend", "encoder_layer", "multi_head_attention", "_convolution"}
"""Functions that stand in for PyTorch's own, with PyTorch's parameters."""


Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def modules() -> tuple[Path, ...]:
    return tuple(at_least(300, PACKAGE.rglob("*.py")))


@cache
def definitions() -> tuple[tuple[Path, Function | ast.ClassDef], ...]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple((path, node) for path in modules() for node in ast.walk(parsed(path)) if isinstance(node, kinds))


def functions() -> list[tuple[Path, Function]]:
    return at_least(3000, ((path, node) for path, node in definitions() if isinstance(node, Function)))


def classes() -> list[tuple[Path, ast.ClassDef]]:
    return at_least(500, ((path, node) for path, node in definitions() if isinstance(node, ast.ClassDef)))


def lines_of(function: Function) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


LONG_LOOPS = {"_run"}
"""The allocator's replay is one loop, because a call for each event would double its time."""


def test_functions_fit_on_a_screen() -> None:
    long = {
        f"{path.relative_to(PACKAGE)}: {function.name}": lines_of(function)
        for path, function in functions()
        if lines_of(function) > 75 and function.name not in LONG_LOOPS
    }
    assert long == {}


def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from tables(child)


@pytest.mark.slow
def test_no_comprehension_takes_a_name_of_an_enclosing_function() -> None:
    """Python 3.12 runs a comprehension in its function's frame, and then loses the value that the name had outside.

    `def f(): ones = (t for _ in "ab"); return [t for t in ones]` inside a function with its own `t` is a NameError
    there when `ones` is read, as `--power-limit` was under Python 3.13.
    """
    clashes = []
    for path in modules():
        for table in tables(symtable.symtable(path.read_text(), str(path), "exec")):
            outer = set(table.get_frees()) if isinstance(table, symtable.Function) else set()
            for inner in table.get_children() if outer else ():
                names = {symbol.get_name() for symbol in inner.get_symbols() if symbol.is_local()} & outer
                if names and inner.get_name() in ("listcomp", "setcomp", "dictcomp"):
                    clashes.append(f"{path.relative_to(PACKAGE)}:{inner.get_lineno()}: {', '.join(sorted(names))}")
    assert clashes == []


def test_no_field_has_the_name_of_a_type_that_its_class_names() -> None:
    """Python 3.14 reads annotations after the class is made: `date: date` names the field there, not the type."""
    clashes = []
    for path, node in classes():
        fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
        names = {field.target.id for field in fields if isinstance(field.target, ast.Name)}
        typed = {name.id for field in fields for name in ast.walk(field.annotation) if isinstance(name, ast.Name)}
        clashes += [f"{path.relative_to(PACKAGE)}: {node.name}.{name}" for name in names & typed]
    assert clashes == []


def test_functions_take_few_parameters() -> None:
    """Options of commands aside, which typer reads from signatures."""
    counts = {
        f"{path.relative_to(PACKAGE)}: {function.name}": len(
            (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        )
        for path, function in functions()
        if path.relative_to(PACKAGE).parts[0] != "cli" and function.name not in TORCH_SIGNATURES
    }
    assert {name: count for name, count in counts.items() if count > 8} == {}


def test_commands_turn_words_into_a_request_and_render_the_answer() -> None:
    """What a command that asks no verb does, its options and help aside, takes at most 40 lines."""
    nodes = parsed(PACKAGE / "cli" / "own_commands.py").body
    commands = [node for node in nodes if isinstance(node, Function) and not node.name.startswith("_")]
    lines = {node.name: (node.end_lineno or 0) - node.body[1].lineno + 1 for node in at_least(3, commands)}
    assert {name: count for name, count in lines.items() if count > 40} == {}


LINES = {
    "api": 1120, "app": 10920, "cli": 2095, "core": 29264, "hub": 664, "llm": 24420, "probe": 18621, "processes": 824,
    "report": 13460, "serve": 6800, "shapes": 4364, "specs": 7684, "verbs": 12020,
}  # fmt: skip
"""The most lines that the modules of a package may have; a package that needs more says why where it raises this.

Deciding on what serves a model came from `report` to `app`; columns of tables went from `report` to `shapes` and
`verbs`; `files` puts the files of one answer in place together; `core` writes launch files for every kind of plan;
`llm` knows tables of n-grams, shared compressed rows and SGLang's split pools, `verbs` the buyer's terms of serving.
`probe` times the start of a model; `core` holds a delivered card's kernels to the laws of its kind, fuses joined
branches in TensorRT, and doubts old releases of PyTorch on new chips. What these took, `llm` gave up.
"""
CLASSES = 1401
"""The most classes of the whole program."""


def test_packages_keep_their_budgets() -> None:
    lines: Counter[str] = Counter()
    for path in at_least(500, modules()):
        package = path.relative_to(PACKAGE).parts[0]
        lines[package if package in LINES else "top"] += len(path.read_text().splitlines())
    assert {package: count for package, count in lines.items() if count > LINES.get(package, 1510)} == {}
    assert len(classes()) <= CLASSES


def test_no_class_name_stands_twice() -> None:
    """One name, one meaning: whoever reads it in a message, a schema or an import knows what it is."""
    counts = Counter(node.name for _, node in classes())
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_folder_of_modules_is_a_package_so_that_the_wheel_finds_it() -> None:
    folders = {path.parent for path in modules()}
    assert {str(folder) for folder in folders if not (folder / "__init__.py").is_file()} == set()


def test_tests_lie_in_folders_named_after_the_packages_they_test() -> None:
    tests = Path(__file__).parent
    layers = ("app", "core", "llm", "probe", "report", "specs")
    folders = {path.parent.relative_to(tests) for layer in layers for path in (tests / layer).rglob("test_*.py")}
    at_least(30, folders)
    assert {str(folder) for folder in folders if not (PACKAGE / folder).is_dir()} == set()


def test_groups_of_tests_name_files_that_there_are() -> None:
    files = at_least(20, (file for files in GROUPS.values() for file in files))
    assert [file for file in files if not (Path(__file__).parent / file).is_file()] == []


def test_recipes_of_nox_name_tests_that_there_are() -> None:
    root = PACKAGE.parent
    named = re.findall(r'"(tests/[^"]*)"', (root / "noxfile.py").read_text())
    assert [path for path in at_least(4, named) if not (root / path).exists()] == []


def test_import_contracts_of_pyproject_hold() -> None:
    """Layers, forbidden third-party imports and acyclic siblings, as import-linter finds them."""
    lint = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
        "--no-cache",
    ]
    done = subprocess.run(lint, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def loaded_by(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom capplan.cli.main import app\n"
        f"try:\n    app({list(arguments)!r})\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "sys.stderr.write('LOADED ' + ' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(at_least(100, done.stderr.rpartition("LOADED ")[2].split()))


@pytest.mark.parametrize(
    "arguments", [("--help",), ("plan", "--help"), ("llm", "--help"), ("llm", "plan", "--help"), ("gpus",)]
)
def test_light_commands_load_neither_torch_nor_pandas_nor_numpy_nor_http(arguments: tuple[str, ...]) -> None:
    assert not {"torch", "pandas", "numpy", "http.client"} & loaded_by(*arguments)
