"""Compare capplan's fusion with Inductor's own kernels for CUDA, model by model.

    python benchmarks/fusion_inductor.py [MODEL...] [-v MODEL]

Inductor lowers and schedules each graph for a GPU that is not there: tensors are fake ones on `cuda:0`, the questions
about the device get the answers of an RTX 4090, and the compiler is stopped before it would call Triton. Nothing is
compiled, neither CUDA nor Triton is needed.

Counted are kernels that Inductor generates (Triton) and those of libraries, and the bytes that the former read and
write: of each buffer what is read of it, at most the whole, once a kernel. `-v MODEL` lists the kernels of one model,
both ways.
"""

import argparse
import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._dynamo.device_interface import CudaInterface
from torch._guards import TracingContext, tracing
from torch._inductor import compile_fx, config, ir, scheduler
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.exc import InductorError
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils import _triton

from capplan.core.compiled.rewrite import fuse_recording
from capplan.core.trace.types import Recording
from capplan.core.workload import Configuration, Variant
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.record.shape_rules import suggests_channels_last
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target

MODELS = (
    "resnet18", "tf_efficientnet_b0", "efficientnet_cc_b0_4e", "skresnet18", "resnetv2_50d_frn", "regnetz_b16",
    "regnetz_040", "mobilenetv3_large_100", "ghostnetv2_100", "convnext_atto", "hiera_tiny_224", "hiera_base_224",
    "maxvit_rmlp_pico_rw_256", "maxvit_tiny_tf_224", "fastvit_t8", "fastvit_sa12", "efficientvit_b0", "efficientvit_b1",
    "efficientvit_m0", "mobileone_s0", "repvit_m1", "nest_tiny", "twins_svt_small", "samvit_base_patch16_224",
    "davit_tiny", "gmlp_s16_224", "vit_tiny_patch16_224", "mobilenetv5_base",
)  # fmt: skip
BATCH = 256
_GPU = SimpleNamespace(
    name="NVIDIA GeForce RTX 4090", major=8, minor=9, total_memory=24 * 2**30, multi_processor_count=128,
    max_threads_per_multi_processor=1536, max_threads_per_block=1024, warp_size=32, regs_per_multiprocessor=65536,
    L2_cache_size=72 * 2**20, shared_memory_per_block=49152, shared_memory_per_block_optin=101376,
    shared_memory_per_multiprocessor=102400, gcnArchName="",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What is launched for a model: generated kernels, library calls, and what the former move. [bytes]"""

    fused: int
    library: int
    moved_bytes: int
    lines: tuple[str, ...] = ()


class _StoppedError(Exception):
    """Stops the compiler before it generates code."""


def _answers(value: Any) -> Any:
    return lambda *_, **__: value


@contextlib.contextmanager
def pretended_gpu() -> Iterator[None]:
    """Let Inductor believe that there is a GPU: what it asks is answered, what would run on one is left out."""

    def layout(x: torch.Tensor, weight: torch.Tensor, _: Any) -> torch.memory_format:
        last = x.dim() == 4 and (suggests_channels_last(x) or suggests_channels_last(weight))
        return torch.channels_last if last else torch.contiguous_format

    patches: list[tuple[Any, str, Any]] = [
        (torch.cuda, "get_device_properties", _answers(_GPU)), (torch.cuda, "get_device_capability", _answers((8, 9))),
        (torch.cuda, "current_device", _answers(0)), (torch.cuda, "device_count", _answers(1)),
        (CudaInterface, "get_device_properties", staticmethod(_answers(_GPU))),
        (CudaInterface.Worker, "get_device_properties", staticmethod(_answers(_GPU))),
        (CudaInterface, "get_compute_capability", staticmethod(_answers(89))),
        (CudaInterface, "is_available", staticmethod(_answers(True))),
        (CudaInterface, "current_device", staticmethod(_answers(0))),
        (CudaInterface, "raise_if_triton_unavailable", staticmethod(_answers(None))),
        (_triton, "has_triton", _answers(True)), (scheduler, "has_triton", _answers(True)),
        (joint_graph, "lazy_init", _answers(None)), (post_grad, "lazy_init", _answers(None)),
        (torch._C, "_conv_determine_backend_memory_format", layout),
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        for holder, name, value in patches:
            stack.enter_context(mock.patch.object(holder, name, value))
        yield


class _WithoutDevice(TorchFunctionMode):
    """Index, copy and attend by operators: these functions ask for the device in C++, where there is none."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.__getitem__ and not args[0].is_cpu:
            return _indexed(*args)
        if func is torch.nn.functional.scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        if func is torch.Tensor.contiguous and not args[0].is_cpu and not args[0].is_contiguous():
            return torch.ops.aten.clone.default(args[0], memory_format=torch.contiguous_format)
        return func(*args, **(kwargs or {}))


_WIDTHS = 8
"""FlashAttention and masks take rows of a multiple of 8 elements; others are padded before the call."""


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any = None, **options: Any
) -> torch.Tensor:
    """Return attention as CUDA would run it in 16 bits: FlashAttention, with a mask memory-efficient, else written out.

    The order of `scaled_dot_product_attention` in aten/src/ATen/native/transformers/attention.cpp, the conditions of
    `check_tensor_shapes` and `check_for_attn_mask` in cuda/sdp_utils.cpp: fused kernels take four dimensions alone, and
    as many heads of keys as of queries.
    """
    query, key, value = (each.to(torch.float16) for each in (query, key, value))
    width, scale = query.shape[-1], options.get("scale")
    if query.dim() != 4 or query.shape[1] != key.shape[1] or (attn_mask is not None and width % _WIDTHS):
        with _without_autocast():
            return _written_out(query, key, value, attn_mask, scale)
    if attn_mask is None:
        query, key, value = (_padded(each) for each in (query, key, value))
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        found: torch.Tensor = flash(query, key, value, scale=width**-0.5 if scale is None else scale)[0]
        return found.narrow(-1, 0, width)
    mask = _padded(attn_mask.to(torch.float16)).narrow(-1, 0, attn_mask.shape[-1])
    call = torch.ops.aten._scaled_dot_product_efficient_attention
    shared: torch.Tensor = call(query, key, value, mask.expand(*query.shape[:-1], key.shape[-2]), False, scale=scale)[0]
    return shared


def _written_out(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any, scale: float | None
) -> torch.Tensor:
    """Return `_scaled_dot_product_attention_math` since torch 2.5, in fp32, without its guard of wholly masked rows."""
    factor = (query.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    scores = (query.float() * factor) @ (key.float().transpose(-1, -2) * factor)
    if attn_mask is not None:
        scores = scores + attn_mask
    return (scores.softmax(-1) @ value.float()).to(torch.float16)


def _padded(tensor: torch.Tensor) -> torch.Tensor:
    missing = -tensor.shape[-1] % _WIDTHS
    return torch.constant_pad_nd(tensor, (0, missing)) if missing else tensor


@contextlib.contextmanager
def _without_autocast() -> Iterator[None]:
    """Leave types as they are: autocast converts what the composite operator takes, and is off inside it."""
    was_on = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", False)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", was_on)


def _indexed(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """Return what indexing gives, one dimension after the other, tensors last."""
    given = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [each for each in given if not isinstance(each, torch.Tensor)]:
        place = next(i for i, each in enumerate(given) if each is Ellipsis)
        missing = tensor.dim() - sum(each is not None and each is not Ellipsis for each in given)
        given[place : place + 1] = [slice(None)] * missing
    dim, tensors = 0, []
    for each in given:
        if each is None:
            tensor = tensor.unsqueeze(dim)
        elif isinstance(each, slice):
            if each != slice(None):
                tensor = torch.ops.aten.slice.Tensor(tensor, dim, each.start, each.stop, each.step or 1)
        elif isinstance(each, torch.Tensor):
            tensors.append((dim, each))
        else:
            tensor, dim = tensor.select(dim, int(each)), dim - 1
        dim += 1
    if not tensors:
        return tensor
    places: list[torch.Tensor | None] = [None] * tensor.dim()
    for place, each in tensors:
        places[place] = each
    found: torch.Tensor = torch.ops.aten.index.Tensor(tensor, places)
    return found


def inductor_kernels(name: str) -> Kernels:
    """Return what Inductor schedules for a timm model's inference under autocast to fp16."""
    found: list[Kernels] = []

    def stop(graph: GraphLowering) -> None:
        graph._update_scheduler()
        found.append(_scheduled(graph))
        raise _StoppedError

    target, fake = _target(name), FakeTensorMode()
    module = target.build().eval()
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    with pretended_gpu():
        with fake:
            state = [torch.empty(each.shape, dtype=each.dtype, device="cuda:0") for each in held.values()]
            made = target.make_inputs(BATCH, device=torch.device("meta"))
            inputs = [torch.empty(each.shape, dtype=each.dtype, device="cuda:0") for each in made.args]

        def forward(*flat: torch.Tensor) -> Any:
            named = dict(zip(held, flat, strict=False))
            return (functional_call(module, named, flat[len(held) :]),)

        graph = _graph(forward, [*state, *inputs], fake)
        examples = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
        with (
            mock.patch.object(GraphLowering, "codegen", stop), config.patch(fx_graph_cache=False),
            tracing(TracingContext(fake)), V.set_fake_mode(fake), torch.no_grad()
        ):  # fmt: skip
            joint_graph.joint_graph_passes(graph)
            try:
                compile_fx.compile_fx_inner(graph, examples, is_inference=True, static_input_idxs=[*range(len(held))])
            except InductorError:
                if not found:
                    raise
    if len(found) != 1:
        raise RuntimeError(f"{name} was scheduled {len(found)} times")
    return found[0]


def _graph(forward: Any, flat: list[torch.Tensor], fake: FakeTensorMode) -> torch.fx.GraphModule:
    """Trace a function under CUDA's autocast into the operators that Inductor lowers."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.float16)
    try:
        with fake, torch.no_grad(), _WithoutDevice():
            graph: torch.fx.GraphModule = make_fx(
                dispatch_functionalize(forward), decomposition_table=select_decomp_table()
            )(*flat)
    finally:
        torch.set_autocast_enabled("cuda", False)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _scheduled(graph: GraphLowering) -> Kernels:
    """Count the kernels of a scheduled graph, and the buffers that they read and leave."""
    nodes = graph.scheduler.nodes
    called = [node for node in nodes if isinstance(node, scheduler.ExternKernelSchedulerNode)]
    library = [node for node in called if not isinstance(node.node, ir.MultiOutput)]  # the results of one call
    empty = [node for node in nodes if isinstance(node, scheduler.NopKernelSchedulerNode)]
    fused = [node for node in nodes if node not in called and node not in empty]
    lines, moved = [], 0
    for node in nodes:
        if node in library:
            lines.append(f"library {node.node.get_origin_node() if node.node else ''}")
        elif node in fused:
            size, words = _moved(graph, node)
            moved += size
            lines.append(f"fused   {size:>12,} B {node.group[1]} {words}")
    return Kernels(fused=len(fused), library=len(library), moved_bytes=moved, lines=tuple(lines))


def _moved(graph: GraphLowering, node: Any) -> tuple[int, str]:
    """Return the bytes that a fused kernel reads of other kernels' buffers, and those that others read of it."""
    inside = node.get_nodes()
    made = {name for each in inside for name in each.get_buffer_names()}
    users = {name: each.outputs_by_name[name].users for each in inside for name in each.get_buffer_names()}
    left = {name for name, found in users.items() if any(user.node not in inside for user in found)}
    origins = sorted(
        {str(each.target).split(".")[-2] for n in inside for each in n.node.get_origins() if "." in str(each.target)}
    )
    read_bytes: dict[str, int] = defaultdict(int)
    for dep in node.read_writes.reads:
        if dep.name not in made:
            read_bytes[dep.name] += int(graph.get_dep_size_hint(dep))
    read = sum(min(size, _bytes(graph, name)) for name, size in read_bytes.items())
    return read + sum(_bytes(graph, name) for name in left), " ".join(origins)


def _bytes(graph: GraphLowering, name: str) -> int:
    buffer = graph.try_get_buffer(name)
    if buffer is None or not hasattr(buffer, "get_numel"):
        return 0
    return int(buffer.get_numel()) * int(buffer.get_dtype().itemsize)


def own_kernels(name: str) -> Kernels:
    """Return what capplan's fusion makes of the same model."""
    configuration = Configuration(variant=Variant.AMP)
    recording = fuse_recording(trace_target(_target(name), configurations=[configuration]).recording(configuration))
    return _counted(recording)


def _counted(recording: Recording) -> Kernels:
    lines, moved, fused = [], 0, 0
    for op in recording.ops:
        kernel = recording.kernels[op.kernel]
        if kernel.name != "capplan.fused":
            lines.append(f"library {kernel.name} {kernel.outputs[0].shape_at(BATCH) if kernel.outputs else ''}")
            continue
        size = sum(operand.size_bytes(BATCH) for operand in (*kernel.inputs, *kernel.outputs))
        fused, moved = fused + 1, moved + size
        shape = kernel.outputs[0].shape_at(BATCH) if kernel.outputs else ()
        lines.append(f"fused   {size:>12,} B {shape} {dict(kernel.attributes)}")
    return Kernels(fused=fused, library=len(recording.ops) - fused, moved_bytes=moved, lines=tuple(lines))


def _target(name: str) -> Target:
    return load_target(f"timm:{name}", request=InputRequest())


def comparison(name: str) -> str:
    """Return a line of the table: Inductor's kernels, ours, and the ratio of what the fused ones move."""
    try:
        theirs = inductor_kernels(name)
    except (RuntimeError, AssertionError) as error:
        return f"{name:24} cannot be asked: {str(error).splitlines()[0][:80]}"
    ours = own_kernels(name)
    columns = [f"{each.fused:5} + {each.library:3} {each.moved_bytes / 1e9:7.2f} GB" for each in (theirs, ours)]
    return f"{name:24} {columns[0]}   {columns[1]}   {ours.moved_bytes / theirs.moved_bytes:5.2f}"


def heading() -> str:
    """Return the table's first line."""
    return f"{'model':24} {'Inductor: fused + library':>23}   {'capplan':>23}   {'ratio of bytes':>5}"


def main() -> None:
    """Print the table, or one model's kernels both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("-v", "--verbose", metavar="MODEL")
    words = parser.parse_args()
    if words.verbose:
        for found in (inductor_kernels(words.verbose), own_kernels(words.verbose)):
            sys.stdout.write("\n".join([*found.lines, ""]) + "\n")
        return
    print(f"torch {torch.__version__}, batch {BATCH}, autocast to fp16")
    print(heading())
    for name in words.models:
        print(comparison(name), flush=True)


if __name__ == "__main__":
    main()
