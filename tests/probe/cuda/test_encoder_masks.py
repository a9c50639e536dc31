"""Padding masks in nn.MultiheadAttention and the encoders built of it, which take PyTorch's fast path in inference."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from capplan.core.ops.flops import kernel_macs, uncounted
from capplan.core.trace.types import Recording
from capplan.core.workload import Configuration, Training
from capplan.probe.trace.tracer import trace_module

TOKENS, WIDTH, HEADS, HIDDEN = 10, 32, 4, 64

ATTENTION = 3 * TOKENS * WIDTH**2 + 2 * TOKENS**2 * WIDTH + TOKENS * WIDTH**2
"""Multiply-accumulates a sample: three projections, scores and weighted sums over all heads, the output projection."""
LAYER = ATTENTION + 2 * TOKENS * WIDTH * HIDDEN


class Masked(nn.Module):
    def __init__(self, part: nn.Module, call: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.part = part
        self.call = call

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.call(self.part, x, padding)


def attention(need_weights: bool) -> Masked:
    part = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    return Masked(part, lambda a, x, pad: a(x, x, x, key_padding_mask=pad, need_weights=need_weights)[0])


def encoder(layers: int, *, nested: bool = True) -> Masked:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True)
    part = nn.TransformerEncoder(layer, layers, enable_nested_tensor=nested) if layers > 1 else layer
    return Masked(part, lambda a, x, pad: a(x, src_key_padding_mask=pad))


def feeds(padded: int) -> Callable[..., SimpleNamespace]:
    def make(batch: int, *, device: Any) -> SimpleNamespace:
        padding = torch.zeros(batch, TOKENS, dtype=torch.bool)
        padding[:, TOKENS - padded :] = True
        args = (torch.zeros(batch, TOKENS, WIDTH, device=device), padding.to(device))
        return SimpleNamespace(args=args, kwargs={}, names=("x", "padding"))

    return make


def record(module: nn.Module, *, padded: int = 0, training: bool = False) -> tuple[Recording, tuple[str, ...]]:
    configuration = Configuration(training=Training() if training else None)
    made = trace_module(module, feeds(padded), name="test", configurations=[configuration])
    return made.recordings[0], made.provenance.notes


def macs(recording: Recording) -> int:
    counts = recording.calls_per_kernel()
    return sum(n * kernel_macs(kernel, 1) for kernel, n in zip(recording.kernels, counts, strict=True))


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (attention(need_weights=False), ATTENTION),
        (attention(need_weights=True), ATTENTION),
        (encoder(1), LAYER),
        (encoder(3), 3 * LAYER),
        (encoder(3, nested=False), 3 * LAYER),
    ],
)
@pytest.mark.parametrize("padded", [0, 4])
def test_products_of_masked_layers_are_those_of_all_tokens(module: nn.Module, expected: int, padded: int) -> None:
    recording, _ = record(module, padded=padded)
    assert (recording.backend, macs(recording), uncounted(recording)) == ("meta", expected, ())
    assert recording.exact_batch is None
    trained, _ = record(module, padded=padded, training=True)
    assert trained.exact_batch is None


def test_an_encoder_says_that_the_device_leaves_padding_out() -> None:
    _, notes = record(encoder(2), padded=4)
    assert any("nothing were padded" in note for note in notes)
    _, notes = record(encoder(2, nested=False), padded=4)
    assert notes == ()


def test_a_mask_is_not_given_to_the_fused_kernel() -> None:
    """`native_multi_head_attention_cuda` asks for `!mask.has_value()` before it calls scaled dot-product attention."""
    masked, _ = record(encoder(2, nested=False), padded=4)
    assert "capplan.attention" not in {kernel.name for kernel in masked.kernels}
    packed, _ = record(encoder(2), padded=4)  # rows without padding need no mask
    assert "capplan.attention" in {kernel.name for kernel in packed.kernels}
