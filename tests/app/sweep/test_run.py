"""A sweep on this machine: the same figures as a plan, work done once, and failures that cost their own rows."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import capplan
from capplan.app.feedback import Watcher
from capplan.app.sweep.records import unpack_state
from capplan.app.sweep.results import read_sweep, request_of
from capplan.app.sweep.run import sweep
from capplan.app.sweep.schema import COLUMNS
from capplan.app.sweep.store import read_manifest
from capplan.core.sweep.overview import Failed, Standing
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import ModelRequest
from tests.app.sweep.conftest import make_request

pytestmark = pytest.mark.slow


class Seen(Watcher):
    """Remembers what a sweep reported."""

    def __init__(self, on_moved: Callable[[], None] = lambda: None) -> None:
        self.standings: list[Standing] = []
        self.failures: list[tuple[str, Failed]] = []
        self.on_moved = on_moved

    def started(self, standing: Standing) -> None:
        self.standings.append(standing)

    def moved(self, standing: Standing) -> None:
        self.standings.append(standing)
        self.on_moved()

    def failed(self, model: str, workload: str, failed: Failed) -> None:
        self.failures.append((model, failed))

    def ended(self, standing: Standing) -> None:
        self.standings.append(standing)


def test_rows_hold_the_figures_of_a_plan(traces: Path, tmp_path: Path) -> None:
    sweep(make_request(tmp_path / "out", [str(traces)]))
    frame = read_sweep(tmp_path / "out").to_pandas()
    assert len(frame) == 2 * 2 * 2
    for name in ("narrow", "wide"):
        path = str(traces / f"{name}.trace.json")
        plan = capplan.plan(path, batches=[1, 32], gpus=["l4", "t4"]).to_frame()
        for row in plan.itertuples():
            [found] = frame[(frame.model == path) & (frame.gpu == row.gpu) & (frame.batch == row.batch)].itertuples()
            for column in (
                "latency_s", "latency_low_s", "latency_high_s", "latency_bound_s", "throughput_per_s", "total_bytes",
                "total_low_bytes", "total_high_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "max_batch",
                "recommended_batch", "status", "usable_bytes", "bound_by", "evidence", "usd_per_hour",
                "usd_per_million_samples",
            ):  # fmt: skip
                assert getattr(found, column) == getattr(row, column), column


@pytest.mark.nightly
def test_quantised_layers_have_the_figures_of_a_plan_beside_those_of_the_same_model_as_it_is(
    traces: Path, tmp_path: Path
) -> None:
    path = str(traces / "wide.trace.json")
    sweep(make_request(tmp_path / "out", [path], gpus=["l4"], workloads=[{"batch": [32], "weights": ["none", "int8"]}]))
    frame = (
        read_sweep(tmp_path / "out").to_pandas().set_index(read_sweep(tmp_path / "out").to_pandas().weights.fillna(""))
    )
    [fit] = capplan.plan(path, batches=[32], gpus=["l4"], precision="fp32", weights="int8").fits
    assert frame.loc["int8"].latency_s == fit.latency.latency_s.expected
    assert frame.loc["int8"].total_bytes == round(fit.memory.total_bytes.expected)
    # 8·4096 + 4096·4 weights and 4100 biases of 4 bytes; int8 weights take one byte, and their scales some more
    assert frame.loc[""].weight_bytes == 4 * (8 * 4096 + 4096 * 4 + 4100)
    assert frame.loc["int8"].weight_bytes < 4 * (8 * 4096 + 4096 * 4) / 2


def test_power_and_energy_are_those_of_a_plan_with_and_without_a_power_limit(traces: Path, tmp_path: Path) -> None:
    path = str(traces / "wide.trace.json")
    asked = [{"batch": [32], "energy": True, "power_limit": ["none", "40W"]}, {"batch": [32]}]
    sweep(make_request(tmp_path / "out", [path], gpus=["l4"], workloads=asked))
    frame = read_sweep(tmp_path / "out").to_pandas()
    assert frame.power_w.isna().sum() == 1
    for limit_w in (None, 40.0):
        [fit] = capplan.plan(path, batches=[32], gpus=["l4"], precision="fp32", energy=True, power_limit_w=limit_w).fits
        at_limit = frame.power_limit_w.isna() if limit_w is None else frame.power_limit_w == limit_w
        row = frame[frame.power_w.notna() & at_limit].iloc[0]
        assert fit.energy is not None
        assert (row.power_low_w, row.power_w, row.power_high_w) == (
            fit.energy.power_w.low, fit.energy.power_w.expected, fit.energy.power_w.high,
        )  # fmt: skip
        assert row.joules_per_sample == fit.energy.joules_per_sample.expected
        assert row.latency_s == fit.latency.latency_s.expected


def test_every_file_has_the_columns_of_the_schema_with_their_units(traces: Path, tmp_path: Path) -> None:
    sweep(make_request(tmp_path / "out", [str(traces)], workloads=[{"precision": ["fp32", "amp-fp16"]}]))
    files = sorted((tmp_path / "out").rglob("part-*.parquet"))
    assert [path.parent.name for path in files] == [
        "workload=amp-fp16-eager-nchw-inference",
        "workload=fp32-eager-nchw-inference",
    ]
    schema = pq.read_schema(files[0])
    assert schema.names == [column.name for column in COLUMNS]
    assert schema.metadata[b"capplan_sweep_schema_version"] == b"1"
    assert schema.field("latency_s").metadata[b"unit"] == b"s"


def test_the_manifest_states_what_made_the_rows(traces: Path, tmp_path: Path) -> None:
    sweep(make_request(tmp_path / "out", [str(traces)], command="capplan sweep x.yaml -o out"))
    manifest = read_manifest(tmp_path / "out")
    assert (manifest["schema_version"], manifest["state"], manifest["rows"]) == (1, "complete", 8)
    assert manifest["command"] == "capplan sweep x.yaml -o out"
    assert manifest["gpus"] == ["l4", "t4"]
    assert manifest["versions"]["capplan"] == capplan.__version__


def test_a_second_run_computes_nothing(traces: Path, tmp_path: Path) -> None:
    request = make_request(tmp_path / "out", [str(traces)])
    first, second = sweep(request), sweep(request)
    assert (first.standing.kept, second.standing.kept, second.standing.rows) == (0, 2, 0)
    assert second.rows == first.rows


def test_a_new_gpu_is_computed_alone_and_one_that_is_dropped_goes(traces: Path, tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    sweep(make_request(tmp_path / "out", [str(traces)], file=file))
    changed = sweep(make_request(tmp_path / "out", [str(traces)], file=file, gpus=["t4", "a10"]))
    assert changed.standing.rows == 2 * 2
    frame = read_sweep(tmp_path / "out").to_pandas()
    assert sorted(set(frame.gpu)) == ["a10", "t4"]
    assert len(frame) == len(frame.drop_duplicates(["model", "gpu", "batch"])) == 8


@pytest.mark.nightly
def test_a_changed_trace_is_computed_again_alone(traces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for name in ("narrow", "wide"):
        (folder / f"{name}.trace.json").write_bytes((traces / f"{name}.trace.json").read_bytes())
    request = make_request(tmp_path / "out", [str(folder)])
    sweep(request)
    before = read_sweep(tmp_path / "out").to_pandas().set_index(["model", "gpu", "batch"])
    (folder / "narrow.trace.json").write_bytes((folder / "wide.trace.json").read_bytes())
    assert sweep(request).standing.rows == 4
    after = read_sweep(tmp_path / "out").to_pandas().set_index(["model", "gpu", "batch"])
    narrow, wide = str(folder / "narrow.trace.json"), str(folder / "wide.trace.json")
    assert after.loc[wide].equals(before.loc[wide])
    assert (after.loc[narrow].parameters == before.loc[wide].parameters).all()


def test_an_interrupted_sweep_goes_on(traces: Path, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    request = make_request(tmp_path / "out", [str(traces)])
    with pytest.raises(KeyboardInterrupt):
        sweep(request, watcher=Seen(on_moved=interrupt))
    assert json.loads((tmp_path / "out/_sweep/manifest.json").read_text())["state"] == "partial"
    assert len(read_sweep(tmp_path / "out")) == 4
    done = sweep(request)
    assert (done.standing.kept, done.standing.rows, done.rows) == (1, 4, 8)


def test_a_model_without_the_recording_costs_its_own_rows(traces: Path, tmp_path: Path) -> None:
    seen = Seen()
    done = sweep(
        make_request(tmp_path / "out", [str(traces)], workloads=[{"precision": ["fp32", "fp16"]}]), watcher=seen
    )
    frame = read_sweep(tmp_path / "out").to_pandas()
    assert len(frame) == 8
    failed = frame[frame.status == "failed"]
    assert set(failed.precision) == {"fp16"}
    assert set(failed.failure) == {"recording"}
    assert failed.fits.isna().all()
    assert failed.latency_s.isna().all()
    assert len(seen.failures) == done.failed == 2
    assert done.failures[0].kind == "recording"


def test_a_gpu_without_the_format_is_unsupported(traces: Path, tmp_path: Path) -> None:
    from capplan.core.gpus.spec import PeakKind

    old = next(
        gpu.id for gpu in capplan.load_gpus().values() if PeakKind.BF16 in gpu.peak_flops_per_s
        and gpu.peak(PeakKind.BF16) is None and gpu.vendor == "NVIDIA"
    )  # fmt: skip
    made = capplan.trace(f"{traces / 'nets.py'}:Narrow", inputs=["8"], precisions=["bf16"])
    from capplan.core.trace.format import dump_trace

    path = tmp_path / "half.trace.json"
    path.write_bytes(dump_trace(made, compress=False))
    sweep(make_request(tmp_path / "out", [str(path)], gpus=[old], workloads=[{"precision": "bf16"}]))
    [row] = read_sweep(tmp_path / "out").to_pandas().itertuples()
    plan = capplan.plan(str(path), batches=[1], gpus=[old], precision="bf16")
    assert (row.status == "unsupported") == (not plan.fits)


def test_the_folder_of_another_sweep_is_not_overwritten(traces: Path, tmp_path: Path) -> None:
    sweep(make_request(tmp_path / "out", [str(traces / "narrow.trace.json")], file=tmp_path / "one.yaml"))
    before = read_manifest(tmp_path / "out")
    other = make_request(tmp_path / "out", [str(traces / "wide.trace.json")], file=tmp_path / "two.yaml")
    with pytest.raises(UsageError, match=r"another sweep .*one\.yaml"):
        sweep(other)
    assert read_manifest(tmp_path / "out") == before


def test_a_complete_sweep_is_a_folder_of_parquet_files_that_any_reader_takes(traces: Path, tmp_path: Path) -> None:
    """polars refuses a folder with files of another extension, but for empty ones (polars 2.1, `scan_parquet`)."""
    import pyarrow.parquet

    folder = tmp_path / "out"
    sweep(make_request(folder, [str(traces)], file=tmp_path / "s.yaml"))
    assert {path.suffix for path in folder.rglob("*") if path.is_file() and path.stat().st_size} == {".parquet"}
    assert pyarrow.parquet.read_table(folder).num_rows == len(read_sweep(folder)) == 8
    again = sweep(make_request(folder, [str(traces)], file=tmp_path / "s.yaml"))
    assert again.standing.kept == again.standing.models == 2, "the packed state is unpacked and goes on"
    more = sweep(make_request(folder, [str(traces)], gpus=["l4", "t4", "a10"], file=tmp_path / "s.yaml"))
    assert more.rows == 12
    assert {path.suffix for path in folder.rglob("*") if path.is_file() and path.stat().st_size} == {".parquet"}
    assert len(list(folder.rglob("state.parquet"))) == 1


def test_a_sweep_that_is_killed_while_its_state_is_packed_loses_nothing(traces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sweep(make_request(folder, [str(traces)]))
    packed = next(folder.rglob("state.parquet"))
    content = packed.read_bytes()
    unpack_state(folder)  # as if it had ended after it wrote the packed state, before it removed the files
    assert len(read_sweep(folder)) == 8
    (folder / "_sweep" / "manifest.json").unlink()  # and here after it removed the first
    assert len(read_sweep(folder)) == 8
    assert sweep(make_request(folder, [str(traces)])).standing.kept == 2
    packed.write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match="holds no results of a sweep"):
        read_sweep(folder)


def test_a_folder_that_holds_other_files_is_not_taken(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        sweep(make_request(tmp_path / "out", [str(traces)]))


@pytest.mark.nightly
def test_auto_asks_for_the_recommended_batch(traces: Path, tmp_path: Path) -> None:
    sweep(make_request(tmp_path / "out", [str(traces)], workloads=[{"batch": "auto"}]))
    frame = read_sweep(tmp_path / "out").to_pandas()
    assert (frame.batch == frame.recommended_batch).all()


@pytest.mark.nightly
def test_python_sweeps_from_a_mapping_and_reports_on_the_results(traces: Path, tmp_path: Path) -> None:
    definition = {"models": [str(traces)], "gpus": ["l4", "t4"], "workloads": [{"batch": [1, 8]}]}
    results = capplan.sweep(definition, tmp_path / "out", workers=1)
    assert len(results) == 8
    report = capplan.make_report(str(tmp_path / "out"), batches=[8])
    assert len(report.models) == 2
    assert {row.gpu for model in report.models for row in model.options} == {"l4", "t4"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrkers'"):
        capplan.sweep(definition, tmp_path / "out", wrkers=1)  # type: ignore[call-arg]


def test_a_rows_model_is_read_back_as_it_was_asked_for() -> None:
    asked = ModelRequest(
        words="net.py:Net", arg=("depth=5", "name=a b"), inputs=("x=3x8x8",), seq_len=7, prepare=("lora=16",),
        freeze=("backbone.*", "norm?.bias"),
    )  # fmt: skip
    assert request_of(" ".join([asked.words, *asked.options])) == asked
    assert request_of("timm:resnet50.a1_in1k") == ModelRequest(words="timm:resnet50.a1_in1k")


def test_a_running_sweep_is_read_with_what_is_finished(traces: Path, tmp_path: Path) -> None:
    folder, seen = tmp_path / "out", []

    def look() -> None:
        results = read_sweep(folder)
        assert results.live is not None
        found = results.query_live("select count(*) as rows, count(usd_per_hour) as priced from sweep")
        seen.append((results.live.standing.finished, *found.to_pylist()[0].values()))

    sweep(make_request(folder, [str(traces)]), watcher=Seen(on_moved=look))
    # a model has two GPUs at two batches; the file tells how far the sweep was up to a second before
    assert [rows for _, rows, _ in seen] == [4, 8]
    assert seen[-1][2] == 0, "prices come with the commit"
    assert read_sweep(folder).live is None
    assert read_sweep(folder).query_live("select count(usd_per_hour) as priced from sweep").to_pylist()[0]["priced"] > 0
