"""Peaks, closed form, largest batch: recordings small enough to be summed by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.gpus.spec import GpuSpec, Segment
from capplan.core.memory.allocator import replay
from capplan.core.memory.fit import largest_certain_batch, largest_fitting_batch, usable_memory
from capplan.core.memory.index_limit import index_limit_batch
from capplan.core.memory.model import MemoryModel
from capplan.core.memory.schedule import live_curve
from capplan.core.memory.sharding import gpus_to_shard
from capplan.core.memory.summary import answer_memory
from capplan.core.memory.types import UNCALIBRATED, CudaSize, FitStatus, fit_status
from capplan.core.numbers import End, Interval
from capplan.core.trace.types import Affine, AssumedValue, MemoryFormat, Op, Parameter, Role, Storage
from capplan.core.workload import Framework, Precision, Workload
from capplan.errors import MissingRecordingError, UsageError
from tests.core.small_recordings import BATCH, chain, kernel, make_trace, operand

MIB = 2**20


def estimate_memory(trace, workload, *, batch, gpu, calibration=UNCALIBRATED):
    return MemoryModel(trace=trace, workload=workload, calibration=calibration).estimate(batch=batch, gpu=gpu)


def largest_batch(trace, workload, *, gpu, available_bytes):
    model = MemoryModel(trace=trace, workload=workload, calibration=UNCALIBRATED)
    return largest_fitting_batch(model, gpu=gpu, available_bytes=available_bytes)


def gpu(*, usable_bytes: int | None = 1024 * MIB, capability: tuple[int, int] | None = (8, 6)) -> GpuSpec:
    return GpuSpec(
        id="toy-gpu",
        name="Toy GPU",
        vendor="NVIDIA",
        architecture="Toy",
        compute_capability=capability,
        memory_bytes=1024 * MIB,
        usable_bytes=usable_bytes,
        memory_type="GDDR6X",
        memory_bandwidth_bytes_per_s=1e12,
    )


def test_a_board_shares_its_memory_with_its_system() -> None:
    card = replace(gpu(usable_bytes=8192 * MIB), memory_bytes=8192 * MIB)
    board = replace(card, segment=Segment.EMBEDDED)
    assert usable_memory(card) == Interval.exact(8192 * MIB)
    assert usable_memory(board).expected == 7168 * MIB
    assert usable_memory(board).low < usable_memory(board).expected < usable_memory(board).high < 8192 * MIB
    assert usable_memory(replace(board, usable_bytes=512 * MIB)).expected == 0  # a tiny one is not below nothing


def part(estimate, name: str) -> Interval:
    return next((each.size_bytes for each in estimate.parts if each.name == name), Interval.exact(0))


def test_parts_and_peak_of_a_chain_by_hand():
    # weights 8 MiB; batch 2: input 4 MiB, outputs 12, 24 and 2 MiB. The second op holds input 4 + 12 + 24.
    trace = chain(2 * MIB, 6 * MIB, 12 * MIB, 1 * MIB, weight_bytes=8 * MIB)
    found = estimate_memory(trace, Workload(), batch=2, gpu=None)
    assert part(found, "weights") == Interval.exact(8 * MIB)
    assert part(found, "inputs") == Interval.exact(4 * MIB)
    assert part(found, "activations") == Interval.exact(36 * MIB)
    assert found.peak_allocated_bytes == Interval.exact(48 * MIB)
    assert (found.peak_op, found.peak_module) == ("aten.relu", "layer")
    assert [tensor.size_bytes for tensor in found.largest] == [24 * MIB, 12 * MIB, 8 * MIB, 4 * MIB]
    assert found.largest[2].label == "layer.weight"
    assert (found.largest[3].label, found.largest[3].shape) == ("x", (2, MIB // 2))


def test_reserved_counts_whole_segments():
    # 8 and 4 MiB share a 20 MiB segment, with 8 MiB left; 12 and 24 MiB get segments of their own
    trace = chain(2 * MIB, 6 * MIB, 12 * MIB, 1 * MIB, weight_bytes=8 * MIB)
    found = estimate_memory(trace, Workload(), batch=2, gpu=None)
    assert found.peak_reserved_bytes == Interval.exact((20 + 12 + 24) * MIB)


def test_totals_are_the_sums_of_their_parts():
    found = estimate_memory(chain(MIB, 3 * MIB, 5 * MIB), Workload(), batch=7, gpu=gpu())
    inside = sum((each.size_bytes for each in found.parts), Interval.exact(0))
    assert found.peak_allocated_bytes == inside
    assert found.peak_reserved_bytes == inside + found.fragmentation.size_bytes
    assert found.total_bytes == inside + found.fragmentation.size_bytes + found.context.size_bytes


def test_the_peak_is_a_maximum_of_affine_terms():
    # Op 1 holds input b + output 10 MiB + 1 b; op 2 that output and 6 b: 10 MiB + 2 b against 10 MiB + 8 b... with the
    # fixed 10 MiB in the first output only, freed after op 2: op 3 holds b + 6 b + 9 b = 16 b.
    trace = chain(1, 1, 6, 9, fixed_bytes=[10])
    curve = live_curve(trace.recordings[0])
    assert [curve.peak_bytes(batch) for batch in (1, 2, 10)] == [18, 32, 160]
    # op 2: 10 + 8 b; op 3: 16 b, above from b = 2 on (10 + 16 = 26 < 32)
    assert set(curve.peak_terms()) == {Affine(10, 8), Affine(0, 16)}


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=12),
    st.lists(st.integers(0, 200), max_size=11),
    st.integers(1, 300),
)
def test_closed_form_is_the_peak_at_every_batch(sizes, fixed, batch):
    trace = chain(*sizes, fixed_bytes=fixed[: len(sizes) - 1])
    recording = trace.recordings[0]
    summed = max(
        sum(s.size_bytes.at(batch) for s in recording.storages if s.birth <= op <= s.death)
        for op in range(-1, len(recording.ops))
    )
    curve = live_curve(recording)
    assert curve.peak_bytes(batch) == summed
    assert max(term.at(batch) for term in curve.peak_terms()) == summed


def test_a_batch_of_one_is_certain_only_where_the_upper_end_of_its_need_fits() -> None:
    trace = chain(7 * MIB, 13 * MIB, 9 * MIB, 30 * MIB, weight_bytes=8 * MIB)
    model = MemoryModel(trace=trace, workload=Workload(), calibration=UNCALIBRATED)
    found = set()
    for mib in range(1080, 1160):
        available = Interval(low=0.97 * mib * MIB, expected=mib * MIB, high=mib * MIB)
        certain = largest_certain_batch(model, gpu=gpu(), available_bytes=available)
        need = model.total_bytes(batch=max(1, certain), gpu=gpu(), available_bytes=available.expected)
        assert (certain > 0) == (need.high <= available.low)
        found.add(certain)
    assert found >= {0, 1}


@given(st.lists(st.integers(1, 40 * MIB), min_size=2, max_size=8), st.integers(600, 4000))
def test_the_largest_batch_fits_and_the_next_does_not(sizes, available_mib):
    model = MemoryModel(trace=chain(*sizes), workload=Workload(), calibration=UNCALIBRATED)
    device = gpu(usable_bytes=available_mib * MIB)
    found = largest_batch(model.trace, Workload(), gpu=device, available_bytes=available_mib * MIB)
    context = UNCALIBRATED.contexts[0].size_bytes.expected
    for batch, fits in ((found, True), (found + 1, False)):
        if batch:
            capacity = int(available_mib * MIB - context)
            schedule = model.schedule(device)
            replayed = replay(schedule.sizes(batch, End.EXPECTED), schedule.events, capacity_bytes=capacity)
            assert (replayed.failed_event is None) is fits


@given(
    st.lists(st.integers(1, 40 * MIB), min_size=2, max_size=8),
    st.lists(st.integers(600, 4000), min_size=2, max_size=6),
)
def test_the_largest_batch_of_a_gpu_is_the_same_in_any_company(sizes, available_mib):
    together = MemoryModel(trace=chain(*sizes), workload=Workload(), calibration=UNCALIBRATED)
    for mib in available_mib:
        alone = MemoryModel(trace=chain(*sizes), workload=Workload(), calibration=UNCALIBRATED)
        found = [largest_fitting_batch(model, gpu=gpu(), available_bytes=mib * MIB) for model in (together, alone)]
        assert found[0] == found[1]


@given(st.lists(st.integers(1, 4 * MIB), min_size=2, max_size=8), st.integers(1, 60))
def test_a_larger_batch_never_needs_less(sizes, batch):
    trace = chain(*sizes)
    one, more = (estimate_memory(trace, Workload(), batch=b, gpu=None) for b in (batch, batch + 1))
    assert more.peak_allocated_bytes.expected >= one.peak_allocated_bytes.expected


@given(st.lists(st.integers(1, 40 * MIB), min_size=2, max_size=8), st.sampled_from([0.3, 0.5, 0.9, 1.0]))
def test_the_share_that_may_be_filled_holds_for_estimate_status_and_largest_batch_alike(sizes, share):
    model = MemoryModel(trace=chain(*sizes), workload=Workload(), calibration=UNCALIBRATED)
    device = gpu(usable_bytes=4096 * MIB)
    largest = answer_memory(model, batch=1, gpus=[device], utilization_fraction=share).gpus[0].max_batch
    limit = share * 4096 * MIB
    for batch in {max(1, largest), largest + 1}:
        (found,) = answer_memory(model, batch=batch, gpus=[device], utilization_fraction=share).gpus
        assert found.max_batch == largest
        assert (found.estimate.total_bytes.expected <= limit) is (batch <= largest)
        assert found.status is not (FitStatus.DOES_NOT_FIT if batch <= largest else FitStatus.FITS)


def test_a_process_held_to_a_share_gives_back_what_it_cached():
    # Segments of 20 (for both of 2, and the 14), 30 and 34 MiB: 84 in all. Held to 72 MiB the 30 are given back
    # for the 34: 54.
    trace = chain(2 * MIB, 30 * MIB, 14 * MIB, 34 * MIB, 2 * MIB)
    context = int(UNCALIBRATED.contexts[0].size_bytes.expected)
    model = MemoryModel(trace=trace, workload=Workload(), calibration=UNCALIBRATED)
    free = model.estimate(batch=1, gpu=gpu(usable_bytes=4096 * MIB))
    held = model.estimate(batch=1, gpu=gpu(usable_bytes=4096 * MIB), available_bytes=context + 72 * MIB)
    assert (free.peak_reserved_bytes.expected, held.peak_reserved_bytes.expected) == (84 * MIB, 54 * MIB)
    assert free.peak_allocated_bytes == held.peak_allocated_bytes


def test_largest_batch_by_hand():
    # Each sample holds 10 MiB input, output and last: peak 30 MiB. Context 400 MiB of 1024: 624 / 30 = 20.8.
    trace = chain(10 * MIB, 10 * MIB, 10 * MIB)
    assert largest_batch(trace, Workload(), gpu=gpu(), available_bytes=1024 * MIB) == 20
    assert largest_batch(trace, Workload(), gpu=gpu(), available_bytes=420 * MIB) == 0


def test_weights_over_several_gpus():
    # 900 MiB of weights, 10 MiB activations and input; context at least 256 MiB: 768 - 266 = 502 MiB for weights
    trace = chain(5 * MIB, 5 * MIB, weight_bytes=900 * MIB)
    alone = estimate_memory(trace, Workload(), batch=1, gpu=None)
    assert gpus_to_shard(alone, available_bytes=768 * MIB) == 2
    assert gpus_to_shard(alone, available_bytes=266 * MIB) is None


def test_fit_has_three_values():
    total = Interval(low=10, expected=11, high=12)
    for available, status in ((12, FitStatus.FITS), (11, FitStatus.BORDERLINE), (9, FitStatus.DOES_NOT_FIT)):
        assert fit_status(total, available_bytes=Interval.exact(available)) is status
    unsure = Interval(low=11, expected=13, high=14)  # of what is usable only the range is known
    assert fit_status(total, available_bytes=unsure) is FitStatus.BORDERLINE


@pytest.mark.parametrize("batch", [0, -3])
def test_no_batch_below_one(batch):
    with pytest.raises(UsageError, match="at least 1"):
        estimate_memory(chain(1, 1), Workload(), batch=batch, gpu=None)


def test_a_batch_that_no_integer_holds_is_refused():
    with pytest.raises(UsageError, match="which no device can hold"):
        estimate_memory(chain(MIB, MIB), Workload(), batch=2**60, gpu=None)


def test_a_size_that_shrinks_with_the_batch_is_no_trap():
    # 500 MiB less 1 MiB a sample beside 1 MiB a sample: 500 MiB up to batch 500, and from there on the input alone
    trace = chain(1 * MIB, 1 * MIB)
    first, second, last = trace.recordings[0].storages
    shrinking = replace(last, size_bytes=Affine(500 * MIB, -MIB))
    trace = replace(trace, recordings=(replace(trace.recordings[0], storages=(first, second, shrinking)),))
    assert estimate_memory(trace, Workload(), batch=10, gpu=None).peak_allocated_bytes.expected == 500 * MIB
    assert largest_batch(trace, Workload(), gpu=gpu(), available_bytes=1000 * MIB) == 600  # the context takes 400
    assert estimate_memory(trace, Workload(), batch=600, gpu=None).peak_allocated_bytes.expected == 600 * MIB


def test_a_recording_for_one_batch_answers_for_that_batch_alone():
    trace = chain(MIB, MIB)
    trace = replace(trace, recordings=(replace(trace.recordings[0], exact_batch=4, batches=(4,)),))
    assert estimate_memory(trace, Workload(), batch=4, gpu=None).batch == 4
    with pytest.raises(UsageError, match="traced at batch 4 alone; trace it at batch 8"):
        estimate_memory(trace, Workload(), batch=8, gpu=None)


def test_a_missing_recording_names_the_command():
    with pytest.raises(MissingRecordingError, match="capplan trace"):
        estimate_memory(chain(1, 1), Workload(precision=Precision.FP16), batch=1, gpu=None)


def test_a_gpu_without_a_usable_figure_is_noted():
    found = estimate_memory(chain(MIB, MIB), Workload(), batch=1, gpu=gpu(usable_bytes=None))
    assert any("usable" in note for note in found.notes)
    assert usable_memory(gpu(usable_bytes=None)).low < usable_memory(gpu(usable_bytes=None)).high


def test_guesses_and_unknown_operators_widen_the_interval():
    trace = chain(MIB, MIB)
    sure = estimate_memory(trace, Workload(), batch=1, gpu=None)
    guessed = replace(trace.recordings[0], assumed_values=(AssumedValue(what="nonzero", count=3),))
    unsure = estimate_memory(replace(trace, recordings=(guessed,)), Workload(), batch=1, gpu=None)
    assert sure.peak_allocated_bytes.low == sure.peak_allocated_bytes.high
    # a guess keeps every candidate: a fifth of the activations may be left, a quarter may come on top
    activations = part(sure, "activations").expected
    assert part(unsure, "activations") == Interval(low=0.2 * activations, expected=activations, high=1.25 * activations)
    assert any("assumed" in note for note in unsure.notes)
    shared = replace(guessed, assumed_values=(AssumedValue(what="aten.nonzero", count=3, share=0.25),))
    partly = estimate_memory(replace(trace, recordings=(shared,)), Workload(), batch=1, gpu=None)
    # a share of the candidates: half as much or twice as much may be held
    assert part(partly, "activations") == Interval(low=0.5 * activations, expected=activations, high=2 * activations)
    assert any("25.0 % of candidates (⟨selected-share⟩)" in note for note in partly.notes)
    odd = replace(trace.recordings[0], kernels=(replace(trace.recordings[0].kernels[0], name="mylib.magic"),))
    unknown = estimate_memory(replace(trace, recordings=(odd,)), Workload(), batch=1, gpu=None)
    assert any("mylib::magic" in note for note in unknown.notes)
    assert unknown.peak_allocated_bytes.high > sure.peak_allocated_bytes.high


def test_a_compiled_inference_holds_what_fused_kernels_write():
    # three relus in a row become one kernel: input and output; eagerly the middle one holds its input and its output
    trace = chain(4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB)
    eager, compiled = (
        estimate_memory(trace, Workload(framework=framework), batch=1, gpu=None)
        for framework in (Framework.EAGER, Framework.COMPILE)
    )
    assert part(eager, "activations") == Interval.exact(8 * MIB)
    assert part(compiled, "activations") == Interval(low=4 * MIB, expected=4 * MIB, high=8 * MIB)
    limit = UNCALIBRATED.contexts[0].size_bytes.expected + 3000 * MIB
    batches = [
        largest_batch(trace, Workload(framework=framework), gpu=gpu(usable_bytes=None), available_bytes=limit)
        for framework in (Framework.EAGER, Framework.COMPILE)
    ]
    assert batches == [250, 375]  # of 12 and of 8 MiB a sample


def test_compiling_may_keep_less():
    found = estimate_memory(chain(MIB, MIB), Workload(framework=Framework.COMPILE), batch=1, gpu=None)
    assert found.peak_allocated_bytes.low < found.peak_allocated_bytes.expected


def test_a_graph_with_a_pool_of_its_own_holds_a_share_of_eager_mode():
    trace = chain(4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB)
    eager = part(estimate_memory(trace, Workload(), batch=1, gpu=None), "activations").expected
    pooled = Workload(framework=Framework.COMPILE_GRAPHS)
    fitted = replace(UNCALIBRATED, graph_pool_fraction=0.8)
    found = estimate_memory(trace, pooled, batch=1, gpu=None, calibration=fitted)
    assert part(found, "activations") == Interval(low=0.5 * eager, expected=0.8 * eager, high=eager)
    assert any("pools of their own" in note for note in found.notes)


def linear(*, batch_rows: int = 4) -> tuple:
    weight = operand(8, 8)
    x, out = operand(BATCH, 8), operand(BATCH, 8)
    return make_trace(
        kernels=[kernel("aten.addmm", [operand(8), x, weight], [out])],
        ops=[Op(kernel=0, module=1, reads=(0, 2, 1), writes=(3,))],
        storages=[
            Storage(size_bytes=Affine(32), role=Role.PARAMETER, death=1, parameter=0),
            Storage(size_bytes=Affine(256), role=Role.PARAMETER, death=1, parameter=1),
            Storage(size_bytes=Affine(0, 32), role=Role.INPUT, death=1),
            Storage(size_bytes=Affine(0, 32), role=Role.ACTIVATION, birth=0, death=1),
        ],
        parameters=[
            Parameter(names=("bias",), dtype="float32", shape=(8,)),
            Parameter(names=("weight",), dtype="float32", shape=(8, 8)),
        ],
    )


@pytest.mark.parametrize(("capability", "size"), [((8, 6), 8_519_680), ((7, 5), 8_519_680), ((9, 0), 32 * MIB)])
def test_cublas_keeps_its_workspace(capability, size):
    # 8,519,680 bytes stand in a public memory snapshot; torch takes 32 MiB on Hopper
    found = estimate_memory(linear(), Workload(), batch=1, gpu=gpu(capability=capability))
    assert part(found, "library workspaces").low >= size
    assert part(found, "library workspaces").low < size + 40 * MIB


def test_a_convolution_takes_at_most_a_copy_of_what_it_touches():
    x, weight, out = operand(BATCH, 16, 64, 64), operand(16, 16, 3, 3), operand(BATCH, 16, 64, 64)
    size = 16 * 64 * 64 * 4
    trace = make_trace(
        kernels=[kernel("aten.convolution", [x, weight], [out])],
        ops=[Op(kernel=0, module=1, reads=(1, 0), writes=(2,))],
        storages=[
            Storage(size_bytes=Affine(16 * 16 * 9 * 4), role=Role.PARAMETER, death=1, parameter=0),
            Storage(size_bytes=Affine(0, size), role=Role.INPUT, death=1),
            Storage(size_bytes=Affine(0, size), role=Role.ACTIVATION, birth=0, death=1),
        ],
        parameters=[Parameter(names=("weight",), dtype="float32", shape=(16, 16, 3, 3))],
    )
    found = part(estimate_memory(trace, Workload(), batch=64, gpu=gpu()), "library workspaces")
    touched = 64 * 2 * size + 16 * 16 * 9 * 4
    assert found.low == 0
    assert touched <= found.high <= touched + MIB


def test_a_strided_input_is_copied_by_a_convolution():
    x = operand(BATCH, 16, 64, 64, layout=MemoryFormat.STRIDED)
    size = 16 * 64 * 64 * 4
    trace = make_trace(
        kernels=[kernel("aten.convolution", [x, operand(16, 16, 1, 1)], [operand(BATCH, 16, 64, 64)])],
        ops=[Op(kernel=0, module=1, reads=(1, 0), writes=(2,))],
        storages=[
            Storage(size_bytes=Affine(1024), role=Role.PARAMETER, death=1, parameter=0),
            Storage(size_bytes=Affine(0, size), role=Role.INPUT, death=1),
            Storage(size_bytes=Affine(0, size), role=Role.ACTIVATION, birth=0, death=1),
        ],
        parameters=[Parameter(names=("weight",), dtype="float32", shape=(16, 16, 1, 1))],
    )
    assert part(estimate_memory(trace, Workload(), batch=64, gpu=gpu()), "library workspaces").low >= 64 * size


def test_the_context_depends_on_the_device_and_release():
    rows = tuple(
        CudaSize(since=since, capabilities=capabilities, size_bytes=Interval.exact(size), origin="test")
        for since, capabilities, size in [
            ((2, 0), ((5, 0), (8, 9)), 300),
            ((2, 0), ((9, 0), (12, 9)), 500),
            ((0, 0), ((3, 0), (12, 9)), 1000),
        ]
    )
    calibration = replace(UNCALIBRATED, contexts=rows)
    assert calibration.context((8, 6), torch_version=(2, 4)).size_bytes.expected == 300
    assert calibration.context((9, 0), torch_version=(2, 4)).size_bytes.expected == 500
    assert calibration.context((8, 6), torch_version=(1, 12)).size_bytes.expected == 1000
    unknown = calibration.context(None, torch_version=(2, 4)).size_bytes
    assert (unknown.low, unknown.high) == (300, 1000)


def test_index_limit_by_hand():
    # 1000 elements a sample: 2^31 / 1000 = 2,147,483.6
    assert index_limit_batch(chain(4000, 4000).recordings[0]) == 2_147_483
