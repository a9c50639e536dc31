"""What attention and its libraries hold beside their outputs, by hand."""

from dataclasses import replace

from capplan.core.memory.model import MemoryModel
from capplan.core.memory.types import UNCALIBRATED
from capplan.core.memory.workspace import CUBLAS_KEPT, CUBLASLT_PASSING, library_workspace
from capplan.core.trace.types import HALF, Affine, MemoryFormat, Op, Phase, Role, Storage
from capplan.core.workload import Configuration, Optimizer, Precision, Training, Variant, Workload
from capplan.specs import load_gpus
from capplan.specs.calibration import load_memory_calibration
from tests.core.small_recordings import BATCH, kernel, make_trace, operand

MIB = 2**20


def estimate_memory(trace, workload, *, batch, gpu, calibration=UNCALIBRATED):
    return MemoryModel(trace=trace, workload=workload, calibration=calibration).estimate(batch=batch, gpu=gpu)


def attention_trace(*, configuration, dtype=HALF, head_dim=64, length=1024, training=False, has_mask=False):
    q = operand(BATCH, 8, length, head_dim, dtype=dtype)
    item = 2 if dtype == HALF else 4
    size = 8 * length * head_dim * item
    lse = operand(BATCH, 8, length)
    forward = kernel("capplan.attention", [q, q, q], [q, lse] if training else [q], has_mask=has_mask)
    if not training:
        return make_trace(
            kernels=[forward],
            ops=[Op(kernel=0, module=1, reads=(0, 0, 0), writes=(1,))],
            storages=[
                Storage(size_bytes=Affine(0, size), role=Role.INPUT, death=1),
                Storage(size_bytes=Affine(0, size), role=Role.ACTIVATION, birth=0, death=1),
            ],
            configuration=configuration,
        )
    backward = kernel("capplan.attention_backward", [q, q, q, q, q, lse], [q, q, q])
    return make_trace(
        kernels=[forward, backward],
        ops=[
            Op(kernel=0, module=1, reads=(0, 0, 0), writes=(1, 2)),
            Op(kernel=1, module=1, reads=(1, 0, 0, 0, 1, 2), writes=(3, 4, 5)),
        ],
        storages=[
            Storage(size_bytes=Affine(0, size), role=Role.INPUT, death=2),
            Storage(size_bytes=Affine(0, size), role=Role.ACTIVATION, birth=0, death=1),
            Storage(size_bytes=Affine(0, 8 * length * 4), role=Role.ACTIVATION, birth=0, death=1),
            *[Storage(size_bytes=Affine(0, size), role=Role.GRADIENT, birth=1, death=2) for _ in range(3)],
        ],
        configuration=configuration,
        phases=[Phase(name="forward", step=1, first_op=0), Phase(name="backward", step=1, first_op=1)],
    )


def peak(trace, workload) -> float:
    return estimate_memory(trace, workload, batch=4, gpu=None).peak_allocated_bytes.expected


def test_fused_attention_holds_no_scores():
    half = Workload(precision=Precision.FP16, torch_version=(2, 7))
    trace = attention_trace(configuration=half.configuration)
    # input and output of 4 MiB each (4 · 8 · 1024 · 64 · 2 bytes), logsumexp 4 · 8 · 1024 · 4 bytes = 128 KiB
    assert peak(trace, half) == 8 * MIB + 128 * 1024


def test_torch_2_1_pads_a_mask_for_every_sample_and_head():
    peaks = []
    for version in ((2, 1), (2, 4)):
        half = Workload(precision=Precision.FP16, torch_version=version)
        trace = attention_trace(configuration=half.configuration, length=1000, has_mask=True)
        peaks.append(peak(trace, half))
    # rows of 1,000 scores in 16 bits padded to 1,008, for 4 samples, 8 heads and 1,000 queries; the allocator does not
    # split less than 1 MiB off a block of whole 2 MiB
    assert 0 <= peaks[0] - peaks[1] - 4 * 8 * 1000 * 1008 * 2 < MIB


def test_unfused_attention_holds_scores():
    old = Workload(precision=Precision.FP16, torch_version=(1, 13))
    trace = attention_trace(configuration=old.configuration)
    # scores 4 · 8 · 1024² · 2 bytes = 64 MiB, and their softmax again
    assert peak(trace, old) >= 8 * MIB + 128 * MIB
    assert peak(trace, old) <= 8 * MIB + 128 * MIB + 3 * 4 * MIB


def test_autocast_ran_softmax_in_fp32_before_fused_attention():
    old = Workload(precision=Precision.AMP_FP16, torch_version=(1, 13))
    trace = attention_trace(configuration=Configuration(variant=Variant.AMP))
    # 2 bytes of scores and 4 of softmax: 64 + 128 MiB
    assert 8 * MIB + 192 * MIB <= peak(trace, old) <= 8 * MIB + 192 * MIB + 3 * 4 * MIB


def test_unfused_attention_saves_its_softmax_for_the_backward():
    training = Training(optimizer=Optimizer.SGD)
    old = Workload(precision=Precision.FP32, torch_version=(1, 13), training=training)
    trace = attention_trace(configuration=old.configuration, dtype="float32", training=True)
    found = estimate_memory(trace, old, batch=4, gpu=None)
    activations = next(part.size_bytes for part in found.parts if part.name == "activations")
    # the softmax of 4 · 8 · 1024² · 4 bytes = 128 MiB lives from forward to backward
    assert activations.expected >= 128 * MIB


def test_every_device_finds_a_workspace():
    for table in (CUBLAS_KEPT, CUBLASLT_PASSING):
        for capability in ((3, 5), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), None):
            assert library_workspace(table, torch_version=(2, 11), compute_capability=capability) is not None


def test_before_1_11_cublas_took_its_own():
    assert library_workspace(CUBLAS_KEPT, torch_version=(1, 10), compute_capability=(8, 6)) is None


def convolution_trace(memory_format):
    """One convolution of 16 channels to 32, kernel 1, at 8 x 8 places in fp32."""
    shapes = [operand(BATCH, 16, 8, 8), operand(32, 16, 1, 1), operand(BATCH, 32, 8, 8)]
    image, weight, out = (replace(each, memory_format=memory_format) for each in shapes)
    return make_trace(
        kernels=[kernel("aten.convolution", [image, replace(weight, is_weight=True)], [out], groups=1)],
        ops=[Op(kernel=0, module=1, reads=(0, 1), writes=(2,))],
        storages=[
            Storage(size_bytes=Affine(0, 16 * 64 * 4), role=Role.INPUT, death=1),
            Storage(size_bytes=Affine(32 * 16 * 4), role=Role.PARAMETER, death=1, parameter=None),
            Storage(size_bytes=Affine(0, 32 * 64 * 4), role=Role.ACTIVATION, birth=0, death=1),
        ],
        configuration=Configuration(),
    )


def test_a_cpu_copies_row_major_images_and_takes_nothing_of_cudas():
    """The fixture's share of what a convolution touches is 1 of images in NCHW, and 0 of those in NHWC."""
    cpu = load_gpus().find("epyc-9654")
    touched = 100 * (16 * 64 * 4 + 32 * 64 * 4) + 32 * 16 * 4
    for memory_format, expected in ((MemoryFormat.CONTIGUOUS, touched), (MemoryFormat.CHANNELS_LAST, 0)):
        found = estimate_memory(
            convolution_trace(memory_format), Workload(), batch=100, gpu=cpu, calibration=load_memory_calibration()
        )
        sizes = {part.name: part for part in found.parts}
        workspace = sizes.get("library workspaces")
        assert (workspace.size_bytes.expected if workspace else 0) == expected
        assert workspace is None or workspace.origin == "made up"
