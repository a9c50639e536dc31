"""The list of a release's parts, and the oldest releases that are tried."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import noxfile

ROOT = Path(__file__).parents[2]


def test_every_part_of_a_release_has_a_version_and_a_licence(tmp_path: Path) -> None:
    target = tmp_path / "parts.json"
    subprocess.run([sys.executable, ROOT / ".ci" / "parts.py", target], check=True, cwd=ROOT, capture_output=True)
    written = json.loads(target.read_text())
    parts = {part["name"]: part for part in written["components"]}
    assert (written["bomFormat"], written["specVersion"]) == ("CycloneDX", "1.6")
    assert len(parts) >= 25
    # torch, numpy and typer state their licences themselves: BSD-3-Clause and MIT
    assert {"torch", "numpy", "typer", "pandas", "msgspec"} <= set(parts)
    assert "BSD" in parts["torch"]["licenses"][0]["license"]["name"]
    assert parts["typer"]["licenses"][0]["license"]["name"] == "MIT"
    assert [name for name, part in parts.items() if "licenses" not in part] == []
    assert all(part["purl"] == f"pkg:pypi/{name}@{part['version']}" for name, part in parts.items())


def test_the_oldest_releases_are_the_lower_bounds() -> None:
    project = 'dependencies = ["torch>=2.9", "setuptools<81"]\noptional-dependencies = {zoo = ["timm>=1.0.15"], '
    project += ", ".join(f"{name} = []" for name in ("report", "measure", "sweep", "serve", "onnx")) + "}"
    assert noxfile.oldest_releases(f"[project]\n{project}") == ["timm==1.0.15.*", "torch==2.9.*"]


@pytest.mark.parametrize("name", ["torch", "timm"])
def test_the_bounds_of_this_project_are_read(name: str) -> None:
    releases = noxfile.oldest_releases((ROOT / "pyproject.toml").read_text())
    assert len(releases) >= 25
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+\*", release) for release in releases)
    assert any(release.startswith(f"{name}==") for release in releases)
