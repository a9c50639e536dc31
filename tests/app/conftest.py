"""Models for the use cases: one that scales with the batch, one that does not; both count how often they are built."""

from pathlib import Path

import pytest

NETS = '''
from pathlib import Path

import torch

BUILT = Path(__file__).with_suffix(".built")


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        BUILT.write_text(f"{int(BUILT.read_text()) + 1 if BUILT.exists() else 1}")
        self.layer = torch.nn.Linear(8, 8)


class Even(Counted):
    def forward(self, x):
        return self.layer(x)


class Square(Counted):
    """Its Gram matrix has batch × batch elements: no linear function of the batch."""

    def forward(self, x):
        y = self.layer(x)
        return y @ y.T


class Odd(Counted):
    def forward(self, x):
        y = self.layer(x)
        return torch.conv_tbc(y[None], y.new_ones(1, 8, 8), y.new_ones(8))
'''


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    """Return a file of models: Even scales with the batch, Square does not."""
    path = tmp_path / "nets.py"
    path.write_text(NETS)
    return path


def builds(nets: Path) -> int:
    """Return how often models of the file were built."""
    counter = nets.with_suffix(".built")
    return int(counter.read_text()) if counter.exists() else 0
