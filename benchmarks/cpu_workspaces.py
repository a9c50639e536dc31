"""Measure what oneDNN takes for a convolution on the CPU at hand: shares of the bytes that a call reads and writes.

Usage:
    OMP_NUM_THREADS=1 python benchmarks/cpu_workspaces.py

Linux only: the process's peak is read from /proc/self/status after it was set back. Prints a row for each convolution,
and the smallest, median and largest share by layout and number format, which `cpu_workspaces` in
capplan/calibrations/memory.yaml holds to one digit.
"""

import ctypes
import gc
from collections import defaultdict
from pathlib import Path
from statistics import median

import torch
from torch import nn

SHAPES = (
    (16, 64, 64, 3, 112, 1), (16, 256, 64, 1, 56, 1), (16, 3, 64, 7, 224, 1), (16, 512, 512, 3, 28, 1),
    (16, 128, 128, 3, 56, 32), (16, 128, 128, 3, 56, 128), (4, 1024, 1024, 3, 28, 1),
)  # fmt: skip
"""Batch, input and output channels, kernel, image, groups."""


def read_bytes(key: str) -> int:
    """Return a size that the kernel knows of this process. [bytes]"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) * 1024


def taken_bytes(layer: nn.Module, images: torch.Tensor) -> int:
    """Return what a call takes at its peak beyond its result. [bytes]"""
    with torch.inference_mode():
        layer(images)
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = read_bytes("VmRSS")
        made = layer(images)
        return read_bytes("VmHWM") - before - made.nbytes


def main() -> None:
    torch.set_num_threads(1)
    shares = defaultdict(list)
    for dtype in (torch.float32, torch.bfloat16):
        for layout in (torch.contiguous_format, torch.channels_last):
            for batch, channels, features, kernel, size, groups in SHAPES:
                images = torch.randn(batch, channels, size, size).to(dtype).to(memory_format=layout)
                layer = nn.Conv2d(channels, features, kernel, padding=kernel // 2, groups=groups, bias=False)
                layer = layer.to(dtype).to(memory_format=layout)
                with torch.inference_mode():
                    touched = images.nbytes + layer.weight.nbytes + layer(images).nbytes
                share = taken_bytes(layer, images) / touched
                shares[dtype, layout].append(share)
                print(f"{dtype}, {layout}, {channels} to {features}, kernel {kernel}, {groups} groups: {share:.2f}")
    for (dtype, layout), found in shares.items():
        print(f"{dtype}, {layout}: {min(found):.2f}, {median(found):.2f}, {max(found):.2f}")


if __name__ == "__main__":
    main()
