"""A shared sequence: each GPU has its part of tokens and heads, and of attention exactly its share."""

import pytest

from capplan.core.ops.flops import kernel_flops
from capplan.core.pipelines.sharing import Degrees, exchange_s, share_sequence
from capplan.core.trace.types import Affine, Kernel, Op, Operand, Recording, Role, Storage
from capplan.core.workload import Configuration
from capplan.errors import UsageError

TOKENS, HEADS, WIDTH = 4096, 24, 64
BATCH = Affine(0, 1)


def tensor(*shape: int | Affine, weight: bool = False) -> Operand:
    dims = tuple(dim if isinstance(dim, Affine) else Affine(dim) for dim in shape)
    return Operand(dtype="half", shape=dims, is_weight=weight)


HEAD = tensor(BATCH, HEADS, TOKENS, WIDTH)
ATTENTION = Kernel(name="capplan.attention", inputs=(HEAD, HEAD, HEAD), outputs=(HEAD,))
LINEAR = Kernel(
    name="aten.mm",
    inputs=(tensor(Affine(0, TOKENS), 1536), tensor(1536, 4096, weight=True)),
    outputs=(tensor(Affine(0, TOKENS), 4096),),
)
RECORDING = Recording(
    configuration=Configuration(),
    modules=("",),
    kernels=(ATTENTION, LINEAR),
    ops=(Op(kernel=0, module=0, reads=(0, 0, 0), writes=(1,)), Op(kernel=1, module=0, reads=(1, 2), writes=(3,))),
    storages=(
        Storage(size_bytes=Affine(0, 2 * TOKENS * 1536), role=Role.INPUT, death=2),
        Storage(size_bytes=Affine(0, 2 * TOKENS * 1536), role=Role.ACTIVATION, birth=0, death=2),
        Storage(size_bytes=Affine(2 * 1536 * 4096), role=Role.PARAMETER, death=2),
        Storage(size_bytes=Affine(0, 2 * TOKENS * 4096), role=Role.ACTIVATION, birth=1, death=2),
    ),
    batches=(1, 2, 3),
)


@pytest.mark.parametrize("degrees", [Degrees(ulysses=4), Degrees(ring=4), Degrees(ulysses=2, ring=4)])
def test_the_gpus_together_do_the_work_of_one(degrees: Degrees) -> None:
    own = share_sequence(RECORDING, degrees, lengths=[TOKENS], name="test")[0]
    for whole, part in zip(RECORDING.kernels, own.kernels, strict=True):
        assert kernel_flops(part, 2) * degrees.gpu_count == kernel_flops(whole, 2)
    assert own.storages[3].size_bytes.at(2) * degrees.gpu_count == RECORDING.storages[3].size_bytes.at(2)


def test_weights_stay_whole_also_where_a_side_is_as_long_as_the_sequence() -> None:
    own = share_sequence(RECORDING, Degrees(ulysses=2), lengths=[TOKENS], name="test")[0]
    assert own.kernels[1].inputs[1] == LINEAR.inputs[1]
    assert own.storages[2] == RECORDING.storages[2]


def test_heads_must_be_dealt_out_evenly() -> None:
    with pytest.raises(UsageError, match="24 heads cannot be dealt out to 5 GPUs"):
        share_sequence(RECORDING, Degrees(ulysses=5), lengths=[TOKENS], name="test")


def test_ulysses_exchanges_four_tensors_and_a_ring_passes_two() -> None:
    # Own queries: 24/4 heads · 4096 tokens · 64 · 2 bytes = 3 145 728 bytes at batch 1. Ulysses over 4 sends ¾ of each
    # of four tensors: 9 437 184 bytes; a ring of 4 with 4096/4 queries passes K and V three times: 18 874 368 bytes.
    link = {"link_bytes_per_s": 1e9, "ulysses_share": 1.0, "ring_share": 1.0, "batch": 1}
    ulysses = share_sequence(RECORDING, Degrees(ulysses=4), lengths=[TOKENS], name="test")[1]
    ring = share_sequence(RECORDING, Degrees(ring=4), lengths=[TOKENS], name="test")[1]
    assert exchange_s(ulysses, Degrees(ulysses=4), **link) == pytest.approx(9_437_184e-9)  # type: ignore[arg-type] # mixed
    assert exchange_s(ring, Degrees(ring=4), **link) == pytest.approx(18_874_368e-9)  # type: ignore[arg-type] # mixed
    assert exchange_s(ring, Degrees(), **link) == 0  # type: ignore[arg-type] # mixed
