import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]

NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1, bias=False)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.conv(x))
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    return f"{tmp_path / 'net.py'}:Net"


@pytest.mark.slow
def test_other_counters_stand_beside_ours_with_causes_that_add_up(run: Run, net: str) -> None:
    result = run("analyze", net, "--input", "3x8x8", "--compare", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    # 64 places of 3·4 multiply-accumulates
    assert document["macs"] == 768
    thop, fvcore, own = document["comparison"]
    # 64·4 values: thop counts four operations for each in a norm, fvcore two
    assert (thop["macs"], thop["macs_differences"]) == (768 + 1024, [{"amount": 1024, "cause": "adds 1 BatchNorm2d"}])
    assert (fvcore["macs"], fvcore["macs_differences"]) == (768 + 512, [{"amount": 512, "cause": "adds 1 BatchNorm2d"}])
    assert (own["macs"], own["macs_differences"]) == (768, [])


@pytest.mark.slow
def test_the_table_shows_causes(run: Run, net: str) -> None:
    shown = run("analyze", net, "--input", "3x8x8", "--compare").stdout
    assert "adds 1 BatchNorm2d" in shown
    assert "fvcore" in shown


def test_what_cannot_be_compared_is_told(run: Run, net: str, net_trace: Path) -> None:
    for words, said in (
        ((net, "--input", "3x8x8", "--compare", "--format", "csv"), "cannot be written as CSV"),
        ((net, "--input", "3x8x8", "--compare", "--train"), "drop --train"),
        ((net_trace, "--compare"), "is a trace"),
    ):
        result = run("analyze", *words)
        assert result.exit_code == 2
        assert said in result.stderr
