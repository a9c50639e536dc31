"""Own specs laid over the built-in ones."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.core.gpus.mig import mig_profiles
from capplan.core.gpus.rate_laws import half_share
from capplan.core.gpus.spec import ChipDesign, MigKind, PeakKind
from capplan.errors import SpecError
from capplan.specs import load_gpus
from capplan.specs.folders import built_in_folder
from capplan.specs.gpus.validate import validate_specs
from capplan.specs.prices import load_prices
from capplan.specs.rate_laws import load_rate_laws
from tests.seen import at_least

Write = Callable[..., Path]

ONE_FIELD = """\
tdp: {value: 250, unit: W, source: bios}
sources:
  bios: {kind: measured, title: power limit set on our machines, retrieved: 2026-11-01}
"""


def test_one_field_of_a_known_gpu_is_replaced_and_says_where_from(write: Write) -> None:
    path = write(ONE_FIELD, "rtx-3090.yaml")
    before, after = load_gpus()["rtx-3090"], load_gpus(overlays=[path])["rtx-3090"]
    assert (before.tdp_w, after.tdp_w) == (350, 250)
    assert after.figures["tdp"].origin == str(path)
    assert after.figures["tdp"].sources[0].title == "power limit set on our machines"
    assert after.figures["memory"] == before.figures["memory"]
    assert after.origin == f"built-in + {path}"
    assert after.peak_flops_per_s == before.peak_flops_per_s


def test_a_whole_card_is_added(write: Write) -> None:
    path = write()
    gpus = load_gpus(overlays=[path.parent])
    assert len(gpus) == len(load_gpus()) + 1
    spec = gpus.find("Example Device 10")
    assert (spec.id, spec.origin, spec.compute_capability) == ("example-10", str(path), (8, 6))
    assert spec.peak(PeakKind.FP16) == 15.36e12


def test_the_last_overlay_wins(write: Write) -> None:
    first = write(ONE_FIELD, "one/rtx-3090.yaml")
    second = write(ONE_FIELD.replace("250", "200"), "two/rtx-3090.yaml")
    assert load_gpus(overlays=[first.parent, second.parent])["rtx-3090"].tdp_w == 200
    assert load_gpus(overlays=[second.parent, first.parent])["rtx-3090"].tdp_w == 250


def test_config_folder_then_environment_then_option(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write(ONE_FIELD, "config/capplan/gpu_specs/rtx-3090.yaml")
    assert load_gpus()["rtx-3090"].tdp_w == 250
    named = write(ONE_FIELD.replace("250", "200"), "named/rtx-3090.yaml")
    monkeypatch.setenv("CAPPLAN_SPECS", str(named.parent))
    assert load_gpus()["rtx-3090"].tdp_w == 200
    chosen = write(ONE_FIELD.replace("250", "150"), "chosen/rtx-3090.yaml")
    assert load_gpus(overlays=[chosen])["rtx-3090"].tdp_w == 150


def test_the_example_folder_is_in_order() -> None:
    folder = Path(__file__).parents[3] / "examples" / "specs"
    assert "2 GPUs, 0 architectures, 1 price file checked, nothing to mend" in validate_specs(folder)
    gpus = load_gpus(overlays=[folder])
    assert gpus["rtx-3090"].tdp_w == 250
    assert [price.usd for price in load_prices(gpus, overlays=[folder]).purchase if price.gpu == "next-card"] == [6500]


def test_a_folder_that_holds_nothing_to_read_is_refused(tmp_path: Path, write: Write) -> None:
    with pytest.raises(SpecError, match=r"holds no spec files"):
        load_gpus(overlays=[tmp_path])
    write(ONE_FIELD, "rtx-3090.yml")
    with pytest.raises(SpecError, match=r"rtx-3090\.yml: is not read; a spec file ends in \.yaml"):
        load_gpus(overlays=[tmp_path])


def test_a_price_file_is_validated_with_its_folder(write: Write) -> None:
    path = write("provider: me\n", "prices/mine.yaml")
    for checked in (path, path.parent):
        with pytest.raises(SpecError, match=r"mine\.yaml: source: must have kind and title"):
            validate_specs(checked)


def test_a_built_in_file_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gpu_specs"
    shutil.copytree(built_in_folder(), folder, ignore=shutil.ignore_patterns("prices"))
    for module in ("load", "validate"):
        monkeypatch.setattr(f"capplan.specs.gpus.{module}.built_in_folder", lambda: folder)
    card = folder / "rtx-4090.yaml"
    card.write_text(card.read_text().replace("\ntdp:", "\ntdpp:"))
    with pytest.raises(SpecError) as caught:
        validate_specs(card)
    assert str(caught.value) == "gpu_specs/rtx-4090.yaml: tdpp: unknown key; did you mean tdp?"


def test_an_architecture_of_ones_own(write: Write) -> None:
    card = (Path(__file__).parents[1] / "example-10.yaml").read_text()
    write(
        "name: Mine\nvendor: Me\nunit: core\noperations_per_clock: {fp16: {value: 1024, source: m}, fp32: null}\n"
        "sources: {m: {kind: example, title: mine}}\n",
        "architectures/mine.yaml",
    )
    fp32 = "  fp32: {value: 3.84, unit: TFLOP/s, source: made-up}\n"
    path = write(card.replace("architecture: ampere", "architecture: mine").replace(fp32, ""))
    spec = load_gpus(overlays=[path.parent])["example-10"]
    assert (spec.vendor, spec.architecture, spec.peak_flops_per_s[PeakKind.FP32]) == ("Me", "Mine", None)


NEXT = """\
name: Next
vendor: NVIDIA
unit: SM
compute_capability: {value: "13.0", source: m}
sparse_factor: {value: 2, source: m}
family: {value: gh100, source: m}
process: {value: 3, unit: nm, source: m}
fp32_datapath: {value: shared, source: m}
relatives: {value: ["9.0", "8.0"], source: m}
mig: {value: full, source: m}
operations_per_clock: {fp16: {value: 1024, source: m}, fp32: {value: 256, source: m}}
sources: {m: {kind: example, title: made up}}
"""


def test_a_new_architecture_is_one_file(write: Write) -> None:
    """Its family, process, relatives and slices are in force without another file or a line of code."""
    card = (Path(__file__).parents[1] / "example-10.yaml").read_text()
    write(NEXT, "architectures/next.yaml")
    path = write(card.replace("architecture: ampere", "architecture: next"))
    spec = load_gpus(overlays=[path.parent])["example-10"]
    assert spec.design.process_m == pytest.approx(3e-9)
    assert replace(spec.design, process_m=None) == ChipDesign(
        family="gh100", has_shared_datapath=True, relatives=("9.0", "8.0"), mig=MigKind.FULL
    )
    assert mig_profiles(spec)[-1].units == spec.unit_count
    # what a power limit leaves follows the capacity fitted for the family, not the typical one
    laws, stranger = load_rate_laws().sustained, replace(spec, design=ChipDesign())
    fitted, typical = (laws.half.capacity_flops_per_joule[name] for name in ("gh100", ""))
    assert fitted > typical
    assert half_share(spec, laws).fraction > half_share(stranger, laws).fraction


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("mig: {value: seven, source: m}", r"mig\.value: 'seven'"),
        ("process: {value: 3, source: m}", r"process\.unit"),
        ("relatives: {value: [Hopper], source: m}", r"relatives"),
        ("familly: {value: gh100, source: m}", r"familly.*unknown"),
    ],
)
def test_facts_of_an_architecture_are_read_strictly(write: Write, line: str, refused: str) -> None:
    key = line.partition(":")[0]
    kept = [each for each in NEXT.splitlines() if not each.startswith(f"{key}:")]
    path = write("\n".join([*kept[:-1], line, kept[-1]]), "architectures/next.yaml")
    with pytest.raises(SpecError, match=refused):
        load_gpus(overlays=[path.parents[1]])


def test_architectures_of_one_compute_capability_have_one_family_of_kernels() -> None:
    stated: dict[tuple[int, int], set[tuple[object, ...]]] = {}
    for architecture in load_gpus().architectures.values():
        if architecture.compute_capability:
            design = architecture.design
            stated.setdefault(architecture.compute_capability, set()).add((design.relatives, design.mig))
    at_least(10, stated)
    assert {capability for capability, facts in stated.items() if len(facts) > 1} == set()
