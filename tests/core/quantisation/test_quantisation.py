"""Quantised linear layers: stored bytes, kernels and FLOPs derived by hand, and which GPUs can run them."""

from dataclasses import replace

import pytest

from capplan.core.gpus.rate_laws import GUESSED_LAWS
from capplan.core.latency.device import missing_kernels
from capplan.core.latency.op_table import KernelTable, kernel_table
from capplan.core.latency.step import ExecutedStep
from capplan.core.memory.schedule import live_curve
from capplan.core.ops.flops import kernel_flops, traffic
from capplan.core.quantisation.checkpoints import checkpoint_scheme
from capplan.core.quantisation.rewrite import quantise_trace
from capplan.core.quantisation.schemes import SCHEMES, find_scheme, pack
from capplan.core.trace.types import (
    ITEM_BYTES,
    Affine,
    Kernel,
    Op,
    Operand,
    Parameter,
    Provenance,
    Recording,
    Role,
    Storage,
    Trace,
)
from capplan.core.weights import WEIGHT_FORMATS
from capplan.core.workload import Configuration, Framework, Training, Variant, Workload
from capplan.errors import UnknownNameError, UsageError
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration

BATCH = Affine(0, 1)
ROWS, INPUTS, OUTPUTS, VOCABULARY = Affine(0, 16), 256, 512, 128


def operand(dtype: str, *shape: Affine | int, weight: bool = False) -> Operand:
    dims = tuple(dim if isinstance(dim, Affine) else Affine(dim) for dim in shape)
    return Operand(dtype=dtype, shape=dims, is_weight=weight)


def model(*, dtype: str = "half", training: Training | None = None) -> Trace:
    """An embedding, a linear layer of 256 by 512 with bias, and one of 512 by 128 called lm_head."""
    kernels = (
        Kernel(
            name="aten.embedding",
            inputs=(operand(dtype, VOCABULARY, INPUTS, weight=True), operand("int64", ROWS)),
            outputs=(operand(dtype, ROWS, INPUTS),),
        ),
        Kernel(
            name="aten.addmm",
            inputs=(
                operand(dtype, OUTPUTS, weight=True),
                operand(dtype, ROWS, INPUTS),
                operand(dtype, INPUTS, OUTPUTS, weight=True),
            ),
            outputs=(operand(dtype, ROWS, OUTPUTS),),
        ),
        Kernel(
            name="aten.mm",
            inputs=(operand(dtype, ROWS, OUTPUTS), operand(dtype, OUTPUTS, VOCABULARY, weight=True)),
            outputs=(operand(dtype, ROWS, VOCABULARY),),
        ),
    )
    sizes = [VOCABULARY * INPUTS, OUTPUTS, OUTPUTS * INPUTS, VOCABULARY * OUTPUTS]
    names = ["embed.weight", "up.bias", "up.weight", "lm_head.weight"]
    shapes = [(VOCABULARY, INPUTS), (OUTPUTS,), (OUTPUTS, INPUTS), (VOCABULARY, OUTPUTS)]
    item = int(ITEM_BYTES[dtype])
    storages = (
        *(
            Storage(size_bytes=Affine(item * size), role=Role.PARAMETER, death=3, parameter=index)
            for index, size in enumerate(sizes)
        ),
        Storage(size_bytes=Affine(0, 16 * 8), role=Role.INPUT, death=3),
        Storage(size_bytes=Affine(0, 16 * INPUTS * item), role=Role.ACTIVATION, birth=0, death=1),
        Storage(size_bytes=Affine(0, 16 * OUTPUTS * item), role=Role.ACTIVATION, birth=1, death=2),
        Storage(size_bytes=Affine(0, 16 * VOCABULARY * item), role=Role.ACTIVATION, birth=2, death=3),
    )
    recording = Recording(
        configuration=Configuration(variant=Variant.HALF if dtype == "half" else Variant.FULL, training=training),
        modules=("",),
        kernels=kernels,
        ops=(
            Op(kernel=0, module=0, reads=(0, 4), writes=(5,)),
            Op(kernel=1, module=0, reads=(1, 5, 2), writes=(6,)),
            Op(kernel=2, module=0, reads=(6, 3), writes=(7,)),
        ),
        storages=storages,
        batches=(2, 4, 6),
    )
    return Trace(
        name="net",
        target="net",
        class_name="Net",
        parameters=tuple(
            Parameter(names=(name,), dtype="float32", shape=shape) for name, shape in zip(names, shapes, strict=True)
        ),
        inputs=(),
        recordings=(recording,),
        provenance=Provenance(capplan_version="0"),
    )


def weights_bytes(trace: Trace) -> int:
    (recording,) = trace.recordings
    return sum(each.size_bytes.constant for each in recording.storages if each.role is Role.PARAMETER)


WIDE = 2 * (VOCABULARY * INPUTS + OUTPUTS + VOCABULARY * OUTPUTS)  # embedding, bias and head stay in 16 bits
MATRIX = OUTPUTS * INPUTS

STORED = {
    # one 16-bit scale a row
    "int8_weight_only": MATRIX + 2 * OUTPUTS,
    "int8_dynamic": MATRIX + 2 * OUTPUTS,
    # two weights a byte; 256 inputs are two groups of 128, each with a 16-bit scale and zero point
    "int4_weight_only": MATRIX // 2 + 4 * 2 * OUTPUTS,
    "float8_dynamic": MATRIX + 4 * OUTPUTS,
    # an fp8 scale for 16 weights
    "nvfp4_dynamic": MATRIX // 2 + MATRIX // 16,
    "mxfp4": MATRIX // 2 + MATRIX // 32,
    # an fp32 maximum for 64 weights; doubly quantised: 8 bits each and fp32 for 256 of them, at least one a row here
    "bitsandbytes_4bit": MATRIX // 2 + 4 * MATRIX // 64,
    # 16-bit scales, 4-bit zero points, and a 32-bit index of every input column
    "gptq": MATRIX // 2 + 2 * OUTPUTS * 2 + OUTPUTS * 2 // 2 + 4 * INPUTS,
    "awq": MATRIX // 2 + 2 * OUTPUTS * 2 + OUTPUTS * 2 // 2,
    # ggml-common.h: a block of 32 has a 16-bit scale (34 bytes of int8, 18 of int4), Q4_1 a 16-bit minimum, too (20
    # bytes), and 256 of Q4_K 144 bytes
    "q8_0": MATRIX // 32 * 34,
    "q4_0": MATRIX // 32 * 18,
    "q4_1": MATRIX // 32 * 20,
    "q4_k": MATRIX // 256 * 144,
    # an fp32 scale for 128 by 128: 4 by 2 blocks
    "fp8_block": MATRIX + 4 * 8,
}


@pytest.mark.parametrize("name", STORED)
def test_weights_scales_and_zero_points_take_what_the_format_says(name: str) -> None:
    assert weights_bytes(model()) == WIDE + 2 * MATRIX
    assert weights_bytes(quantise_trace(model(), SCHEMES[name])) == WIDE + STORED[name]


@pytest.mark.parametrize("name", [name for name, scheme in SCHEMES.items() if scheme.format])
def test_a_large_matrix_takes_the_bits_of_the_served_format(name: str) -> None:
    """One rule for both worlds: bits per weight as language models are served, permutation and row scales apart."""
    scheme, side = SCHEMES[name], 8192
    packed = pack(scheme, (side, side))
    parts = [packed.weight, *(part for part in packed.others if part.name != "g_idx")]
    bits = 8 * sum(ITEM_BYTES[part.dtype] * part.shape[0] * part.shape[1] for part in parts) / side**2
    assert bits == pytest.approx(WEIGHT_FORMATS[scheme.format].bits, abs=33 / side)


@pytest.mark.parametrize("name", STORED)
def test_the_products_stay_and_parameters_are_counted_as_before(name: str) -> None:
    made = quantise_trace(model(), SCHEMES[name])
    (recording,) = made.recordings
    flops = sum(kernel_flops(recording.kernels[op.kernel], 3) for op in recording.ops)
    assert flops == 2 * 3 * 16 * (INPUTS * OUTPUTS + OUTPUTS * VOCABULARY)
    assert made.parameter_count == model().parameter_count
    assert any(name in note for note in made.provenance.notes)


def test_weights_stored_with_inputs_first_count_the_columns_of_the_output() -> None:
    # transformers' Conv1D keeps [inputs, outputs]: 16 rows of 256 by 512, and of 512 by 128 in lm_head, two FLOPs each.
    wide = model()
    shapes = {"up.weight": (INPUTS, OUTPUTS)}
    turned = replace(
        wide,
        parameters=tuple(
            replace(parameter, shape=shapes.get(parameter.names[0], parameter.shape)) for parameter in wide.parameters
        ),
    )
    (recording,) = quantise_trace(turned, SCHEMES["awq"]).recordings
    assert sum(kernel_flops(kernel, 1) for kernel in recording.kernels) == 2 * 16 * (256 * 512 + 512 * 128)


def names(name: str) -> list[str]:
    (recording,) = quantise_trace(model(), SCHEMES[name]).recordings
    return [recording.kernels[op.kernel].name.partition(".")[2] for op in recording.ops]


def test_each_scheme_runs_the_kernels_that_pytorch_runs() -> None:
    assert names("int4_weight_only") == ["embedding", "quantised_linear", "mm"]
    assert names("int8_weight_only") == ["embedding", "widen", "addmm", "mm"]
    assert names("int8_dynamic") == ["embedding", "quantise", "quantised_linear", "rescale", "mm"]
    assert names("float8_dynamic") == ["embedding", "quantise", "quantised_linear", "mm"]


def test_a_fused_kernel_reads_packed_weights_and_a_widened_one_reads_them_twice() -> None:
    def weight_traffic(name: str) -> int:
        (recording,) = quantise_trace(model(), SCHEMES[name]).recordings
        moved = [traffic(recording.kernels[op.kernel], 1) for op in recording.ops[1:-1]]
        return sum(each.weight_bytes for each in moved)

    assert weight_traffic("int4_weight_only") == MATRIX // 2 + 8 * OUTPUTS + 2 * OUTPUTS
    assert weight_traffic("bitsandbytes_4bit") == STORED["bitsandbytes_4bit"] + 2 * MATRIX + 2 * OUTPUTS
    assert weight_traffic("int8_weight_only") == MATRIX + 2 * OUTPUTS + 2 * MATRIX + 2 * OUTPUTS


def test_lifetimes_of_the_model_are_kept_and_temporaries_die_at_once() -> None:
    plain, made = model().recordings[0], quantise_trace(model(), SCHEMES["int8_dynamic"]).recordings[0]
    for batch in (1, 7):
        before, after = live_curve(plain).at(batch), live_curve(made).at(batch)
        assert after[0] - before[0] == STORED["int8_dynamic"] - 2 * MATRIX  # what is there before the first operator
        assert after[-1] - before[-1] == STORED["int8_dynamic"] - 2 * MATRIX
        # the product's 32-bit sums beside its 8-bit input, on top of embedding's output
        assert int(after.max()) >= int(after[0]) + 16 * batch * (2 * INPUTS + INPUTS)
    assert len(made.ops) == len(plain.ops) + 2


def test_options_name_schemes() -> None:
    assert find_scheme(None, None) is None
    assert find_scheme("int8", None) is SCHEMES["int8_weight_only"]
    assert find_scheme("int8", "int8") is find_scheme(None, "int8") is SCHEMES["int8_dynamic"]
    assert find_scheme("fp8", "fp8") is SCHEMES["float8_dynamic"]
    assert find_scheme("Int4WeightOnlyConfig", None) is SCHEMES["int4_weight_only"]
    assert find_scheme("nf4", None) is SCHEMES["bitsandbytes_4bit"]
    with pytest.raises(UnknownNameError, match="did you mean int8, int4"):
        find_scheme("int5", None)
    with pytest.raises(UsageError, match="no kernel for int4 weights with fp8"):
        find_scheme("int4", "fp8")
    with pytest.raises(UsageError, match="drop ⟨activations⟩"):
        find_scheme("awq", "int8")


def test_training_and_autocast_are_refused() -> None:
    with pytest.raises(UsageError, match="drop ⟨train⟩"):
        quantise_trace(model(training=Training()), SCHEMES["int8_dynamic"])
    trace = model()
    autocast = replace(trace.recordings[0], configuration=Configuration(variant=Variant.AMP))
    with pytest.raises(UsageError, match="autocast"):
        quantise_trace(replace(trace, recordings=(autocast,)), SCHEMES["int8_dynamic"])


def test_gpus_without_the_kernels_are_named() -> None:
    gpus, software = load_gpus(), load_calibration().laws.software
    (recording,) = quantise_trace(model(), SCHEMES["float8_dynamic"]).recordings
    refused = missing_kernels(recording, gpus["a100-sxm4-80gb"], software)
    assert refused is not None
    assert "8.9" in refused.reason
    for able in ("l4", "h100-sxm5-80gb", "mi300x"):
        assert missing_kernels(recording, gpus[able], software) is None
    assert missing_kernels(model().recordings[0], gpus["t4"], software) is None


CONFIGS = {
    "bitsandbytes_int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
    "bitsandbytes_4bit": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "bitsandbytes_4bit_double": {"load_in_4bit": True, "bnb_4bit_use_double_quant": True},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 64},
    "fp8_block": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "float8_dynamic": {"quant_method": "fbgemm_fp8"},
    "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
    "nvfp4_dynamic": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "compressed_tensors_int4": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
    },
    "int8_dynamic": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8}}},
    },
}


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_of_checkpoints_are_read(name: str) -> None:
    assert checkpoint_scheme(CONFIGS[name], where="config.json").name == name


def test_groups_and_exceptions_of_a_configuration_count() -> None:
    small = checkpoint_scheme({"quant_method": "gptq", "bits": 4, "group_size": 32}, where="c")
    groups = MATRIX // 32 * 5 // 2  # a 16-bit scale and a 4-bit zero point each
    assert weights_bytes(quantise_trace(model(), small)) == WIDE + MATRIX // 2 + groups + 4 * INPUTS
    head_too = checkpoint_scheme({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["up"]}, where="c")
    packed = VOCABULARY * OUTPUTS + 4 * VOCABULARY
    assert weights_bytes(quantise_trace(model(), head_too)) == WIDE + 2 * MATRIX - 2 * VOCABULARY * OUTPUTS + packed


@pytest.mark.parametrize(
    "config",
    [
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}},
        },
        {"quant_method": "modelopt", "quant_algo": "FP8"},
    ],
)
def test_a_matrix_with_one_scale_stores_one(config: dict[str, object]) -> None:
    """A byte a weight and one fp32 number a matrix, as RedHat's FP8 and NVIDIA's checkpoints hold them."""
    found = quantise_trace(model(), checkpoint_scheme(config, where="config.json"))
    assert weights_bytes(found) == WIDE + MATRIX + 4


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "hqq2"},
        {},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "gptq", "bits": "four"},
        {"quant_method": "fp8", "weight_block_size": [0, "x"]},
        {"quant_method": "compressed-tensors", "config_groups": []},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 3}}}},
        {"quant_method": "torchao", "quant_type": {"default": 3}},
    ],
)
def test_configurations_that_are_not_understood_are_refused(config: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        checkpoint_scheme(config, where="config.json")


@pytest.mark.parametrize(("framework", "kernels"), [(Framework.EAGER, 3), (Framework.COMPILE, 2)])
def test_kernels_that_unpack_a_weight_read_and_write_its_wide_copy(framework: Framework, kernels: int) -> None:
    (recording,) = quantise_trace(model(), SCHEMES["int8_weight_only"]).recordings
    workload = Workload(framework=framework)

    def table(unpacking: dict[str, float]) -> KernelTable:
        calibration = replace(load_calibration(), laws=replace(GUESSED_LAWS, unpacking=unpacking))
        step = ExecutedStep(recording=recording, workload=workload, calibration=calibration)
        return kernel_table(step, batches=[1])

    plain, unpacked = table({}), table({"int8_weight_only": 3.0})
    # the first kernel reads 8 bits and writes 16 in either; each other one reads and writes 16, a compiler's is one
    more = (unpacked.moved_bytes - plain.moved_bytes)[:, 0]
    assert sorted(more)[-1] == (kernels - 1) * 2 * 2 * MATRIX
    assert float(more.sum()) == (kernels - 1) * 2 * 2 * MATRIX
    assert float(unpacked.launches.sum() - plain.launches.sum()) == kernels - 1
