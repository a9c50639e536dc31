"""Own spec files that must be refused: one clear error with file and key, and nothing of the file is loaded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from capplan.errors import CapplanError
from capplan.specs import load_gpus

Write = Callable[..., Path]

WHOLE_CARD = (Path(__file__).parent / "example-10.yaml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("value: 1500", "value: 1e12", "boost_clock.value: 1e12 is not a plain number"),
        ("value: 1500", "value: no", "boost_clock.value: YAML does not read 'no'"),
        ("value: 1500", "value: '1500'", "boost_clock.value: must be a number, not '1500'"),
        ("value: 1500", "value: true", "boost_clock.value: must be a number, not True"),
        ("value: 1500", "value: -1500", "boost_clock.value: -1500 is out of range"),
        ("unit: MHz", "unit: Mhz", "boost_clock.unit: unknown unit 'Mhz'; use MHz, GHz"),
        ("unit: MHz", "unit: [MHz]", "boost_clock.unit: unknown unit ['MHz']"),
        ("value: 16, unit: GiB", "value: 16, unit: GB", "memory.unit: unknown unit 'GB'; use GiB, MiB"),
        ("value: 16, unit: GiB", "value: 16", "memory.unit: is missing; use GiB, MiB"),
        ("memory: {", "memori: {", "memori: unknown key; did you mean memory"),
        ("name: Example 10", "name: 10", "name: must be text, not 10"),
        ("units: {value: 10, source: made-up}", "units: 10", "units: must be {value: ..., source: ...}, not 10"),
        ("units: {value: 10, source: made-up}", "units: {value: 10}", "units.source: is missing"),
        ("units: {value: 10, source: made-up}", "units: {value: 1.5, source: made-up}", "units.value: must be a whole"),
        ("units: {value: 10, source: made-up}", "units: null", "units: cannot be null; leave it out if it is unknown"),
        ("source: made-up}\ntdp", "source: datashet}\ntdp", "peak.fp16.source: 'datashet' is not under sources"),
        ("kind: example", "kind: guess", "sources.made-up.kind: 'guess' is not known; use datasheet"),
        ("kind: example", "kind: datasheet", "sources.made-up.retrieved: somebody else's document needs the day"),
        ("  made-up: {", "  other: {kind: example, title: x}\n  made-up: {", "sources.other: is used by no value"),
        ("architecture: ampere", "architecture: amper", "architecture: 'amper' has no file under architectures/"),
        ("architecture: ampere\n", "", "architecture: is missing"),
        ("value: GDDR6,", "value: GDDR9,", "memory_type.value: 'GDDR9' is not known; use DDR4, DDR5, GDDR5"),
        ("value: 15.36", "value: 30.72", "peak.fp16: 30.7 TFLOP/s is twice units × clock × operations per clock"),
        ("value: 15.36", "value: 17", "peak.fp16: 17.0 TFLOP/s is +10.7 % off units × clock"),
        ("value: 448", "value: 896", "bandwidth: 896 GB/s is +100.0 % off bus × data rate (448 GB/s)"),
        ("value: 14, unit: Gbit/s", "value: 28, unit: Gbit/s", "memory_data_rate: 28 Gbit/s is not a rate of GDDR6"),
        (
            "value: 15.36, unit: TFLOP/s",
            "value: 15.36, unit: TFLOP/s, printed: {value: 15.36, sparse_factor: 2}",
            "peak.fp16.printed: 15.36 is not 2 times the dense 15.36",
        ),
        ("[Example Device 10]", "[Tesla T4]", "aliases: 'Tesla T4' already names t4"),
        ("[Example Device 10]", "[tesla t4]", "aliases: 'tesla t4' already names t4"),
        ("[Example Device 10]", "[a10]", "aliases: 'a10' already names a10"),
        ("[Example Device 10]", "[X, X]", "aliases: holds the same text twice"),
        ("tdp: {", "capped_from: a1000\ntdp: {", "capped_from: 'a1000' is no GPU with a tdp"),
        ("tdp: {", "capped_from: l4\ntdp: {", "tdp: a capped edition has less than the full card's 72 W"),
        ("tdp: {", "tdp_min: {value: 200, unit: W, source: made-up}\ntdp: {", "tdp_min: 200 W is above tdp (100 W)"),
        ("tdp: {", "usable: {value: 12, unit: GiB, source: made-up}\ntdp: {", "usable: 12.0 GiB is 0.750 of"),
        ("tdp: {", "notes: yes\ntdp: {", "notes: YAML does not read 'yes'"),
        ("tdp: {", "exemptions: [{rule: x, keys: [], reason: why}]\ntdp: {", "exemptions[0].rule: 'x' is not a rule"),
        ("tdp: {", "exemptions: [{rule: ridge, keys: [[1]], reason: why}]\ntdp: {", "exemptions[0].keys: must be a"),
        ("fp16: {", "fp8: {value: 30.72, unit: TFLOP/s, source: made-up}\n  fp16: {", "peak.fp8: architecture ampere"),
    ],
)  # fmt: skip
def test_an_own_file_is_refused_with_file_and_key(write: Write, old: str, new: str, refusal: str) -> None:
    assert old in WHOLE_CARD
    path = write(WHOLE_CARD.replace(old, new, 1))
    with pytest.raises(CapplanError) as caught:
        load_gpus(overlays=[path])
    assert caught.value.exit_code == 2
    assert f"{path}: {refusal}" in str(caught.value)


def test_the_whole_card_itself_is_accepted(write: Write) -> None:
    assert load_gpus(overlays=[write()]).find("Example Device 10").unit_count == 10


def test_all_problems_of_all_files_are_told_at_once(write: Write) -> None:
    write(WHOLE_CARD.replace("unit: MHz", "unit: Mhz").replace("kind: example", "kind: guess"))
    write("a: no\n", "other.yaml")
    folder = write("b: &x 1\n", "third.yaml").parent
    with pytest.raises(CapplanError) as caught:
        load_gpus(overlays=[folder])
    named = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert {"boost_clock.unit", "sources.made-up.kind", "a", "b"} <= set(named)


def test_an_id_must_be_typable(write: Write) -> None:
    with pytest.raises(CapplanError, match=r"the id 'My Card' \(the file's stem\) must be small letters"):
        load_gpus(overlays=[write(name="My Card.yaml")])


def test_an_overlay_that_is_no_spec_is_refused(write: Write) -> None:
    path = write(name="card.json")
    with pytest.raises(CapplanError, match=r"is neither a folder of specs nor a \.yaml file"):
        load_gpus(overlays=[path])
