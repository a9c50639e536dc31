"""What the built-in database holds."""

import gzip
import pickle
from csv import DictReader
from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.spec import GpuSpec, PeakKind, SourceKind
from capplan.errors import SpecError, UnknownNameError
from capplan.specs import Gpus, load_gpus
from capplan.specs.gpus.load import load_usable_shares
from capplan.specs.gpus.rules import FORMULA_TOLERANCE, formula_peak
from capplan.specs.gpus.validate import validate_specs
from tests.limits import within
from tests.seen import at_least

MEASURED = Path(__file__).parents[4] / "shared" / "data" / "measured"
GIB, MIB = 2**30, 2**20


def test_there_are_at_least_160_gpus_of_six_vendors(gpus: Gpus) -> None:
    assert len(gpus) >= 160
    assert {spec.vendor for spec in gpus.values()} == {"NVIDIA", "AMD", "Intel", "Apple", "Google", "Amazon"}
    assert list(gpus) == sorted(gpus)


def test_the_built_in_files_keep_all_rules() -> None:
    assert "nothing to mend" in validate_specs()


def test_the_documentation_counts_what_is_there(gpus: Gpus) -> None:
    told = (Path(__file__).parents[3] / "docs" / "gpu-specs.md").read_text()
    peaks = [
        (spec.peak(kind), formula_peak(spec, gpus.architectures[spec.architecture_id], kind))
        for spec in gpus.values()
        for kind in spec.peak_flops_per_s
        if spec.peak(kind)
    ]
    kept = sum(1 for peak, formula in peaks if peak and formula and abs(peak / formula - 1) <= FORMULA_TOLERANCE)
    figures = [figure for spec in (*gpus.values(), *gpus.cpus.values()) for figure in spec.figures.values()]
    kinds = [{source.kind for source in figure.sources} for figure in figures if figure.sources]
    checked = sum(bool(held & {SourceKind.MEASURED, SourceKind.SECONDARY}) for held in kinds) / len(kinds)
    unverified = sum(held == {SourceKind.UNVERIFIED} for held in kinds) / len(kinds)
    assert "half of the values rest on at least one checked table or reading" in told
    assert checked == pytest.approx(0.5, abs=0.05)
    assert "three in ten are `unverified`" in told
    assert unverified == pytest.approx(0.3, abs=0.03)
    assert "More than 90 % of the peaks keep the formula" in told
    assert kept > 0.9 * len(peaks)


def test_every_value_has_a_source_and_every_foreign_source_a_day(gpus: Gpus) -> None:
    for spec in at_least(115, gpus.values()):
        for key, figure in at_least(5, spec.figures.items()):
            assert figure.sources or figure.text == "none", f"{spec.id}: {key}"
            for source in figure.sources:
                assert source.kind is not SourceKind.EXAMPLE
                if source.kind in (SourceKind.DATASHEET, SourceKind.SECONDARY, SourceKind.MEASURED):
                    assert source.retrieved, f"{spec.id}: {source.title}"


def test_usable_memory_was_reported_by_a_driver(gpus: Gpus) -> None:
    for spec in at_least(25, (spec for spec in gpus.values() if spec.usable_bytes is not None)):
        assert {source.kind for source in spec.figures["usable"].sources} == {SourceKind.MEASURED}, spec.id


@pytest.mark.parametrize("name", ["h100-sxm5-80gb", "H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", "nvidia h100 80gb hbm3"])
def test_a_gpu_is_found_by_its_whole_id_or_alias_whatever_the_capitals(gpus: Gpus, name: str) -> None:
    assert gpus.find(name).id == "h100-sxm5-80gb"


@pytest.mark.parametrize("name", ["h10", "A40 ", "RTX A4000x", "L4S", ""])
def test_a_gpu_is_never_found_by_a_part_of_its_name(gpus: Gpus, name: str) -> None:
    if name.strip().casefold() in gpus:
        assert gpus.find(name).id == name.strip().casefold()
    else:
        with pytest.raises(UnknownNameError, match="Run `capplan gpus` for all"):
            gpus.find(name)


def test_an_unknown_name_gives_the_nearest(gpus: Gpus) -> None:
    with pytest.raises(UnknownNameError, match="did you mean h100-pcie-80gb"):
        gpus.find("h100-pcie-80")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "column"),
    [
        ("latency-timm.csv.gz", "gpu"), ("latency-curves.csv.gz", "gpu"), ("memory.csv.gz", "gpu_id"),
        ("kernels-fp32.csv.gz", "device"), ("../llm/op-gemm-vllm.csv.gz", "device"),
        ("../llm/op-comm.csv.gz", "device"),
    ],
)  # fmt: skip
def test_gpus_of_the_measured_data_resolve(gpus: Gpus, file: str, column: str) -> None:
    with gzip.open(MEASURED / file, "rt") as stream:
        names = {row[column] for row in DictReader(stream)}
    assert names - {""}
    for name in names - {""}:
        gpus.find(name)


def test_a_card_of_two_devices_is_told_per_device(gpus: Gpus) -> None:
    # AMD prints the MI250X as 128 GB, 3.2 TB/s, 383 TFLOP/s of fp16 and 560 W; ROCm shows two devices of 110 units.
    spec = gpus["mi250x"]
    assert spec.devices_per_board == 2
    assert spec.memory_bytes == 128 * GIB / 2
    assert spec.unit_count == 110
    assert spec.peak(PeakKind.FP16) == pytest.approx(383e12 / 2, rel=0.01)
    assert spec.memory_bandwidth_bytes_per_s == pytest.approx(3.2768e12 / 2, rel=0.01)
    assert spec.tdp_w == 560 / 2


def test_a_power_capped_edition_knows_the_full_cards_limit(gpus: Gpus) -> None:
    capped, full = gpus["rtx-pro-6000-blackwell-max-q"], gpus["rtx-pro-6000-blackwell-ws"]
    assert (capped.tdp_w, capped.nominal_tdp_w, full.tdp_w, full.nominal_tdp_w) == (300, 600, 600, None)
    assert (capped.unit_count, capped.memory_bytes) == (full.unit_count, full.memory_bytes)


def test_what_an_architecture_lacks_is_unsupported_and_not_unknown(gpus: Gpus) -> None:
    t4 = gpus["t4"]
    assert PeakKind.BF16 in t4.peak_flops_per_s
    assert t4.peak(PeakKind.BF16) is None
    assert PeakKind.BF16 not in gpus["mi308x"].peak_flops_per_s  # nobody tells


def test_geforce_runs_fp16_with_fp32_accumulation_at_half_rate(gpus: Gpus) -> None:
    # Half rate on GeForce since Turing, full rate on the professional cards of the same chips: 71 and 155 TFLOP/s are
    # quoted for the RTX 3090 and the RTX A6000, 165 for the RTX 4090, where fp16 accumulation gives 330.
    assert gpus["rtx-3090"].peak(PeakKind.FP16) == pytest.approx(71e12, rel=0.01)
    assert gpus["rtx-a6000"].peak(PeakKind.FP16) == pytest.approx(155e12, rel=0.01)
    assert gpus["rtx-4090"].peak(PeakKind.FP16) == pytest.approx(165.2e12, rel=0.01)
    assert gpus["rtx-4090"].peak(PeakKind.FP16_ACC16) == pytest.approx(330.3e12, rel=0.01)


def test_memory_that_no_driver_reported_is_expected_from_its_kind(gpus: Gpus) -> None:
    def fraction(spec: GpuSpec) -> float:
        return spec.expected_usable_bytes / spec.memory_bytes

    assert gpus["t4"].expected_usable_bytes == 15095 * MIB  # reported
    assert fraction(gpus["l20"]) == pytest.approx(0.922)  # ECC carved out of GDDR6
    assert fraction(gpus["mi210"]) == pytest.approx(0.9998)
    assert fraction(gpus["rtx-4070"]) == pytest.approx(0.983)
    assert fraction(gpus["a800-sxm4-80gb"]) == pytest.approx(0.990)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("schema_version: 2\n", "schema_version 1"),
        ("schema_version: 1\nshares: {hbm: {share: 0.99}}\n", "shares must hold amd, gddr, gddr-ecc, hbm, lpddr"),
        (
            "schema_version: 1\nshares: {amd: {share: 1}, gddr: {share: 98}, gddr-ecc: {share: 0.9}, hbm: {share: 1}, "
            "lpddr: {share: 0.9}}\n",
            "shares.gddr.share must be a number from 0.5 to 1",
        ),
    ],
)
def test_a_damaged_table_of_usable_memory_is_refused(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "usable.yaml").write_text(text)
    monkeypatch.setenv("CAPPLAN_CALIBRATIONS", str(tmp_path))
    with pytest.raises(SpecError, match=told):
        load_usable_shares()


def test_ridge_point_of_the_h100_by_hand(gpus: Gpus) -> None:
    # 989.4 TFLOP/s over 3.35 TB/s
    assert gpus["h100-sxm5-80gb"].ridge_flop_per_byte == pytest.approx(295.3, abs=0.1)


def test_pcie_bandwidth_by_hand(gpus: Gpus) -> None:
    # PCIe 4.0: 16 GT/s a lane, 128 of 130 bits carry data, 16 lanes: 16e9 × 128/130 / 8 × 16 = 31.5 GB/s
    assert gpus["a100-pcie-80gb"].pcie_bytes_per_s == pytest.approx(31.51e9, rel=1e-3)


def test_no_release_lies_in_the_future(gpus: Gpus) -> None:
    dates = [spec.release_date for spec in gpus.values() if spec.release_date]
    assert len(dates) > 100
    assert max(dates) <= date.today()


def test_the_database_can_be_sent_to_a_process() -> None:
    # Rows of a file are predicted by several processes, each of which is sent the database.
    sent = pickle.loads(pickle.dumps(load_gpus()))
    assert list(sent) == list(load_gpus())
    assert sent.sheets.keys() == load_gpus().sheets.keys()


def test_a_name_of_thousands_of_digits_is_looked_up_at_once(gpus: Gpus) -> None:
    with within(cpu_s=2):
        assert gpus.names.find("h" + "1" * 5000 + "00-sxm5-80gb") is None
