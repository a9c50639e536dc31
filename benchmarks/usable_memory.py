"""Print what drivers leave of printed memory, by its kind: medians that other GPUs of the kind are expected to have.

    python benchmarks/usable_memory.py

Readings are those of `gpu_specs/` (`usable`, what torch reports as total_memory). Beside each median stands the share
in force (`GpuSpec.expected_usable_bytes`), which rests on public logs of more cards than have a file.
"""

from collections import defaultdict
from dataclasses import replace
from statistics import median

from capplan.core.gpus.spec import GpuSpec
from capplan.specs import load_gpus


def kind_of(gpu: GpuSpec) -> str:
    """Name the kind of memory that decides a GPU's share."""
    if gpu.vendor == "AMD":
        return "AMD"
    memory = gpu.memory_type or ""
    if memory.startswith("LPDDR"):
        return "shared with the host"
    if memory.startswith("GDDR"):
        return "GDDR with ECC" if gpu.ecc == "default" else "GDDR"
    return "HBM"


def main() -> None:
    """Print the medians."""
    gpus = load_gpus()
    shares: dict[str, list[float]] = defaultdict(list)
    in_force: dict[str, float] = {}
    for gpu in (gpus[name] for name in gpus):
        if gpu.is_cpu or gpu.usable_bytes is None:
            continue
        shares[kind_of(gpu)].append(gpu.usable_bytes / gpu.memory_bytes)
        in_force[kind_of(gpu)] = replace(gpu, usable_bytes=None).expected_usable_bytes / gpu.memory_bytes
    for kind, found in sorted(shares.items()):
        print(f"{kind}: {median(found):.4f} of {len(found)} GPUs, {in_force[kind]:.4f} in force")


if __name__ == "__main__":
    main()
