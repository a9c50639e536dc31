"""A small image classifier, to plan as `examples/net.py:Net --input x=3x224x224`."""

from itertools import pairwise

import torch
from torch import nn


class Net(nn.Module):
    """Three strided convolutions, global pooling and a linear classifier."""

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__()
        channels = (3, width, 2 * width, 4 * width)
        self.stages = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU())
                for before, after in pairwise(channels)
            )
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images [batch, 3, height, width] to scores [batch, classes]."""
        return self.head(self.stages(x).mean(dim=(2, 3)))
