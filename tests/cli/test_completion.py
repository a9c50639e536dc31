"""What shells offer: GPU ids, the next of a list, and names of library models."""

import os
import subprocess
import sys

import pytest

from capplan.cli.prompts import complete_gpus, complete_models


def test_gpu_ids_are_completed() -> None:
    assert [each for each, _ in complete_gpus("a100-sxm")] == ["a100-sxm4-40gb", "a100-sxm4-80gb"]
    assert dict(complete_gpus("l4"))["l4"] == "NVIDIA L4"


def test_after_a_comma_the_next_gpu_is_completed() -> None:
    assert [each for each, _ in complete_gpus("t4,a100-sxm4-8")] == ["t4,a100-sxm4-80gb"]


@pytest.mark.zoo
def test_model_names_are_completed() -> None:
    assert "resnet50" in complete_models("resnet5")
    assert "timm:vit_base_patch16_224" in complete_models("timm:vit_base_patch16_2")
    assert complete_models("hf:b") == []


CALL = """
import atexit, sys
sys.argv = ["capplan"]
from capplan.cli.main import app
atexit.register(lambda: print("torch" in sys.modules, file=sys.stderr))
app(prog_name="capplan")
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_served_without_torch(shell: str) -> None:
    words = "capplan plan resnet50 --gpu h200-s"
    variables = {
        "_CAPPLAN_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": words,
        "COMP_CWORD": "4",
    }
    found = subprocess.run(
        [sys.executable, "-c", CALL], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert "h200-sxm-141gb" in found.stdout
    assert found.stderr.strip().endswith("False")
