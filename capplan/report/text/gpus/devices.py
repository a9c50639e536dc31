"""What a device reached, as a table."""

from capplan.core.calibrate.device import DeviceBenchmark
from capplan.core.latency.calibration import HostCosts
from capplan.report.table import Table, table
from capplan.units import format_bytes, format_bytes_per_s, format_flops_per_s, format_seconds


def device_table(found: DeviceBenchmark) -> Table:
    """List what was measured: products, copies, launches, memory."""
    rows = [
        (f"matrix product, {each.precision}, {each.size}", format_flops_per_s(each.flops_per_s), _time(each.latency_s))
        for each in found.matmuls
    ]
    rows += [
        (f"copy of {format_bytes(each.size_bytes)}", format_bytes_per_s(each.bytes_per_s), _time(each.latency_s))
        for each in found.copies
    ]
    rows += [("smallest kernel, on the device", "", _time(found.kernel_s))]
    rows += [("dispatch of a kernel, on the host", "", _time(found.dispatch_s))]
    memory = (
        ("context outside the allocator", found.context_bytes),
        ("memory in all", found.total_bytes),
        ("memory that can be allocated", found.usable_bytes),
    )
    rows += [(title, "unknown" if size is None else format_bytes(size), "") for title, size in memory]
    return table("what|reached>|time>", rows)


def host_table(costs: HostCosts) -> Table:
    """List what calls into PyTorch cost on a host."""
    rows = [(f"{label}, one call", _time(cost)) for label, cost in costs.operators_s.items()]
    rows += [("a call that launches nothing", _time(costs.call_s)), ("a launch, on top", _time(costs.launch_s))]
    return table(f"{costs.cpu}, torch {costs.torch}|time>", rows)


def _time(time_s: float | None) -> str:
    return "unknown" if time_s is None else format_seconds(time_s)
