"""Energy counters of processors, from a folder as the kernel shows it."""

from pathlib import Path

import pytest

from capplan.probe.measure.energy import open_rapl


def package(root: Path, number: int, *, energy_uj: int, name: str = "package") -> Path:
    folder = root / f"intel-rapl:{number}"
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}-{number}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text("262143328850\n")
    return folder


def test_packages_are_added_and_a_counter_that_begins_again_loses_nothing(tmp_path: Path) -> None:
    one, two = package(tmp_path, 0, energy_uj=262_143_000_000), package(tmp_path, 1, energy_uj=5_000_000)
    package(tmp_path, 2, energy_uj=1, name="psys")  # the whole computer, which holds the packages
    meter = open_rapl(tmp_path)
    assert meter is not None
    before_j = meter.energy_j()
    (one / "energy_uj").write_text("1000000")  # 0.32885 J up to its range, and 1 J after it
    (two / "energy_uj").write_text("7500000")  # 2.5 J
    after_j = meter.energy_j()
    assert before_j is not None
    assert after_j is not None
    assert after_j - before_j == pytest.approx(0.32885 + 1.0 + 2.5)
    assert meter.power_w() is None


def test_counters_that_cannot_be_read_are_no_meter(tmp_path: Path) -> None:
    assert open_rapl(tmp_path) is None
    (package(tmp_path, 0, energy_uj=1) / "energy_uj").unlink()  # as for all but an administrator
    assert open_rapl(tmp_path) is None
