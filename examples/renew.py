"""Make the README's worked example and the example plans and reports anew, with the data that ships now.

Run `python examples/renew.py` after a refit, a change of prices or a wanted change of output, and read the diff. It
needs the extra `zoo`, because it traces ResNet-50.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
README = FOLDER.parent / "README.md"
EXAMPLE = re.compile(
    r"(?<=<!-- example -->\n```text\n)\$ (?P<command>capplan [^\n]+)\n(?P<output>.*?)(?=```)", re.DOTALL
)
"""The worked example in the README: a command, and what it prints."""

_GPUS = "--gpu t4 --gpu l4 --gpu a10g --gpu a100-sxm4-80gb --gpu h100-sxm5-80gb"
PLANS = {
    "resnet50.plan.json": f"plan torchvision:resnet50 --precision fp16 --batch 1..64 --energy {_GPUS}",
    "resnet50-training.plan.json": (
        f"plan torchvision:resnet50 --precision amp-fp16 --train --optimizer momentum --batch 32..256 --energy {_GPUS}"
    ),
}
"""The saved plans, and the command that makes each."""

_REPORT = "--provider aws --provider gcp --load"
_BERT = f"plan hf:bert --seq-len 128 --precision fp16 --batch 1..64 --energy {_GPUS}"
PLANS["bert.plan.json"] = _BERT
PLANS["flux-schnell.plan.json"] = (
    "plan diffusers:black-forest-labs/FLUX.1-schnell --batch 1,2,4,8 --energy --gpu l40s,a100-sxm4-80gb,h100-sxm5-80gb"
)
REPORTS = {
    "image-service": f"report resnet50.plan.json --batch 1..64 {_REPORT} image-service.load.yaml",
    "nightly-job": f"report resnet50.plan.json --batch 1..64 {_REPORT} nightly-job.load.yaml",
    "embedding-service": f"report bert.plan.json --batch 1..64 {_REPORT} embedding-service.load.yaml",
    "three-services": f"report --batch 1..64 {_REPORT} three-services.load.yaml",
    "text-to-image": f"report flux-schnell.plan.json --batch 1..8 {_REPORT} text-to-image.load.yaml",
    "training": f"report resnet50-training.plan.json --batch 32..256 {_REPORT} training.load.yaml",
}
"""The reports by name, and the command that makes each, run in this folder."""

DAY = "1795219200"
"""The day that the reports bear, 2026-11-21, in seconds since 1970."""


def run(command: str) -> str:
    """Run a capplan command in this folder and return what it prints."""
    words = [sys.executable, "-m", "capplan", *shlex.split(command)]
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd=FOLDER).stdout


def main() -> None:
    """Make everything anew."""
    os.environ["SOURCE_DATE_EPOCH"] = DAY
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    for file, command in PLANS.items():
        (FOLDER / file).write_text(run(f"{command} --format json"))
    for name, command in REPORTS.items():
        (FOLDER / f"{name}.report.md").write_text(run(command))
    text = README.read_text()
    README.write_text(EXAMPLE.sub(lambda found: f"$ {found['command']}\n{run(found['command'][8:])}", text, count=1))


if __name__ == "__main__":
    main()
