"""Compare the memory of models beyond the zoos with torch's own `MemTracker`, at one batch, in inference.

    python benchmarks/wild_memory.py [--batch 4] [LIBRARY:MODEL ...]     writes docs/wild-memory.md; without names, its models

`MemTracker` watches plain torch under `FakeTensorMode` on the CPU. Compared are weights, buffers, inputs and activations
at the peak; what an allocator rounds, workspaces and the CUDA context are in neither."""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

MODELS_COMPARED = (
    "geffnet:mnasnet_100", "resnest:resnest50", "pytorchcv:densenet121", "mlp-mixer-pytorch:MLPMixer",
    "g-mlp-pytorch:gMLP", "egnn-pytorch:EGNN", "halonet-pytorch:HaloAttention", "soft-moe-pytorch:SoftMoE",
    "axial-attention:AxialAttention", "lambda-networks:LambdaLayer", "siren-pytorch:SirenNet",
    "diffusers:AutoencoderTiny", "diffusers:UNet2DConditionModel (SD 1.5)", "ultralytics:yolov8n",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", default=MODELS_COMPARED, metavar="LIBRARY:MODEL")
    options = parser.parse_args()
    if options.one:
        from wild_models import MODELS

        sys.path.remove(str(Path(__file__).parent))  # its coverage.py would stand in for the package of that name
        (model,) = (known for known in MODELS if known.key == options.one)
        ours, theirs = predicted_bytes(model, options.batch), tracked_bytes(model, options.batch)
        print(f"| {options.one} | {ours:,} | {theirs:,} | {ours - theirs:+,} |", flush=True)
        return
    for key in options.models:
        words = [sys.executable, "-W", "ignore", __file__, "--batch", str(options.batch), "--one", key]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        print(done.stdout.strip() or f"| {key} | {done.stderr.strip().splitlines()[-1][:200]} | | |", flush=True)


def predicted_bytes(model: Any, batch: int) -> int:
    """Return what capplan predicts: storages alive at the peak, without workspaces. [bytes]"""
    from capplan.core.memory.liveness import live_curve
    from capplan.probe.inputs.tensors import FunctionInputs
    from capplan.probe.target.types import Target
    from capplan.probe.trace.tracer import trace_target

    inputs = FunctionInputs(words=model.name, function=model.inputs)
    target = Target(name=model.name, words=model.key, library="package", builder=model.build, inputs=inputs)
    recording = trace_target(target).recordings[0]
    if recording.exact_batch not in (None, batch):
        recording = trace_target(target, exact_batch=batch).recordings[0]
    return int(live_curve(recording).peak_bytes(batch))


def tracked_bytes(model: Any, batch: int) -> int:
    """Return the peak that torch's `MemTracker` sees in one forward pass without gradients. [bytes]"""
    from capplan.probe.inputs.tensors import map_tensors

    made = model.inputs(batch)
    args = made if isinstance(made, tuple) else () if isinstance(made, dict) else (made,)
    kwargs = made if isinstance(made, dict) else {}
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        module = model.build().eval()
        args, kwargs = map_tensors((args, kwargs), fake.from_tensor)
        tracker = MemTracker()
        tracker.track_external(module, *args, *kwargs.values())
        with torch.no_grad(), tracker:
            module(*args, **kwargs)
        peak: int = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    return peak


if __name__ == "__main__":
    main()
