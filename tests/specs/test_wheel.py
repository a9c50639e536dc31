"""The wheel and the source distribution: what is in them, and what they answer in an empty environment."""

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import capplan
from capplan.core.gpus.sale import is_announced
from capplan.specs import load_gpus
from capplan.specs.folders import built_in_folder

pytestmark = pytest.mark.slow

CHECKOUT = Path(capplan.__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source distribution of this checkout and the wheel that was built from it."""
    if not (CHECKOUT / "pyproject.toml").is_file():
        pytest.skip("not run from a checkout")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for folder in ("capplan", "gpu_specs", "docs"):
        shutil.copytree(CHECKOUT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / file, source)
    words = ["-m", "build", "--no-isolation", "--skip-dependency-check", "-o", str(target), str(source)]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return target


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel was unpacked into, as an installer does."""
    target = tmp_path_factory.mktemp("target")
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


@pytest.mark.zoo
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
@pytest.mark.nightly
def test_it_answers_in_an_empty_environment(kind: str, built: Path, tmp_path: Path) -> None:
    """The environment borrows the installed dependencies, so that nothing is downloaded; capplan is its own."""
    (distribution,) = built.glob(kind)
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    folders = [folder for folder in sys.path if folder.endswith("-packages")]
    (site / "borrowed.pth").write_text("".join(f"{folder}\n" for folder in folders))
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--ignore-installed",
    ]
    subprocess.run([*install, str(distribution)], check=True, capture_output=True, cwd=tmp_path)
    command = home / "bin" / "capplan"
    planned = subprocess.run(
        [command, "plan", "resnet50", "--batch", "32"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert "25.6 M parameters, 8.18 GFLOP" in planned.stdout  # 25,557,032 and 2 · 4,089,184,256, as published
    assert "Take" in planned.stdout
    listed = subprocess.run([command, "gpus", "-q"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert listed.stdout.split() == list(load_gpus())
    where = subprocess.run([command, "gpus", "path"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert where.stdout.strip() == str(site / "capplan" / "gpu_specs")


def test_every_module_and_every_spec_file_is_in_it(installed: Path) -> None:
    for module in (CHECKOUT / "capplan").rglob("*.py"):
        assert (installed / module.relative_to(CHECKOUT)).is_file()
    files = {path.relative_to(built_in_folder()) for path in built_in_folder().rglob("*.*")}
    folder = installed / "capplan" / "gpu_specs"
    assert {path.relative_to(folder) for path in folder.rglob("*.*")} == files


def test_models_and_calibrations_are_in_it(installed: Path) -> None:
    for folder in ("llm_models", "calibrations"):
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
    assert {each["gpu"] for each in plan["fits"] + plan["rejections"]} == {
        gpu.id for gpu in load_gpus().values() if not is_announced(gpu)
    }
