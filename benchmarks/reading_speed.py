"""Time how long model files take to be read, and how much memory that takes beside the loaded libraries.

Usage:
    python benchmarks/reading_speed.py

Makes ONNX files of linear layers with about 100 MB and 1 GB of weights, a program of torch.export and a TorchScript
archive of 100 MB in a temporary folder; reads each in a process of its own, without tracing.
"""

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn

SIDE = 1024  # a layer of 4 MB
READ = """
import resource, sys, time
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target
import capplan.probe.target.sources.graph_files, capplan.probe.target.sources.exported
import capplan.probe.target.sources.graph_files
import onnx
request = parse_request(inputs=sys.argv[2:])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wall, cpu = time.perf_counter(), time.process_time()
load_target(sys.argv[1], request=request)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(time.perf_counter() - wall, time.process_time() - cpu, grown)
"""


def network(layers: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(SIDE, SIDE) for _ in range(layers))).eval()


def main() -> None:
    print("| file | size | read | processor time | memory beside the libraries |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.zeros(2, SIDE)
        for name, layers in (("small.onnx", 24), ("large.onnx", 240), ("program.pt2", 24), ("script.pt", 24)):
            path, module = Path(folder) / name, network(layers)
            if name.endswith(".onnx"):
                torch.onnx.export(module, (x,), str(path), dynamo=False, opset_version=17, input_names=["x"])
            elif name.endswith(".pt2"):
                torch.export.save(torch.export.export(module, (x,)), path)
            else:
                torch.jit.save(torch.jit.script(module), str(path))
            del module
            inputs = ["x=1024"] if name.endswith(".pt") else []
            done = subprocess.run(
                [sys.executable, "-c", READ, str(path), *inputs], check=True, capture_output=True, text=True
            )
            wall_s, cpu_s, kib = map(float, done.stdout.split())
            size = path.stat().st_size
            print(f"| {name} | {size / 1e6:.0f} MB | {wall_s:.2f} s | {cpu_s:.2f} s | {kib * 1024 / 1e6:.0f} MB |")
            path.unlink()


if __name__ == "__main__":
    main()
