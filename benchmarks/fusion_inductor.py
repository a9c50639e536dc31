"""Compare capplan's fusion with Inductor's own scheduler, model by model: `python benchmarks/fusion_inductor.py`.

Inductor lowers and schedules each graph for this machine's CPU and is stopped before it generates code: no compiler
runs, no GPU is needed. CPU and GPU share lowering and most of the scheduler, but not all: on a CPU convolutions are
always channels-last (weights and images are given so, lest copies of them count), concatenations are always kernels
of their own, one per input, and reductions are not split. So counts tell whether the same chains become one kernel,
not how fast.
"""

import torch
from torch._inductor import scheduler
from torch._inductor.graph import GraphLowering

from capplan.core.compiled.rewrite import fuse_recording
from capplan.core.workload import Configuration
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target

MODELS = (
    "resnet18", "resnet50", "vgg11_bn", "densenet121", "squeezenet1_0", "mobilenet_v2", "mobilenet_v3_small",
    "efficientnet_b0", "shufflenet_v2_x1_0", "regnet_y_400mf", "convnext_tiny", "vit_b_16", "swin_t",
)  # fmt: skip


class ScheduledError(Exception):
    """Carries what Inductor scheduled out of the compiler."""


def _target(name: str) -> Target:
    return load_target(f"torchvision:{name}", request=InputRequest())


def inductor_counts(name: str) -> tuple[int, int]:
    """How many fused and how many library kernels Inductor schedules for a model."""
    found: list[tuple[int, int]] = []

    def stop(graph: GraphLowering) -> None:
        graph._update_scheduler()
        nodes = graph.scheduler.nodes
        library = sum(isinstance(node, scheduler.ExternKernelSchedulerNode) for node in nodes)
        empty = sum(isinstance(node, scheduler.NopKernelSchedulerNode) for node in nodes)
        found.append((len(nodes) - library - empty, library))
        raise ScheduledError

    module = _target(name).build().eval().to(memory_format=torch.channels_last)
    images = torch.zeros(2, 3, 224, 224).to(memory_format=torch.channels_last)
    original, GraphLowering.codegen = GraphLowering.codegen, stop  # type: ignore[method-assign,assignment]
    try:
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(module)(images)
    except torch._dynamo.exc.BackendCompilerFailed as error:
        if "Scheduled" not in str(error):
            raise
    finally:
        GraphLowering.codegen = original  # type: ignore[method-assign]
    if len(found) != 1:
        raise RuntimeError(f"{name} was compiled in {len(found)} graphs; only whole ones can be compared.")
    return found[0]


def own_counts(name: str) -> tuple[int, int]:
    """How many fused and how many library kernels capplan's fusion makes of the same model."""
    trace = trace_target(_target(name))
    fused = fuse_recording(trace.recording(Configuration()))
    kernels = [fused.kernels[op.kernel].name for op in fused.ops]
    own = kernels.count("capplan.fused")
    return own, len(kernels) - own


def main() -> None:
    """Print the table."""
    print(f"torch {torch.__version__}: fused + library kernels")
    print(f"{'model':22} {'Inductor':>12} {'capplan':>12} {'ratio':>6}")
    for name in MODELS:
        theirs, ours = inductor_counts(name), own_counts(name)
        ratio = sum(ours) / sum(theirs)
        print(f"{name:22} {theirs[0]:5} + {theirs[1]:4} {ours[0]:5} + {ours[1]:4} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
