"""`--measure`: points timed on a device whose name a spec of the sweep has, theory beside measurement.

The device is this machine's processor, under an own spec that bears its name.
"""

import re
from pathlib import Path

import pytest

from capplan.app.measure.store import read_measurements
from capplan.app.sweep.request import MeasuringRules
from capplan.app.sweep.results import read_sweep
from capplan.app.sweep.run import sweep
from capplan.probe.measure.devices import cpu_name
from tests.app.sweep.conftest import make_request
from tests.app.sweep.test_run import Seen

pytestmark = pytest.mark.slow

L4 = Path(__file__).parents[3] / "gpu_specs" / "l4.yaml"


class Points(Seen):
    """Remembers which points were timed."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[str, int]] = []

    def measured(self, model: str, gpu: str, batch: int) -> None:
        self.points.append((gpu, batch))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a spec that bears the name of this machine's processor."""
    folder = tmp_path / "specs"
    folder.mkdir()
    text = re.sub(r"^name: .*$", "name: This machine", L4.read_text(), count=1, flags=re.MULTILINE)
    text = re.sub(r"^aliases: .*$", f"aliases: ['{cpu_name()}']", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^(pci_ids| +pci\.ids): .*\n", "", text, flags=re.MULTILINE)
    (folder / "this-machine.yaml").write_text(text)
    return folder


@pytest.mark.nightly
def test_measurements_stand_beside_the_theory_and_are_taken_once(traces: Path, here: Path, tmp_path: Path) -> None:
    models = [{"model": f"{traces / 'nets.py'}:Narrow", "input": ["8"]}, str(traces / "wide.trace.json")]
    request = make_request(
        tmp_path / "out",
        models,
        gpus=["this-machine", "t4"],
        workloads=[{"batch": [1, 4]}],
        specs=(here,),
        measure=True,
        measuring=MeasuringRules(budget_s=0.2),
    )
    seen = Points()
    done = sweep(request, watcher=seen)
    assert sorted(seen.points) == [("this-machine", 1), ("this-machine", 1), ("this-machine", 4), ("this-machine", 4)]
    assert done.measured == 2
    assert any("is a trace" in note for note in done.notes)  # a trace file holds nothing that could run
    frame = read_sweep(tmp_path / "out").to_pandas()
    timed = frame[frame.measured_latency_s.notna()]
    assert set(timed.gpu) == {"this-machine"}
    assert sorted(timed.batch) == [1, 4]
    assert (timed.measured_on == cpu_name()).all()
    points = read_measurements(tmp_path / "out/_sweep/measurements.jsonl").measurements
    assert sorted(timed.measured_latency_s) == sorted(point.latency.median for point in points)
    assert all(point.theory is not None for point in points)

    again = Points()
    sweep(request, watcher=again)
    assert len(again.points) == 2  # those of the trace file alone, which have no answer in the measurement file
    assert read_sweep(tmp_path / "out").to_pandas().measured_latency_s.notna().sum() == 2


@pytest.mark.nightly
def test_without_a_device_of_the_sweep_the_estimates_are_kept_and_the_reader_is_told(
    traces: Path, tmp_path: Path
) -> None:
    done = sweep(make_request(tmp_path / "out", [str(traces)], gpus=["h200-sxm-141gb"], measure=True))
    assert done.measured == 0
    assert any("none of the sweep's GPUs is at hand" in note for note in done.notes)
    assert done.rows == 4
