"""Live bytes at operator boundaries: the trace against the events of torch's real CPU allocator.

Each model runs for real on the CPU under torch.profiler with `profile_memory`. At the end of every operator that the
trace knows, bytes allocated since the start are compared at their peak; what an operator takes and gives back
within its own call is left out on both sides, since CPU and CUDA kernels differ there.

Left out of the real side is what lies on the host with CUDA too: numbers that Python's binding wraps in a tensor (an
allocation of at most 16 bytes outside every operator: nothing else allocates there), and Adam's step counters, found
by their address. The CPU's attention kernel lays its output out as its query lies, as CUDA's for 16-bit types do and
CUDA's for fp32 does not: the traces compared here are told so.

    python benchmarks/memory_live.py [--training] [--models resnet18,...] [--batches 1,4,13]
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch
from torch.profiler import ProfilerActivity, profile

from capplan.core.memory.schedule import live_curve
from capplan.core.trace.types import Recording, Role
from capplan.core.workload import Configuration, Optimizer, Training
from capplan.errors import CapplanError
from capplan.probe.cuda import attention
from capplan.probe.inputs.grammar import InputRequest, parse_request
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target
from capplan.probe.trace.training import loss_of

INFERENCE_MODELS = (
    "torchvision:resnet18", "torchvision:resnet50", "torchvision:vgg11", "torchvision:mobilenet_v3_large",
    "torchvision:efficientnet_b0", "torchvision:densenet121", "torchvision:googlenet", "torchvision:shufflenet_v2_x1_0",
    "torchvision:squeezenet1_1", "torchvision:regnet_y_400mf", "torchvision:mnasnet1_0", "torchvision:resnext50_32x4d",
    "timm:resnet50d", "timm:res2net50_26w_4s", "timm:dla34", "timm:ghostnet_100", "timm:hrnet_w18_small",
    "torchvision:vit_b_16", "torchvision:swin_t", "timm:deit_tiny_patch16_224", "timm:mixer_s32_224",
    "timm:vit_small_patch16_224", "hf:bert", "hf:distilbert", "hf:gpt2",
    "torchvision:convnext_tiny", "timm:poolformer_s12", "timm:levit_128s", "timm:mobilevit_s", "timm:pvt_v2_b0",
)  # fmt: skip
TRAINING_MODELS = (
    "torchvision:resnet18", "torchvision:resnet50", "torchvision:vgg11", "torchvision:mobilenet_v3_large",
    "torchvision:efficientnet_b0", "torchvision:densenet121", "torchvision:shufflenet_v2_x1_0",
    "torchvision:regnet_y_400mf", "torchvision:mnasnet1_0", "timm:dla34", "timm:ghostnet_100",
    "torchvision:vit_b_16", "torchvision:swin_t", "timm:deit_tiny_patch16_224", "timm:mixer_s32_224",
    "hf:bert", "hf:distilbert", "hf:gpt2", "torchvision:convnext_tiny", "timm:poolformer_s12", "timm:mobilevit_s",
)  # fmt: skip


WITHOUT_DROPOUT = {
    "hf:bert": ("hidden_dropout_prob=0", "attention_probs_dropout_prob=0"),
    "hf:distilbert": ("dropout=0", "attention_dropout=0"),
    "hf:gpt2": ("attn_pdrop=0", "resid_pdrop=0", "embd_pdrop=0"),
}
"""In training the CPU keeps a dropout's mask in four bytes an element, CUDA in one: compared without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model, batch and mode: bytes at the peak beyond weights and inputs."""

    model: str
    mode: str
    batch: int
    traced_bytes: int
    real_bytes: int
    real_op: str
    traced_op: str

    @property
    def error_fraction(self) -> float:
        return self.traced_bytes / self.real_bytes - 1


def main() -> None:
    """Compare and print a row each, then the shares of exact rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--models", default="")
    parser.add_argument("--batches", default="")
    parser.add_argument("--json", default="")
    words = parser.parse_args()
    torch.set_num_threads(1)
    with mock.patch.object(attention, "follows_query", return_value=True):
        compare(words)


def compare(words: argparse.Namespace) -> None:
    """Compare model by model, and write what came of it."""
    batches = [int(b) for b in (words.batches or ("4" if words.training else "1,4,13")).split(",")]
    models = words.models.split(",") if words.models else (TRAINING_MODELS if words.training else INFERENCE_MODELS)
    rows: list[Row] = []
    for model in models:
        try:
            for row in compare_training(model, batches) if words.training else compare_inference(model, batches):
                rows.append(row)
                sizes = f"{row.traced_bytes / 2**20:11.3f}{row.real_bytes / 2**20:11.3f} MiB"
                print(
                    f"{row.model:36}{row.mode:18}{row.batch:4}{sizes} {100 * row.error_fraction:+8.3f} %"
                    f"  {row.traced_op} | {row.real_op}",
                    flush=True,
                )
        except (CapplanError, RuntimeError) as error:
            print(f"{model:36} failed: {type(error).__name__}: {str(error)[:200]}", flush=True)
    summarize(rows)
    if words.json:
        Path(words.json).write_text(json.dumps([{name: getattr(row, name) for name in row.__slots__} for row in rows]))


def summarize(rows: list[Row]) -> None:
    """Print how many rows are byte-exact, within 1 % and within 3 %."""
    if not rows:
        sys.exit("no model could be compared")
    count = len(rows)
    exact = sum(row.traced_bytes == row.real_bytes for row in rows)
    one, three = (sum(abs(row.error_fraction) <= limit for row in rows) for limit in (0.01, 0.03))
    print(
        f"{count} rows of {len({row.model for row in rows})} models: {exact} byte-exact ({100 * exact / count:.1f} %), "
        f"{one} within 1 % ({100 * one / count:.1f} %), {three} within 3 % ({100 * three / count:.1f} %)"
    )


def compare_inference(words: str, batches: list[int]) -> Iterator[Row]:
    """Compare one model's inference at several batches."""
    target = load_target(words, request=InputRequest())
    grows = trace_target(target).recording(Configuration())
    module = target.build().eval()
    for batch in batches:
        inputs = target.make_inputs(batch, device="cpu")
        recording = grows
        if grows.exact_batch is not None:
            recording = trace_target(target, exact_batch=batch).recording(Configuration())
        with torch.inference_mode():
            module(*inputs.args, **inputs.kwargs)  # some models keep tensors of their first call
            real = real_peak(recording, lambda inputs=inputs: module(*inputs.args, **inputs.kwargs))
        yield _row(words, "inference", batch=batch, recording=recording, real=real)


def compare_training(words: str, batches: list[int]) -> Iterator[Row]:
    """Compare two training steps of one model, with SGD with momentum and with AdamW."""
    target = load_target(words, request=parse_request(arg=WITHOUT_DROPOUT.get(words, ())))
    for optimizer in (Optimizer.MOMENTUM, Optimizer.ADAMW):
        configuration = Configuration(training=Training(optimizer=optimizer))
        recording = trace_target(target, configurations=[configuration]).recording(configuration)
        for batch in batches:
            run, stepper = _training_steps(target, optimizer, batch)
            real = real_peak(recording, run, on_host=lambda stepper=stepper: _step_counters(stepper))
            yield _row(words, f"training {optimizer}", batch=batch, recording=recording, real=real)
            gc.collect()


def _training_steps(
    target: Target, optimizer: Optimizer, batch: int
) -> tuple[Callable[[], object], torch.optim.Optimizer]:
    module = target.build().train()
    inputs = target.make_inputs(batch, device="cpu")
    if optimizer is Optimizer.MOMENTUM:
        stepper = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9, foreach=True)
    else:
        stepper = torch.optim.AdamW(module.parameters(), lr=1e-3, foreach=True)

    def run() -> object:
        for _ in range(2):
            stepper.zero_grad(set_to_none=True)
            output = module(*inputs.args, **inputs.kwargs)
            loss = loss_of(output)
            loss.backward()
            stepper.step()
        return output, loss

    return run, stepper


def _step_counters(stepper: torch.optim.Optimizer) -> set[int]:
    """Addresses of the step counters, which an optimizer that is not capturable keeps on the host."""
    return {state["step"].data_ptr() for state in stepper.state.values() if "step" in state}


def _row(words: str, mode: str, *, batch: int, recording: Recording, real: tuple[int, str]) -> Row:
    curve = live_curve(recording).at(batch)
    held = sum(
        s.size_bytes.at(batch)
        for s in recording.storages
        if s.birth < 0 and s.role in (Role.PARAMETER, Role.BUFFER, Role.INPUT)
    )
    position = int(curve.argmax())
    op = recording.kernels[recording.ops[position - 1].kernel].name if position else "start"
    return Row(
        model=words,
        mode=mode,
        batch=batch,
        traced_bytes=int(curve.max()) - held,
        real_bytes=real[0],
        real_op=real[1],
        traced_op=op,
    )


def real_peak(
    recording: Recording, run: Callable[[], object], *, on_host: Callable[[], set[int]] = set
) -> tuple[int, str]:
    """Run under the profiler; the most bytes alive at the end of an operator, and that operator.

    What is alive afterwards at the addresses `on_host` is left out.
    """
    leaves = {kernel.name.replace("aten.", "aten::") for kernel in recording.kernels} | LEAVES
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=False) as profiler:
        kept = run()
    tree = profiler.profiler.kineto_results.experimental_event_tree()
    del kept
    walker = _Walker(leaves, left_out=_host_events(tree, on_host()))
    walker.walk(sorted(tree, key=lambda event: event.start_time_ns))
    return walker.peak, walker.where


LEAVES = {"aten::scaled_dot_product_attention", "aten::convolution", "aten::lstm", "aten::gru"}


class _Walker:
    """Sum allocations in time; look at the total where a known operator ends."""

    def __init__(self, leaves: set[str], *, left_out: set[int]) -> None:
        self.leaves = leaves
        self.left_out = left_out
        self.live = 0
        self.peak = 0
        self.where = ""

    def walk(self, events: list) -> None:
        for event in events:
            name = event.name
            if name == "[memory]":
                self.live += self._allocated([event])
                continue
            children = sorted(event.children, key=lambda each: each.start_time_ns)
            if name in self.leaves or name.rstrip("_") in self.leaves:
                self.live += self._allocated(children)
                self._look(name)
            elif any(each.name != "[memory]" for each in children):
                self.walk(children)
            else:
                self.live += self._allocated(children)
                self._look(name)

    def _allocated(self, events: list) -> int:
        total = 0
        for event in events:
            if event.name != "[memory]":
                total += self._allocated(event.children)
            elif event.start_time_ns not in self.left_out:
                total += event.typed[1].alloc_size
        return total

    def _look(self, name: str) -> None:
        if self.live > self.peak:
            self.peak, self.where = self.live, name


LARGEST_NUMBER_BYTES = 16
"""A complex double."""


def _host_events(tree: list, addresses: set[int]) -> set[int]:
    """Start times of the allocations, and of their frees, of what lies on the host with CUDA too."""
    open_at: dict[int, int] = {}
    found = set()
    for event, outside in sorted(_memory_events(tree, outside=True), key=lambda each: each[0].start_time_ns):
        address, size = event.typed[1].ptr, event.typed[1].alloc_size
        if size > 0:
            open_at[address] = event.start_time_ns
            if outside and size <= LARGEST_NUMBER_BYTES:
                found.add(event.start_time_ns)
        elif open_at.pop(address, None) in found:
            found.add(event.start_time_ns)
    return found | {open_at[address] for address in addresses if address in open_at}


def _memory_events(events: list, *, outside: bool) -> Iterator[tuple]:
    """Give each event of the allocator, and whether it stands outside every operator."""
    for event in events:
        if event.name == "[memory]":
            yield event, outside
        else:
            yield from _memory_events(event.children, outside=False)


if __name__ == "__main__":
    started = time.time()
    main()
    print(f"{time.time() - started:.0f} s", file=sys.stderr)
