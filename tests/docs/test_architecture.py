"""The page on the architecture shows the layers that import-linter holds."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_the_picture_has_the_layers_of_the_contract() -> None:
    layers = next(contract["layers"] for contract in CONTRACTS if "capplan.cli" in contract.get("layers", ()))
    assert len(layers) >= 10
    page = (ROOT / "docs" / "architecture.md").read_text()
    picture = page.partition("## Layers")[2].split("```")[1]
    drawn = re.findall(r"^(\S+(?: \| \S+)*)(?:\s{2,}.*)?$", picture.partition("\n")[2], re.MULTILINE)
    assert drawn == [layer.replace("capplan.", "") for layer in layers]
