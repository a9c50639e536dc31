"""The time of a step: floors by hand, laws, and the stacking of deployments."""

from dataclasses import replace

import numpy as np
import pytest

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.llm.core.serving.priors import PRIOR, default_layout
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.timing.calibration import KernelConstants, LinkConstants, LlmCalibration
from capplan.llm.core.timing.constants import ConstantsVector
from capplan.llm.core.timing.machine import Machine, machine_of
from capplan.llm.core.timing.step_time import (
    StepTime,
    all_reduce_bytes,
    collectives,
    collectives_s,
    power_factor,
    stack,
    step_table,
    step_time,
)
from capplan.llm.core.timing.work import Load
from tests.llm.core.architectures import LLAMA_70B
from tests.llm.core.timing.test_work import kernels

H100 = GpuSpec(
    id="h100",
    name="H100",
    vendor="NVIDIA",
    architecture="Hopper",
    memory_bytes=80 * 2**30,
    memory_type="HBM3",
    memory_bandwidth_bytes_per_s=3.35e12,
    peak_flops_per_s={PeakKind.BF16: 989.4e12, PeakKind.FP8: 1978.9e12, PeakKind.FP4: None},
    tdp_w=700,
    nvlink_bytes_per_s=900e9,
    form_factor="SXM5",
)


def ideal() -> LlmCalibration:
    """Return constants under which every kernel reaches its bound and nothing else takes time."""
    kernel = KernelConstants(compute_fraction=1.0, bandwidth_fraction=1.0, fixed_s=1e-12)
    free = {
        "layer_s": 1e-12,
        "step_s": 1e-12,
        "sequence_s": 1e-12,
        "prefill_layer_s": 1e-12,
        "elementwise_bytes": 1e-9,
        "quantised_bytes": 1e-9,
    }
    return replace(
        PRIOR,
        kernels=dict.fromkeys(PRIOR.kernels, kernel),
        engines={name: replace(engine, **free) for name, engine in PRIOR.engines.items()},
        switched=LinkConstants(
            latency_s=1e-12, latency_growth=0.1, bus_fraction=1e9, bus_decline=1.0, staged_s=1e-12, staged_bytes=1e6
        ),
        device=replace(PRIOR.device, power_knee=1e18),
    )


def machine() -> Machine:
    found = machine_of(H100)
    assert found is not None
    return found


def seconds(calibration: LlmCalibration, load: Load, *, weights: str = "fp8", tensor: int = 4) -> float:
    layout = default_layout()
    table = step_table(
        kernels(LLAMA_70B, weights=weights, kv="fp8", sharding=Sharding(tensor=tensor)),
        load,
        machine=machine(),
        layout=layout,
        engine="vllm",
    )
    return float(step_time(table, layout.view(layout.pack(calibration))).total_s[0])


def test_decode_floor_of_llama_70b_fp8_on_four_h100() -> None:
    # (68.45 + 2.10 GB) ÷ 4 ÷ 3.35 TB/s = 5.27 ms for one sequence; 64 of 1,536 tokens add 4.03 GB ÷ 3.35 TB/s
    assert seconds(ideal(), Load.of(decoding=1, context=0)) == pytest.approx(5.27e-3, rel=0.01)
    # above the floor: activations are read and written, and a kernel near its ridge takes more than either bound
    assert seconds(ideal(), Load.of(decoding=64, context=1536)) == pytest.approx(6.47e-3, rel=0.03)


def test_fixed_times_of_a_vendors_line_take_their_factor_and_nothing_else_does() -> None:
    # 1 ms a kernel, twice as long by the line's factor or by that of all other vendors: of 80 layers of five kernels
    # (queries with keys and values, output, gate with up, down, attention) and the head 401 ms more
    kernel = KernelConstants(compute_fraction=1.0, bandwidth_fraction=1.0, fixed_s=1e-3)
    slow = replace(ideal(), kernels=dict.fromkeys(PRIOR.kernels, kernel))
    load, work = Load.of(decoding=1, context=64), kernels(LLAMA_70B)
    amd = replace(machine(), vendor="AMD", architecture="CDNA3")
    found = []
    for factor, other in ((1.0, 1.0), (2.0, 1.0), (1.0, 2.0)):
        slow = replace(slow, device=replace(slow.device, other_fixed=other))
        layout = default_layout()
        layout = ConstantsVector(layout.engines, ("fixed times | sglang | CDNA", "fixed times | vllm | CDNA"))
        constants = layout.view(layout.pack(replace(slow, kernel_factors={"fixed times | vllm | CDNA": factor})))
        table = step_table(work, load, machine=amd, layout=layout, engine="vllm")
        found.append(float(step_time(table, constants).total_s[0]))
    assert found[1] - found[0] == pytest.approx(0.401, rel=1e-6)
    assert found[2] == pytest.approx(found[1])


def test_prefill_floor_of_llama_70b_fp8_on_four_h100() -> None:
    # 140.19 TFLOP in fp8 and 1.37 TFLOP of 16-bit attention on four GPUs: 18.06 ms; reading weights and
    # activations adds a few percent, because a kernel takes more than the larger of its two bounds
    assert 18.06e-3 <= seconds(ideal(), Load.of(prefilled=1024, prompts=1)) <= 1.04 * 18.06e-3


def test_an_all_reduce_of_64_tokens_moves_its_bytes_one_and_a_half_times() -> None:
    # 64 · 8192 · 2 bytes = 1.05 MB; over four GPUs 2 · 3/4 of it
    assert float(all_reduce_bytes(size_bytes=np.array([64 * 8192 * 2.0]), gpus=4)[0]) == 1.5 * 1_048_576


def test_stages_of_a_large_all_reduce_wait_half_of_the_longest_at_their_size() -> None:
    layout = default_layout()
    switched = LinkConstants(
        latency_s=1e-12, latency_growth=0.1, bus_fraction=1e9, bus_decline=1.0, staged_s=60e-6, staged_bytes=1_048_576.0
    )
    constants = layout.view(layout.pack(replace(PRIOR, switched=switched)))
    # 64 · 8192 · 2 bytes = 1 MiB, half of the wait; two all-reduces in each of 80 layers
    cut = kernels(LLAMA_70B, sharding=Sharding(tensor=4))
    work = collectives(cut, Load.of(decoding=64, context=0), machine=machine())
    assert float(collectives_s(work, constants)[0]) == pytest.approx(160 * 30e-6, rel=1e-3)


def test_tensor_parallelism_over_two_servers_reduces_within_each_and_then_between_them() -> None:
    cut = kernels(LLAMA_70B, sharding=Sharding(tensor=16))
    found = machine_of(replace(H100, pcie_bytes_per_s=64e9), group=16, network_bytes_per_s=50e9)
    assert found is not None
    work = collectives(cut, Load.of(decoding=64, context=0), machine=found)
    # two all-reduces in each of 80 layers, at both levels
    assert work.calls[0].tolist() == [160, 160]
    # 1 MiB moves 2 · 7/8 of itself over NVLink; each GPU's eighth crosses 2 · 1/2 of itself over its port
    assert work.link_s[0].tolist() == pytest.approx([160 * 1.75 * 2**20 / 900e9, 160 * 2**20 / 8 / 100e9])
    # two doublings beyond two GPUs within a server, none beyond two servers
    assert work.doublings[0].tolist() == [2, 0]


def test_stages_of_a_pipeline_over_two_servers_pass_activations_over_the_network() -> None:
    cut = kernels(LLAMA_70B, sharding=Sharding(tensor=8, pipeline=2))
    found = machine_of(H100, group=8)
    assert found is not None
    assert collectives(cut, Load.of(decoding=1, context=0), machine=found).hops[0].tolist() == [0, 1]
    near = kernels(LLAMA_70B, sharding=Sharding(tensor=4, pipeline=2))
    assert collectives(near, Load.of(decoding=1, context=0), machine=found).hops[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("form", "group", "server", "switched"),
    [("SXM5", 16, 8, True), ("PCIe", 4, 8, False), ("PCIe", 2, 2, True), ("Superchip", 2, 1, False)],
)
def test_boards_and_cards_reach_other_servers_over_the_network(
    form: str, group: int, server: int, *, switched: bool
) -> None:
    found = machine_of(replace(H100, form_factor=form), group=group)
    assert found is not None
    assert (found.server_gpus, found.switched) == (server, switched)


def test_more_sequences_and_longer_contexts_never_take_less() -> None:
    small = seconds(PRIOR, Load.of(decoding=8, context=512))
    assert seconds(PRIOR, Load.of(decoding=16, context=512)) >= small
    assert seconds(PRIOR, Load.of(decoding=8, context=1024)) >= small
    assert seconds(PRIOR, Load.of(decoding=8, context=512, prefilled=256, prompts=1)) > small


def test_power_takes_a_share_of_the_peak_that_grows_with_flops_per_joule() -> None:
    factors = power_factor(np.array([0.0, 0.8e12, 1.4e12, 2.25e12]), knee=2.3e12)
    assert factors[0] == 1.0
    assert list(factors) == sorted(factors, reverse=True)
    assert factors[3] == pytest.approx((1 + (2.25 / 2.3) ** 4) ** -0.25)


def test_a_scheduler_goes_through_all_sequences_in_every_pass_of_a_pipeline() -> None:
    layout = default_layout()
    host_s = []
    for decoding in (4, 8):
        table = step_table(
            kernels(LLAMA_70B, sharding=Sharding(pipeline=2)),
            Load.of(decoding=decoding, context=0),
            machine=machine(),
            layout=layout,
            engine="vllm",
        )
        host_s.append(float(step_time(table, layout.view(layout.pack(PRIOR))).engine_s[0]))
    # four sequences more in each of two passes
    assert host_s[1] - host_s[0] == pytest.approx(2 * 4 * PRIOR.engines["vllm"].sequence_s)


def _lone_step(engine: str, *, weights: str = "bf16", decoding: float = 8) -> StepTime:
    layout = default_layout()
    table = step_table(
        kernels(LLAMA_70B, weights=weights, sharding=Sharding(tensor=4)),
        Load.of(decoding=decoding, context=0),
        machine=machine(),
        layout=layout,
        engine=engine,
    )
    return step_time(table, layout.view(layout.pack(PRIOR)))


def test_an_engine_that_prepares_the_next_step_meanwhile_hides_its_scheduler_behind_the_gpu() -> None:
    few, many = _lone_step("trtllm", decoding=8), _lone_step("trtllm", decoding=512)
    assert many.engine_s == few.engine_s
    assert many.launch_s[0] == pytest.approx(512 * PRIOR.engines["trtllm"].sequence_s)
    # 2 ms of scheduling beside a longer step add less than they take alone
    added = float(many.total_s[0] - many.engine_s[0] - many.device_s[0])
    assert 0 < added < float(many.launch_s[0])


def test_quantising_inputs_takes_time_where_engines_do_not_fuse_it() -> None:
    # 80 layers, inputs of 8,192 for qkv and for gate and up, and quarters of 8,192 and 28,672; eight tokens
    elements = 8 * 80 * (2 * 8192 + (8192 + 28672) / 4)
    expected = elements * PRIOR.engines["vllm"].quantised_bytes / 3.35e12
    assert float(_lone_step("vllm", weights="fp8").quantisation_s[0]) == pytest.approx(expected)
    assert float(_lone_step("vllm").quantisation_s[0]) == 0.0
    fused, own = (_lone_step(engine, weights="fp8").quantisation_s[0] for engine in ("trtllm before 1.0", "trtllm"))
    assert fused < own / 5


def test_stacked_deployments_take_what_they_take_alone() -> None:
    layout, load = default_layout(), Load.of(decoding=4, context=256)
    constants = layout.view(layout.pack(PRIOR))
    tables = [
        step_table(
            kernels(LLAMA_70B, weights=weights, sharding=Sharding(tensor=8)),
            load,
            machine=machine(),
            layout=layout,
            engine=layout.engines[2],
        )
        for weights in ("bf16", "fp8")
    ]
    alone = [float(step_time(table, constants).total_s[0]) for table in tables]
    assert step_time(stack(tables), constants).total_s == pytest.approx(alone)


def test_a_gpu_without_fp8_units_computes_fp8_weights_in_16_bits() -> None:
    ampere = machine_of(replace(H100, peak_flops_per_s={PeakKind.BF16: 312e12, PeakKind.FP8: None}))
    assert ampere is not None
    from capplan.core.weights import find_weight_format
    from capplan.llm.core.quantisation import Quantisation
    from capplan.llm.core.tensors import WeightRole
    from capplan.llm.core.timing.calibration import KernelClass
    from capplan.llm.core.timing.work import weight_kernel

    stored = Quantisation(format=find_weight_format("fp8"), roles=frozenset({WeightRole.MLP}))
    assert weight_kernel(stored, WeightRole.MLP, units=ampere.units).gemm is KernelClass.GEMM_W8A16
    assert weight_kernel(stored, WeightRole.MLP, units=machine().units).gemm is KernelClass.GEMM_FP8
    assert weight_kernel(stored, WeightRole.HEAD, units=machine().units).gemm is KernelClass.GEMM_16


def test_a_gpu_without_any_matrix_rate_has_no_machine() -> None:
    assert machine_of(replace(H100, peak_flops_per_s={})) is None


def test_sorting_logits_takes_time_for_each_row_and_token_of_the_vocabulary() -> None:
    layout, load = default_layout(), Load.of(decoding=64, context=256)
    greedy = kernels(LLAMA_70B)
    filtered = replace(greedy, sorted_logits=128_256.0)
    times = [
        step_time(
            step_table(each, load, machine=machine(), layout=layout, engine="vllm"), layout.view(layout.pack(PRIOR))
        )
        for each in (greedy, filtered)
    ]
    # 64 rows of 128,256 logits at 0.1 ns each
    assert times[1].total_s[0] - times[0].total_s[0] == pytest.approx(64 * 128_256 * 1e-10, rel=1e-6)
