"""Ask the drivers which GPUs are in this machine: NVML where it answers, else torch."""

from typing import Any

from capplan.core.gpus.names import InstalledGpu


def find_installed_gpus() -> tuple[tuple[InstalledGpu, ...], tuple[str, ...]]:
    """List the devices of this machine, and what kept each way of asking from answering."""
    reasons = []
    for ask in (_ask_nvml, _ask_torch):
        found = ask()
        if isinstance(found, str):
            reasons.append(found)
        elif found:
            return found, ()
    return (), tuple(reasons)


def _ask_nvml() -> tuple[InstalledGpu, ...] | str:
    try:
        import pynvml
    except ImportError:
        return "NVML: nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"NVML: {error}"
    try:
        return tuple(_nvml_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        return f"NVML: {error}"
    finally:
        pynvml.nvmlShutdown()


def _nvml_device(pynvml: Any, index: int) -> InstalledGpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)

    def optional(read: Any, *arguments: Any) -> Any:
        try:
            return read(handle, *arguments)
        except pynvml.NVMLError:
            return None

    name = pynvml.nvmlDeviceGetName(handle)
    pci = optional(pynvml.nvmlDeviceGetPciInfo)
    clock_mhz = optional(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM)
    power_mw = optional(pynvml.nvmlDeviceGetEnforcedPowerLimit)
    capability = optional(pynvml.nvmlDeviceGetCudaComputeCapability)
    memory = optional(pynvml.nvmlDeviceGetMemoryInfo)
    return InstalledGpu(
        index=index,
        name=name.decode() if isinstance(name, bytes) else name,
        told_by="NVML",
        pci_id=None if pci is None else f"{pci.pciDeviceId & 0xFFFF:04x}:{pci.pciDeviceId >> 16:04x}",
        driver_total_bytes=None if memory is None else memory.total,
        compute_capability=None if capability is None else (capability[0], capability[1]),
        power_limit_w=None if power_mw is None else power_mw / 1000,
        max_clock_hz=None if clock_mhz is None else clock_mhz * 1e6,
    )


def _ask_torch() -> tuple[InstalledGpu, ...] | str:
    import torch

    if not torch.cuda.is_available():
        return "torch: no CUDA or ROCm device"
    return tuple(_torch_device(index) for index in range(torch.cuda.device_count()))


def _torch_device(index: int) -> InstalledGpu:
    import torch

    properties = torch.cuda.get_device_properties(index)
    rocm = torch.version.hip is not None
    return InstalledGpu(
        index=index,
        name=properties.name,
        told_by="torch",
        total_bytes=properties.total_memory,
        unit_count=properties.multi_processor_count,
        compute_capability=None if rocm else (properties.major, properties.minor),
    )
