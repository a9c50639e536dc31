from dataclasses import replace

import pytest

from capplan.core.gpus.names import InstalledGpu, differences, match_gpu
from capplan.core.gpus.spec import GpuSpec

GIB = 2**30
TEN = GpuSpec(
    id="ten-10gb", name="NVIDIA Ten 10GB", vendor="NVIDIA", architecture="Ampere", aliases=("NVIDIA Ten",),
    pci_ids=("10de:0001",), compute_capability=(8, 6), memory_bytes=10 * GIB, memory_bandwidth_bytes_per_s=760e9,
    usable_bytes=round(9.8 * GIB), unit_count=68, boost_clock_hz=1710e6, tdp_w=320.0,
)  # fmt: skip
TWELVE = replace(TEN, id="ten-12gb", name="NVIDIA Ten 12GB", aliases=(), pci_ids=("10de:0002",), memory_bytes=12 * GIB)
TWIN = replace(TEN, id="twin", name="Twin", aliases=(), pci_ids=("10de:0003",))
OTHER_TWIN = replace(TEN, id="other-twin", name="Other Twin", aliases=(), pci_ids=("10de:0003",))
ALL = (TEN, TWELVE, TWIN, OTHER_TWIN)


@pytest.mark.parametrize(
    ("name", "pci_id", "found"),
    [
        ("NVIDIA Ten", None, "ten-10gb"),
        ("nvidia ten", "10de:ffff", "ten-10gb"),
        ("NVIDIA Ten", "10de:0002", "ten-12gb"),  # the same name on another chip
        ("Other Twin", "10de:0003", "other-twin"),  # two specs share the id: the name decides
        ("NVIDIA Ten Laptop GPU", None, None),  # never by a part of the name
        ("Ten", None, None),
    ],
)
def test_a_device_is_matched_by_pci_id_or_whole_name(name: str, pci_id: str | None, found: str | None) -> None:
    device = InstalledGpu(index=0, name=name, told_by="NVML", pci_id=pci_id)
    spec = match_gpu(device, ALL)
    assert (spec.id if spec else None) == found


@pytest.mark.parametrize(("size_gib", "found"), [(9.97, "ten-10gb"), (11.9, "ten-12gb"), (16, None)])
def test_where_two_sizes_have_one_name_the_memory_decides(size_gib: float, found: str | None) -> None:
    device = InstalledGpu(index=0, name="NVIDIA Ten", told_by="torch", total_bytes=round(size_gib * GIB))
    spec = match_gpu(device, [replace(TEN, aliases=()), TWELVE])
    assert (spec.id if spec else None) == found


def test_differences_are_told() -> None:
    device = InstalledGpu(
        index=0, name="NVIDIA Ten", told_by="torch", total_bytes=9 * GIB, unit_count=70, compute_capability=(8, 0),
        power_limit_w=250.0, max_clock_hz=1500e6,
    )  # fmt: skip
    told = {each.key: (each.found, each.specified) for each in differences(device, TEN)}
    assert told == {
        "usable": ("9.00 GiB", "9.80 GiB"),
        "units": ("70", "68"),
        "compute_capability": ("8.0", "8.6"),
        "tdp": ("250 W", "320 W"),
        "boost_clock": ("1500 MHz", "1710 MHz"),
    }


def test_the_card_itself_has_none_even_if_it_clocks_higher() -> None:
    device = InstalledGpu(
        index=0, name="NVIDIA Ten", told_by="NVML", total_bytes=round(9.79 * GIB), driver_total_bytes=10 * GIB,
        unit_count=68, power_limit_w=320.0, max_clock_hz=2100e6,
    )  # fmt: skip
    assert differences(device, TEN) == ()
