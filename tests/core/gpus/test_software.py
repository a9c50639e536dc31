"""Which software runs on which devices, against what vendors print, over all devices."""

import random
from itertools import product

import pytest

import capplan
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.latency.device import DeviceRates, Unsupported, device_rates
from capplan.core.latency.kernel_time import PeakUse
from capplan.core.workload import Framework, Precision, Workload
from capplan.errors import CapplanError
from capplan.specs.gpus.load import load_gpus
from capplan.specs.rate_laws import load_rate_laws
from tests.seen import at_least

GPUS = at_least(100, load_gpus().values())


def answer(gpu: GpuSpec, framework: Framework, precision: Precision) -> DeviceRates | Unsupported | None:
    """Return the rates of one pair; None where no device runs the two together."""
    try:
        workload = Workload(framework=framework, precision=precision)
    except CapplanError:
        return None
    return device_rates(gpu, workload, load_rate_laws())


PAIRS = [
    (gpu, framework, precision, found)
    for gpu, framework, precision in product(GPUS, Framework, Precision)
    if (found := answer(gpu, framework, precision)) is not None
]


def runs(framework: Framework, *precisions: Precision) -> set[str]:
    """Return the devices that are answered for under one of some formats."""
    return {
        gpu.id for gpu, under, precision, found in PAIRS
        if under is framework and precision in precisions and isinstance(found, DeviceRates)
    }  # fmt: skip


def capabilities(gpus: set[str]) -> set[tuple[int, int] | None]:
    return {gpu.compute_capability for gpu in GPUS if gpu.id in gpus}


@pytest.mark.parametrize("framework", [Framework.TENSORRT, Framework.ONNXRUNTIME])
def test_engines_of_cuda_run_on_nvidia_alone(framework: Framework) -> None:
    """NVIDIA's support matrix of TensorRT lists NVIDIA's GPUs; ONNX Runtime is estimated by its CUDA provider."""
    found = runs(framework, *Precision)
    assert {gpu.vendor for gpu in GPUS if gpu.id in found} == {"NVIDIA"}


def test_graphs_of_cuda_are_recorded_by_nvidia_and_amd() -> None:
    found = [gpu for gpu in GPUS if gpu.id in runs(Framework.COMPILE_GRAPHS, *Precision)]
    assert {gpu.vendor for gpu in found} == {"NVIDIA", "AMD"}
    assert min(gpu.compute_capability for gpu in found if gpu.compute_capability) == (7, 0)


def test_tpus_have_no_eager_mode() -> None:
    """PyTorch/XLA traces lazily; torch.compile is answered for."""
    tpus = {gpu.id for gpu in GPUS if gpu.vendor == "Google"}
    assert tpus & runs(Framework.EAGER, *Precision) == set()
    assert tpus <= runs(Framework.COMPILE, Precision.BF16)


def test_formats_of_tensorrt_are_those_of_its_support_matrix() -> None:
    """Rows of NVIDIA's hardware and precision tables: 8.4 for 6.0 to 8.7, 10.x from 7.5 on."""
    low = {(5, 3), (6, 0), (6, 1), (6, 2)}
    assert capabilities(runs(Framework.TENSORRT, Precision.FP16)) & low == {(5, 3), (6, 0), (6, 2)}
    assert capabilities(runs(Framework.TENSORRT, Precision.INT8)) & low == {(6, 1)}
    assert {(7, 0), (7, 2), (7, 5), (8, 0), (8, 6), (8, 7)} <= capabilities(runs(Framework.TENSORRT, Precision.INT8))
    assert min(filter(None, capabilities(runs(Framework.TENSORRT, Precision.BF16)))) == (8, 0)
    assert min(filter(None, capabilities(runs(Framework.TENSORRT, Precision.FP8)))) == (8, 9)


def test_bfloat16_runs_on_every_nvidia_gpu_eagerly_and_is_compiled_from_ampere_on() -> None:
    """`torch.cuda.is_bf16_supported()` is True on a V100 and T4; Inductor skips graphs in bfloat16 there."""
    nvidia = {gpu.id for gpu in GPUS if gpu.vendor == "NVIDIA"}
    assert nvidia <= runs(Framework.EAGER, Precision.BF16)
    assert min(filter(None, capabilities(runs(Framework.COMPILE, Precision.BF16)))) == (8, 0)


@pytest.mark.parametrize(
    ("gpu_id", "measured_tflops"),
    [("v100-sxm2-16gb", 9.6), ("gtx-1080", 3.64)],
)
def test_emulated_products_run_about_as_fast_as_was_measured(gpu_id: str, measured_tflops: float) -> None:
    """Large products: lablup/mlxcel#1654 (a V100) and kubeedge/ianvs#888 (a GTX 1080); within a factor of 1.5."""
    gpu = next(gpu for gpu in GPUS if gpu.id == gpu_id)
    found = answer(gpu, Framework.EAGER, Precision.BF16)
    assert isinstance(found, DeviceRates)
    assert 1 / 1.5 < found.peaks_flops_per_s[PeakUse.HALF] / (measured_tflops * 1e12) < 1.5


def test_engines_add_up_in_half_where_pytorch_does_not() -> None:
    """The P100 prints 21.2 TFLOP/s in fp16 and 10.6 in fp32, the Jetson Nano 0.472 and 0.236."""
    for gpu in (gpu for gpu in GPUS if gpu.compute_capability in ((5, 3), (6, 0), (6, 2))):
        engine, eager = (answer(gpu, each, Precision.FP16) for each in (Framework.TENSORRT, Framework.EAGER))
        assert isinstance(engine, DeviceRates)
        assert isinstance(eager, DeviceRates)
        assert engine.printed_flops_per_s[PeakUse.HALF] == gpu.peak(PeakKind.FP16_VECTOR)
        assert eager.printed_flops_per_s[PeakUse.HALF] == gpu.peak(PeakKind.FP32)


def test_what_is_refused_names_the_real_lack() -> None:
    refused = [(gpu, found) for gpu, *_, found in PAIRS if isinstance(found, Unsupported)]
    for gpu, found in at_least(500, refused):
        assert gpu.id in found.reason
        assert found.lacking
        _, separator, needed = found.lacking.partition("known rate for ")
        if separator:  # the rate that is said to be missing is not in the spec
            assert not gpu.peak(PeakKind(needed)), found


def offered(gpu: GpuSpec, framework: Framework, precision: Precision) -> bool:
    """Return what makers offer, by NVIDIA's support matrix and PyTorch's, PyTorch/XLA's and Neuron's documents."""
    held, word = gpu.compute_capability or (0, 0), precision.arithmetic
    if framework.is_engine:
        since = {"int8": (7, 0), "fp8": (8, 9), "bf16": (8, 0), "tf32": (8, 0)}.get(word, (5, 3))
        return gpu.vendor == "NVIDIA" and (held >= since or (word == "int8" and held == (6, 1)))
    if framework is Framework.EAGER:
        return gpu.vendor not in ("Google", "Amazon")
    if framework is Framework.COMPILE_GRAPHS and gpu.vendor not in ("NVIDIA", "AMD"):
        return False
    return gpu.vendor != "NVIDIA" or held >= ((8, 0) if word == "bf16" else (7, 0))


@pytest.mark.slow
def test_two_thousand_random_questions_find_no_pair_that_its_maker_does_not_offer() -> None:
    """Ask `plan` about random devices, frameworks and formats; those of one step are asked together."""
    chance = random.Random(54)
    asked: dict[tuple[Framework, Precision], list[GpuSpec]] = {}
    choices = sorted({(framework, precision) for _, framework, precision, _ in PAIRS})
    for _ in range(2000):
        asked.setdefault(chance.choice(choices), []).append(chance.choice(GPUS))
    answers = refusals = 0
    for (framework, precision), gpus in asked.items():
        plan = capplan.plan(
            "examples/net.py:Net", inputs=["x=3x32x32"], gpus=sorted({gpu.id for gpu in gpus}),
            batches=[chance.choice([1, 8, 64])], framework=framework, precision=precision,
        )  # fmt: skip
        answered = {fit.gpu.id for fit in plan.fits}
        answers += sum(gpu.id in answered for gpu in gpus)
        refusals += sum(gpu.id not in answered for gpu in gpus)
        wrong = [gpu.id for gpu in gpus if gpu.id in answered and not offered(gpu, framework, precision)]
        assert not wrong, (framework, precision, wrong)
        assert {rejection.gpu.id for rejection in plan.rejections} == {gpu.id for gpu in gpus} - answered
    assert answers + refusals == 2000
    assert min(answers, refusals) > 400


def test_kernels_for_blackwell_are_built_since_the_release_whose_notes_name_it() -> None:
    """pytorch.org/blog/pytorch-2-7 of 2025-04-23, and NVIDIA's container 25.01 of PyTorch 2.6 before it."""
    software = load_rate_laws().software
    for gpu in ("b200-sxm-180gb", "rtx-5090"):
        assert software.built_since(load_gpus()[gpu], (2, 5)) == "2.6"
        assert software.built_since(load_gpus()[gpu], (2, 6)) is None
    assert software.built_since(load_gpus()["h100-sxm5-80gb"], (1, 13)) is None
