"""Memory per rank, by hand from the ZeRO paper's table of who holds what."""

from dataclasses import replace

import pytest

from capplan.core.memory.model import MemoryModel
from capplan.core.memory.sharding import RankMemory, largest_unit_bytes, rank_memory
from capplan.core.memory.types import UNCALIBRATED
from capplan.core.numbers import Interval
from capplan.core.trace.types import Affine, Op, Parameter, Phase, Role, Storage
from capplan.core.workload import Configuration, ModelSharding, Optimizer, Training, Workload
from capplan.errors import UsageError
from tests.core.small_recordings import kernel, make_trace, operand

MIB = 2**20
TRAINING = Training(optimizer=Optimizer.ADAMW)


def trained(*, weight=80 * MIB, activation=10 * MIB) -> MemoryModel:
    """One weight, its gradient and two states, an activation per sample: forward, backward, optimizer."""
    shape = operand(weight // 4)
    trace = make_trace(
        kernels=[kernel("aten.relu", [shape], [shape])],
        ops=[Op(kernel=0, module=1, reads=(0,), writes=(write,)) for write in (1, 2, 3)],
        storages=[
            Storage(size_bytes=Affine(weight), role=Role.PARAMETER, death=3, parameter=0),
            Storage(size_bytes=Affine(0, activation), role=Role.ACTIVATION, birth=0, death=2),
            Storage(size_bytes=Affine(weight), role=Role.GRADIENT, birth=1, death=3),
            Storage(size_bytes=Affine(2 * weight), role=Role.OPTIMIZER, birth=2, death=3),
        ],
        parameters=[Parameter(names=("blocks.0.weight",), dtype="float32", shape=(weight // 4,))],
        configuration=Configuration(training=TRAINING),
        phases=[
            Phase(name="forward", step=1, first_op=0),
            Phase(name="backward", step=1, first_op=1),
            Phase(name="optimizer", step=1, first_op=2),
        ],
    )
    return MemoryModel(trace=trace, workload=Workload(training=TRAINING), calibration=UNCALIBRATED)


def rank_of(model: MemoryModel, *, gpus: int, sharding: ModelSharding) -> RankMemory:
    """What each GPU holds of one sample."""
    alone = model.estimate(batch=1)
    return rank_memory(alone, model.trace, model.recording, model.calibration, gpus=gpus, sharding=sharding)


def parts(sharding: ModelSharding, gpus: int = 4) -> dict[str, Interval]:
    rank = rank_of(trained(), gpus=gpus, sharding=sharding)
    assert rank.total_bytes == sum((part.size_bytes for part in rank.parts), Interval.exact(0))
    return {part.name: part.size_bytes for part in rank.parts}


@pytest.mark.parametrize(
    ("sharding", "weights", "gradients", "states"),
    [  # Rajbhandari et al. 2020, figure 1: parameters, gradients, optimizer states, each over N or whole
        (ModelSharding.DDP, 80, 80, 160),
        (ModelSharding.ZERO1, 80, 80, 40),
        (ModelSharding.ZERO2, 80, 20, 40),
        (ModelSharding.ZERO3, 20, 20, 40),
        (ModelSharding.FSDP, 20, 20, 40),
    ],
)
def test_who_holds_what(sharding, weights, gradients, states):
    held = parts(sharding)
    expected = [weights * MIB, gradients * MIB, states * MIB]
    assert [held[name].expected for name in ("weights", "gradients", "optimizer states")] == expected
    assert held["activations"].expected == 10 * MIB


@pytest.mark.parametrize(
    "sharding", [ModelSharding.DDP, ModelSharding.ZERO1, ModelSharding.ZERO2, ModelSharding.ZERO3, ModelSharding.FSDP]
)
def test_a_plan_of_several_gpus_holds_what_a_rank_does(sharding):
    alone = trained()
    together = replace(alone.workload, gpu_count=4, sharding=sharding)
    model = MemoryModel(trace=alone.trace, workload=together, calibration=UNCALIBRATED)
    found = {part.name: part.size_bytes.expected for part in model.estimate(batch=1).all_parts}
    held = parts(sharding)
    for name in ("weights", "gradients", "optimizer states", "activations"):
        assert found[name] == held[name].expected
    beside = sum(
        held[name].expected for name in ("gradient buckets", "gathered weights", "communication") if name in held
    )
    assert found["CUDA context"] == held["CUDA context"].expected + beside


def test_one_gpu_shares_nothing():
    with pytest.raises(UsageError, match="⟨gpus⟩ N"):
        Workload(training=TRAINING, sharding=ModelSharding.FSDP)
    with pytest.raises(UsageError, match="replicas"):
        Workload(training=TRAINING, gpu_count=2, sharding=ModelSharding.REPLICAS)


def test_data_parallel_training_copies_gradients_into_buckets():
    assert parts(ModelSharding.DDP)["gradient buckets"] == Interval(low=0, expected=80 * MIB, high=80 * MIB)


def test_one_gpu_communicates_nothing():
    assert "communication" not in parts(ModelSharding.DDP, gpus=1)
    assert "gradient buckets" not in parts(ModelSharding.DDP, gpus=1)


def test_gathered_weights_are_the_largest_block_and_the_next():
    model = trained()
    assert largest_unit_bytes(model.trace, model.recording) == 80 * MIB
    assert parts(ModelSharding.FSDP)["gathered weights"].expected == 160 * MIB


def test_more_gpus_never_hold_more_each():
    totals = [rank_of(trained(), gpus=gpus, sharding=ModelSharding.FSDP).total_bytes.expected for gpus in (2, 4, 8, 64)]
    assert totals == sorted(totals, reverse=True)


def test_inference_spreads_no_training_state():
    model = trained()
    recording = replace(model.trace.recordings[0], configuration=Configuration(), phases=())
    inference = MemoryModel(
        trace=replace(model.trace, recordings=(recording,)), workload=Workload(), calibration=UNCALIBRATED
    )
    with pytest.raises(UsageError, match="⟨train⟩"):
        rank_of(inference, gpus=2, sharding=ModelSharding.ZERO2)
