"""The GPU database and the licence travel in the wheel."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import capplan
from capplan.specs import load_gpus
from capplan.specs.folders import built_in_folder

pytestmark = pytest.mark.slow

CHECKOUT = Path(capplan.__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that a wheel of this checkout was unpacked into, as an installer does."""
    if not (CHECKOUT / "pyproject.toml").is_file():
        pytest.skip("not run from a checkout")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    for folder in ("capplan", "gpu_specs"):
        shutil.copytree(CHECKOUT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / file, source)
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--skip-dependency-check",
        "-o",
        str(target),
        str(source),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def test_every_module_and_every_spec_file_is_in_it(installed: Path) -> None:
    for module in (CHECKOUT / "capplan").rglob("*.py"):
        assert (installed / module.relative_to(CHECKOUT)).is_file()
    files = {path.relative_to(built_in_folder()) for path in built_in_folder().rglob("*.*")}
    folder = installed / "capplan" / "gpu_specs"
    assert {path.relative_to(folder) for path in folder.rglob("*.*")} == files


def test_models_calibrations_and_schemas_are_in_it(installed: Path) -> None:
    for folder in ("llm_models", "calibrations", "schemas"):
        files = {path.name for path in (CHECKOUT / "capplan" / folder).iterdir()}
        assert files
        assert {path.name for path in (installed / "capplan" / folder).iterdir()} == files


def test_the_licence_is_in_it(installed: Path) -> None:
    (metadata,) = installed.glob("*.dist-info")
    assert (metadata / "licenses" / "LICENSE").read_text() == (CHECKOUT / "LICENSE").read_text()
    assert "License-Expression: Apache-2.0" in (metadata / "METADATA").read_text().splitlines()


def test_the_installed_command_plans_from_a_trace(installed: Path, tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); from capplan.cli.main import app; app(sys.argv[1:])"
    net, trace = f"{CHECKOUT / 'examples' / 'net.py'}:Net", str(tmp_path / "net.trace.json")
    for words in (["trace", net, "--input", "3x64x64", "-o", trace], ["plan", trace, "--batch", "8", "--json"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], check=True, capture_output=True, text=True, cwd=installed
        )
    plan = json.loads(done.stdout)
    assert {each["gpu"] for each in plan["fits"] + plan["rejections"]} == set(load_gpus())


def test_the_installed_command_lists_every_gpu(installed: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); from capplan.cli.main import app; app(sys.argv[1:])"
    listed = subprocess.run(
        [sys.executable, "-c", code, "gpus", "-q"], check=True, capture_output=True, text=True, cwd=installed
    )
    assert listed.stdout.split() == list(load_gpus())
    path = subprocess.run([sys.executable, "-c", code, "gpus", "path"], check=True, capture_output=True, text=True)
    assert path.stdout.strip() == str(installed / "capplan" / "gpu_specs")
