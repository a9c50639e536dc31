"""Two models with CPU work between, to time as `capplan measure --pipeline examples/pipeline.py:stages --batch 8`.

The CPU work (cutting crops out of the next frames) does not need what the first model computes, so a host that is
left free does it while the device works; a host that waits for the device after every stage cannot.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

FRAME, CROP = 256, 64


def detector() -> nn.Module:
    """A fully convolutional network: frames [batch, 3, 256, 256] to score maps [batch, 1, 32, 32]."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=4, padding=2), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(64, 1, 1),
    ).eval()  # fmt: skip


def classifier() -> nn.Module:
    """A small classifier: crops [batch, 3, 64, 64] to scores [batch, 10]."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    ).eval()  # fmt: skip


def stages(batch: int, device: torch.device) -> list[tuple[str, Callable[..., Any]]]:
    """Name the stages in order; each takes what the one before returned."""
    detect, classify = detector().to(device), classifier().to(device)
    frames = torch.rand(batch, 3, FRAME, FRAME)
    on_device = frames.to(device)

    def detecting() -> torch.Tensor:
        return detect(on_device).amax(dim=(2, 3))

    def cutting(confidence: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        corners = range(0, FRAME - CROP, CROP)
        crops = [frames[:, :, top : top + CROP, left : left + CROP].flip(-1) for top in corners for left in corners]
        prepared = torch.stack(crops).mean(dim=0)
        return confidence, prepared.to(device, non_blocking=True)

    def classifying(found: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        confidence, crops = found
        return classify(crops) * confidence

    return [("detect", detecting), ("cut (CPU)", cutting), ("classify", classifying)]
