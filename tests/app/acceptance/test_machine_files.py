"""Recorded outputs of drivers' tools; written by their documented forms, not recorded on a machine."""

from pathlib import Path

import pytest

from capplan.app.acceptance.machine_files import read_machine
from capplan.errors import UsageError

GPU = """GPU 00000000:{bus}:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Disabled
    ECC Mode
        Current                           : {ecc}
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 3
            SRAM Uncorrectable Parity     : 0
            DRAM Uncorrectable            : {errors}
        Aggregate
            DRAM Uncorrectable            : 9
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 4 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    GPU Power Readings
        Current Power Limit               : {watts} W
        Default Power Limit               : 700.00 W
    Clocks
        SM                                : 345 MHz
    Max Clocks
        SM                                : 1980 MHz
"""
HEAD = """
==============NVSMI LOG==============

Driver Version                            : 570.124.06
Attached GPUs                             : 2
"""
TOPOLOGY = """	\x1b[4mGPU0	GPU1	GPU2	NIC0	CPU Affinity	NUMA Affinity	GPU NUMA ID\x1b[0m
GPU0	 X 	NV18	NV18	PXB	0-51	0		N/A
GPU1	NV18	 X 	SYS	SYS	0-51	0		N/A
GPU2	NV18	SYS	 X 	SYS	52-103	1		N/A
NIC0	PXB	SYS	SYS	 X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
"""


def smi(*, count: int = 2, watts: str = "700.00", errors: str = "0", ecc: str = "Enabled") -> str:
    """Return what `nvidia-smi -q` writes of equal devices."""
    return HEAD + "".join(GPU.format(bus=f"{place:02X}", watts=watts, errors=errors, ecc=ecc) for place in range(count))


def written(folder: Path, text: str, name: str = "smi.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_nvidia_smi_names_devices_with_memory_power_clocks_and_errors(tmp_path: Path) -> None:
    devices = read_machine([written(tmp_path, smi(watts="500.00", errors="2"))])
    assert [device.name for device in devices] == ["NVIDIA H100 80GB HBM3"] * 2
    [first, _] = devices
    assert first.memory_bytes == 81559 * 2**20  # of the frame buffer, not of BAR1
    assert first.power_limit_w == 500.0
    assert first.max_clock_hz == 1.98e9  # the highest, not the current one
    assert first.ecc_on is True
    assert first.uncorrected_errors == 2  # since the last start, not over the card's life
    assert first.driver == "570.124.06"


def test_topology_gives_each_device_its_slowest_link(tmp_path: Path) -> None:
    devices = read_machine([written(tmp_path, smi(count=3)), written(tmp_path, TOPOLOGY, "topo.txt")])
    assert [device.link for device in devices] == ["NV18", "SYS", "SYS"]


def test_what_a_card_does_not_report_is_unknown(tmp_path: Path) -> None:
    [device, _] = read_machine([written(tmp_path, smi(watts="[N/A]", ecc="N/A", errors="N/A"))])
    assert device.power_limit_w is None
    assert device.ecc_on is None
    assert device.uncorrected_errors == 0  # of the counters that it has


def test_rocm_smi_names_its_cards(tmp_path: Path) -> None:
    text = (
        '{"card0": {"Card Series": "AMD Instinct MI300X OAM", "VRAM Total Memory (B)": "206141652992", '
        '"Max Graphics Package Power (W)": "750.0"}, "system": {"Driver version": "6.12.12"}}'
    )
    [device] = read_machine([written(tmp_path, text, "rocm.json")])
    assert (device.name, device.memory_bytes) == ("AMD Instinct MI300X OAM", 206141652992)
    assert (device.power_limit_w, device.driver) == (750.0, "6.12.12")


@pytest.mark.parametrize("text", ["hello", "", "{}", '{"card0": 3}', "GPU 00000000:19:00.0\n"])
def test_other_outputs_are_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"smi\.txt"):
        read_machine([written(tmp_path, text)])


def test_a_topology_alone_names_no_device(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no GPU"):
        read_machine([written(tmp_path, TOPOLOGY, "topo.txt")])
