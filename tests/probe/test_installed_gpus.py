"""Asking NVML, with a library that answers like the real one on a machine with an A100."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from capplan.probe.installed_gpus import find_installed_gpus


class NVMLError(Exception):
    pass


def library(**changes: Any) -> ModuleType:
    def refuse(*_: object) -> None:
        raise NVMLError("Not Supported")

    module = ModuleType("pynvml")
    answers = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _: b"NVIDIA A100-SXM4-40GB",  # bytes in older releases
        # device and vendor as NVML packs them: A100 SXM4 40GB is 20b0 of vendor 10de
        "nvmlDeviceGetPciInfo": lambda _: SimpleNamespace(pciDeviceId=0x20B010DE),
        "nvmlDeviceGetMaxClockInfo": lambda *_: 1410,
        "nvmlDeviceGetEnforcedPowerLimit": lambda _: 400_000,
        "nvmlDeviceGetCudaComputeCapability": lambda _: (8, 0),
        "nvmlDeviceGetMemoryInfo": refuse,
    }
    for name, answer in (answers | changes).items():
        setattr(module, name, answer)
    return module


def test_nvml_is_read_and_what_it_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library())
    (device,), reasons = find_installed_gpus()
    assert (device.name, device.pci_id, device.told_by) == ("NVIDIA A100-SXM4-40GB", "10de:20b0", "NVML")
    assert (device.power_limit_w, device.max_clock_hz, device.compute_capability) == (400.0, 1410e6, (8, 0))
    assert device.driver_total_bytes is None
    assert reasons == ()


def test_what_kept_both_ways_from_answering_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def missing() -> None:
        raise NVMLError("Driver Not Loaded")

    monkeypatch.setitem(sys.modules, "pynvml", library(nvmlInit=missing))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_installed_gpus() == ((), ("NVML: Driver Not Loaded", "torch: no CUDA or ROCm device"))


@pytest.mark.device
def test_the_gpus_of_this_machine_are_found() -> None:
    import torch

    devices, _ = find_installed_gpus()
    assert len(devices) == torch.cuda.device_count()
    assert all(device.name for device in devices)
