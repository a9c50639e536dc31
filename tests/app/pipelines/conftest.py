"""A pipeline of small models of torch alone, in files."""

from pathlib import Path

import pytest

MODEL = """
import torch


class Mixer(torch.nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.inner = torch.nn.Linear(width, 4 * width)
        self.outer = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.outer(torch.nn.functional.gelu(self.inner(x)))
"""
PIPELINE = """
name: tiny
item: image
precision: fp16
parameters: {tokens: 256, steps: 20, passes: 2}
parts:
  encoder:
    model: mixer.py:Mixer
    inputs: ["x=77x64"]
  denoiser:
    model: mixer.py:Mixer
    arguments: {width: 128}
    inputs: ["x={tokens}x128"]
    times: steps
    samples: passes
  decoder:
    model: mixer.py:Mixer
    inputs: ["x={tokens * 4}x64"]
"""


@pytest.fixture
def pipeline_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a pipeline's file beside the code of its parts; the folder is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPPLAN_CACHE", "off")
    (tmp_path / "mixer.py").write_text(MODEL, encoding="utf-8")
    path = tmp_path / "tiny.pipeline.yaml"
    path.write_text(PIPELINE, encoding="utf-8")
    return path
