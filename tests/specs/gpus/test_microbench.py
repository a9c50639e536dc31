"""Importing other people's microbenchmarks into files of specs."""

import gzip
from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.spec import Microbenchmark, Quality, Regime
from capplan.errors import SpecError, UsageError
from capplan.specs import load_gpus
from capplan.specs.gpus.microbench import import_microbench, read_microbench
from capplan.specs.gpus.validate import validate_specs

HEAD = "gpu,kind,dtype,accumulate,size,value,unit,source,quality,regime\n"
DAY = date(2026, 11, 21)
ROWS = """\
t4,matmul,fp16,fp32,8192^3,25,TFLOP/s,ada/lab x.md@1,A,large
t4,matmul,fp16,fp32,best,42,TFLOP/s,bob/bench,B,best_shape
t4,matmul,fp16,fp16,8192^3,60,TFLOP/s,ada/lab,A,large
t4,matmul,bf16,fp32,8192^3,2.3,TFLOP/s,ada/lab,A,large
t4,matmul,fp16,fp32,ones,55,TFLOP/s,ada/lab,C,constant_input
t4,copy_bandwidth,fp32,,1 GB,240,GB/s,ada/lab,A,
t4,launch_overhead,fp32,,"small, graph",1.5,us,ada/lab,A,
nobody,matmul,fp16,fp32,8192^3,25,TFLOP/s,ada/lab,A,large
"""


def written(folder: Path, text: str = HEAD + ROWS, name: str = "rows.csv") -> Path:
    """A table of microbenchmarks."""
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_rows_become_the_measured_block_of_an_overlay(tmp_path: Path, name: str) -> None:
    """Sustained products before bursts; 16-bit accumulation, emulated bf16 and constant inputs are left out."""
    folder = tmp_path / "specs"
    done = import_microbench(
        read_microbench(written(tmp_path, name=name)), known=load_gpus(), folder=folder, retrieved=DAY
    )
    assert [path.name for path in done.written] == ["t4.yaml"]
    assert done.unknown == ("nobody",)
    spec = load_gpus(overlays=[folder])["t4"]
    half = spec.measured[Microbenchmark.MATMUL_HALF]
    assert (half.value, half.quality, half.regime) == (25e12, Quality.A, Regime.SUSTAINED)
    assert spec.measured[Microbenchmark.COPY].value == 240e9
    assert spec.measured[Microbenchmark.GRAPH_LAUNCH].value == pytest.approx(1.5e-6)
    assert spec.peak_flops_per_s == load_gpus()["t4"].peak_flops_per_s
    assert "nothing to mend" in validate_specs(folder)


def test_importing_again_replaces_the_block_and_keeps_all_else(tmp_path: Path) -> None:
    """A file of one's own keeps its other lines; the old block and its sources go."""
    folder = tmp_path / "specs"
    folder.mkdir()
    mine = "tdp: {value: 60, unit: W, source: me}\nsources:\n  me: {kind: unverified, title: a label}\n"
    (folder / "t4.yaml").write_text(mine)
    import_microbench(read_microbench(written(tmp_path)), known=load_gpus(), folder=folder, retrieved=DAY)
    newer = HEAD + "t4,matmul,fp16,fp32,8192^3,28,TFLOP/s,carl/new,A,large\n"
    import_microbench(read_microbench(written(tmp_path, newer)), known=load_gpus(), folder=folder, retrieved=DAY)
    text = (folder / "t4.yaml").read_text()
    assert "tdp: {value: 60" in text
    assert "ada" not in text
    spec = load_gpus(overlays=[folder])["t4"]
    assert (spec.tdp_w, spec.measured[Microbenchmark.MATMUL_HALF].value) == (60, 28e12)


def test_a_table_without_the_columns_says_which(tmp_path: Path) -> None:
    """The missing columns are named."""
    with pytest.raises(UsageError, match="accumulate"):
        read_microbench(written(tmp_path, "gpu,kind\n"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("t4,copy_bandwidth,fp32,,1 GB,fast,GB/s,ada/lab,A,", "value 'fast' is not a number"),
        ("t4,copy_bandwidth,fp32,,1 GB,-240,GB/s,ada/lab,A,", "value '-240' is not a positive number"),
        ("t4,copy_bandwidth,fp32,,1 GB,nan,GB/s,ada/lab,A,", "value 'nan' is not a positive number"),
        ("t4,copy_bandwidth,fp32,,1 GB,240,TB/s,ada/lab,A,", "the unit of copy_bandwidth is GB/s, not 'TB/s'"),
        ("t4,matmul,fp16,fp32,8192^3,25,TFLOP/s,ada/lab,good,large", "quality 'good' is none of A, B, C"),
        ("t4,matmul,fp16,fp32,8192^3,25,TFLOP/s,ada/lab,A,long", "regime 'long' is none of large, median_shapes"),
    ],
)
def test_a_row_that_would_be_taken_says_what_is_wrong_with_it(tmp_path: Path, row: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"line 2: {reason}"):
        read_microbench(written(tmp_path, f"{HEAD}{row}\n"))


def test_a_folder_that_is_a_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    rows = read_microbench(written(tmp_path))
    (tmp_path / "specs").write_text("")
    with pytest.raises(UsageError, match="cannot write into"):
        import_microbench(rows, known=load_gpus(), folder=tmp_path / "specs", retrieved=DAY)


def test_a_measured_value_must_state_quality_and_regime(tmp_path: Path) -> None:
    """A block without them is refused with the words that are known."""
    (tmp_path / "t4.yaml").write_text(
        "measured:\n  copy: {value: 240, unit: GB/s, source: me}\nsources:\n  me: {kind: measured, title: mine}\n"
    )
    with pytest.raises(SpecError, match="quality"):
        load_gpus(overlays=[tmp_path])
