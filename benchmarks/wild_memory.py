"""Compare the memory of models beyond the zoos with torch's own `MemTracker`, at one batch, in inference.

    python benchmarks/wild_memory.py [--batch 4] [LIBRARY:MODEL ...]   writes docs/evidence/wild.md if none is named

`MemTracker` watches plain torch under `FakeTensorMode` on the CPU. Compared are weights, buffers, inputs and
activations at the peak; what an allocator rounds, workspaces and the CUDA context are in neither.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pages import EVIDENCE, write_section
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

MODELS_COMPARED = (
    "geffnet:mnasnet_100", "geffnet:mixnet_s", "resnest:resnest50", "pytorchcv:densenet121", "pytorchcv:dla34",
    "pytorchcv:ghostnet", "pytorchcv:hrnet_w18_small_v1", "pytorchcv:inceptionv3", "mlp-mixer-pytorch:MLPMixer",
    "g-mlp-pytorch:gMLP", "g-mlp-pytorch:gMLPVision", "egnn-pytorch:EGNN", "egnn-pytorch:EGNN_Network",
    "halonet-pytorch:HaloAttention", "axial-attention:AxialAttention", "axial-attention:AxialImageTransformer",
    "lambda-networks:LambdaLayer", "siren-pytorch:Siren", "siren-pytorch:SirenNet",
    "invariant-point-attention:InvariantPointAttention", "soft-moe-pytorch:SoftMoE", "ultralytics:yolov8n",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", metavar="LIBRARY:MODEL")
    options = parser.parse_args()
    if options.one:
        compare(options.one, options.batch)
        return
    rows = []
    for key in options.models or MODELS_COMPARED:
        words = [sys.executable, "-W", "ignore", __file__, "--batch", str(options.batch), "--one", key]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        failure = (done.stderr.strip() or "no answer").splitlines()[-1].rpartition("Error: ")[2][:120]
        rows.append(done.stdout.strip() or f"| {key.replace(':', ' | ')} | | | {failure} |")
        print(rows[-1], flush=True)
    if not options.models:
        write_section(EVIDENCE / "wild.md", "wild_memory.py", render(rows, options.batch))


def compare(key: str, batch: int) -> None:
    """Print one model's row: library and release, model, both peaks and their difference."""
    from wild_models import MODELS

    sys.path.remove(str(Path(__file__).parent))  # its coverage.py would stand in for the package of that name
    (model,) = (known for known in MODELS if known.key == key)
    ours, theirs = predicted_bytes(model, batch), tracked_bytes(model, batch)
    difference = f"{ours - theirs:+,}" if ours != theirs else "0"
    print(f"| {model.library} {version(model.library)} | {model.name} | {ours:,} | {theirs:,} | {difference} |")


def render(rows: Sequence[str], batch: int) -> str:
    """Write the page: how many are equal, then a row per model."""
    judged = [row for row in rows if "|  |" not in row and "| | |" not in row]
    equal = sum(row.endswith("| 0 |") for row in judged)
    return f"""Peak bytes of weights, buffers, inputs and activations in inference at batch {batch}, against what
torch's `MemTracker` sees while plain torch {torch.__version__} runs the model under `FakeTensorMode`. The
allocator's rounding, workspaces and the CUDA context are in neither. Remade by `python benchmarks/wild_memory.py` where
the libraries are installed.

{len(judged)} models compared; {equal} equal to the byte. Where the tracker cannot run a model, the row says why.

| library | model | capplan | MemTracker | difference |
| --- | --- | --: | --: | --: |
{chr(10).join(rows)}
"""


def predicted_bytes(model: Any, batch: int) -> int:
    """Return what capplan predicts: storages alive at the peak, without workspaces. [bytes]"""
    from capplan.core.memory.schedule import live_curve
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
