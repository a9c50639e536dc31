"""Find a device by its name, among those that torch can use here."""

import torch

from capplan.errors import MeasurementError
from capplan.probe.foreign.code import first_line
from capplan.probe.measure.device import TorchDevice
from capplan.probe.measure.devices import CpuDevice, CudaDevice, MpsDevice, XpuDevice, cpu_name

_CLASSES: dict[str, type[TorchDevice]] = {"cpu": CpuDevice, "cuda": CudaDevice, "xpu": XpuDevice, "mps": MpsDevice}


def open_device(words: str | None) -> TorchDevice:
    """Find a device by its name ("cuda:0", "cpu"); without one, the first accelerator at hand, else the CPU.

    Raises:
        MeasurementError: no such device here; the message names those at hand.
    """
    at_hand = devices_at_hand()
    chosen = words or next(iter(at_hand))
    try:
        wanted = torch.device(chosen)
    except RuntimeError:
        wanted = None
    if wanted is not None and wanted.type != "cpu" and wanted.index is None:
        wanted = torch.device(wanted.type, 0)
    if wanted is None or str(torch.device(wanted.type) if wanted.type == "cpu" else wanted) not in at_hand:
        listed = ", ".join(f"{name} ({label})" for name, label in at_hand.items())
        broken = _broken_cuda() if chosen.startswith("cuda") else None
        raise MeasurementError(f"no device {chosen!r} here{f' ({broken})' if broken else ''}; at hand: {listed}.")
    return _CLASSES[wanted.type](torch.device("cpu") if wanted.type == "cpu" else wanted)


def devices_at_hand() -> dict[str, str]:
    """Name the devices that torch can use here, accelerators first, with what their drivers call them."""
    found: dict[str, str] = {}
    if _broken_cuda() is None:
        found = {f"cuda:{index}": torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    if torch.xpu.is_available():
        found |= {f"xpu:{index}": torch.xpu.get_device_name(index) for index in range(torch.xpu.device_count())}
    if torch.backends.mps.is_available():
        found["mps:0"] = "Apple GPU"
    return {**found, "cpu": cpu_name()}


def _broken_cuda() -> str | None:
    """Return why CUDA is unusable although the driver lists devices; None if it is usable, or lists none."""
    if not torch.cuda.device_count():
        return None
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]  # untyped in torch
    except (RuntimeError, AssertionError) as error:  # a driver too old for this torch, or one that lost its device
        return first_line(error)
    return None
