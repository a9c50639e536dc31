"""Every case of torch's own database of exports (ExportDB in its documentation) is read from `.pt2`."""

import warnings
from pathlib import Path

import pytest
import torch
from torch._export.db.examples import all_examples
from torch.export import export, save

import capplan
from tests.nightly import mostly_nightly

pytestmark = pytest.mark.slow

CASES = {name: case for name, case in all_examples().items() if name not in ("dynamic_shape_round",)}
"""`dynamic_shape_round` is the one that torch.export itself refuses."""


def written(name: str, folder: Path) -> Path:
    """Export a case and return the file of its program."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of predicates that are constants, which some cases show
        program = export(
            case.model, case.example_args, case.example_kwargs, dynamic_shapes=case.dynamic_shapes, strict=False
        )
    save(program, folder / f"{name}.pt2")
    return folder / f"{name}.pt2"


@pytest.mark.parametrize("name", mostly_nightly(sorted(CASES), daily=sorted(CASES)[::5]))
def test_a_case_is_counted_and_sized(name: str, tmp_path: Path) -> None:
    made = capplan.trace(str(written(name, tmp_path)))
    assert capplan.analyze(made).analysis.uncounted == ()
    assert capplan.memory(made).estimate.peak_allocated_bytes.expected > 0


@pytest.mark.parametrize("name", ["cond_operands", "dynamic_shape_map", "dynamic_shape_view", "scalar_output"])
def test_a_case_is_timed_and_planned_even_if_it_launches_nothing(name: str, tmp_path: Path) -> None:
    """The last two are views alone, whose shares of time by what binds them were 0 ÷ 0."""
    made = capplan.trace(str(written(name, tmp_path)))
    assert len(capplan.plan(made, gpus=["t4"]).fits) == 1
    (report,) = capplan.estimate(made, gpus=["t4"]).reports
    assert report.curve[-1].latency_s.expected > 0


def test_a_map_runs_its_body_for_each_row(tmp_path: Path) -> None:
    """Its documentation: `map(body, xs, y)` is `stack([body(x, y) for x in xs])`; three rows are three additions."""
    made = capplan.trace(str(written("dynamic_shape_map", tmp_path)))
    names = [made.recordings[0].kernels[op.kernel].name for op in made.recordings[0].ops]
    assert names.count("aten.add") == CASES["dynamic_shape_map"].example_args[0].shape[0] == 3


class Loop(torch.nn.Module):
    """x is squared three times by a loop whose count is data, and summed up by a scan."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def adds(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return carry + row, carry @ row

        from torch._higher_order_ops.scan import scan

        last, _rows = scan(adds, torch.zeros(4), x)
        return last


def test_a_scan_runs_its_body_for_each_row(tmp_path: Path) -> None:
    program = export(Loop(), (torch.randn(5, 4),))
    save(program, tmp_path / "scan.pt2")
    recording = capplan.trace(str(tmp_path / "scan.pt2")).recordings[0]
    names = [recording.kernels[op.kernel].name for op in recording.ops]
    assert names.count("aten.dot") == 5
