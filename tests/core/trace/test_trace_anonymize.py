"""A trace without names says nothing of the model but its shapes."""

from dataclasses import replace

from capplan.core.trace.format import anonymize_trace, dump_trace
from capplan.core.trace.types import (
    Affine,
    AssumedValue,
    InputTensor,
    Kernel,
    Op,
    Operand,
    Parameter,
    Provenance,
    Recording,
    Trace,
)
from capplan.core.workload import Configuration

TENSOR = Operand(dtype="float32", shape=(Affine(0, 1), Affine(4)))
SECRETS = ("secret", "Secret", "encoder", "gate", "proprietary", "acme")
SECRET = Trace(
    name="secret",
    target="secret.py:SecretNet",
    class_name="SecretNet",
    parameters=(
        Parameter(names=("encoder.weight", "gate.weight"), dtype="float32", shape=(4, 4)),
        Parameter(names=("encoder.bias",), dtype="float32", shape=(4,), is_buffer=True),
    ),
    inputs=(InputTensor(name="acme_ids", dtype="float32", shape=(Affine(0, 1), Affine(4))),),
    recordings=(
        Recording(
            configuration=Configuration(),
            modules=("encoder", "encoder.gate", "encoder.proprietary", ""),
            kernels=(
                Kernel(name="aten.relu", inputs=(TENSOR,), outputs=(TENSOR,)),
                Kernel(name="acme.op", inputs=(TENSOR,), outputs=(TENSOR,), attributes={"proprietary": 3}),
            ),
            ops=(Op(kernel=0, module=1, reads=(0,), writes=(1,)), Op(kernel=1, module=2, reads=(1,), writes=(0,))),
            storages=(),
            batches=(2, 3, 5),
            assumed_values=(AssumedValue(what="acme.op", count=2), AssumedValue(what="aten.nonzero", count=1)),
        ),
    ),
    provenance=Provenance(
        capplan_version="1", versions={"torch": "2.13", "acme": "3"}, source_sha256="ab", notes=("secret.py",)
    ),
)


def test_no_name_is_left_anywhere_in_the_file():
    text = dump_trace(anonymize_trace(SECRET), compress=False).decode()
    assert [word for word in SECRETS if word in text] == []


def test_operators_of_quantisation_libraries_keep_the_names_that_count_their_products():
    recording = SECRET.recordings[0]
    weight = Operand(dtype="int8", shape=(Affine(8), Affine(4)), is_weight=True)
    product = Kernel(name="quanto.qbytes_mm", inputs=(TENSOR, weight), outputs=(TENSOR,))
    quantised = replace(SECRET, recordings=(replace(recording, kernels=(product, recording.kernels[1])),))
    kept, own = anonymize_trace(quantised).recordings[0].kernels
    assert (kept, own.name) == (product, "custom.op0")


def test_an_operator_that_only_an_assumed_value_names_is_renamed_too():
    value = AssumedValue(what="proprietary.route", count=1)
    routed = replace(SECRET, recordings=(replace(SECRET.recordings[0], assumed_values=(value,)),))
    assert anonymize_trace(routed).recordings[0].assumed_values[0].what == "custom.op1"


def test_modules_keep_their_place_in_the_tree_and_shapes_stay():
    made = anonymize_trace(SECRET)
    assert made.recordings[0].modules == ("0", "0.0", "0.1", "")
    assert [kernel.name for kernel in made.recordings[0].kernels] == ["aten.relu", "custom.op0"]
    assert made.recordings[0].assumed_values[0].what == "custom.op0"
    assert made.recordings[0].ops == SECRET.recordings[0].ops
    assert made.parameter_count == SECRET.parameter_count == 16
    assert len(made.parameters[0].names) == 2  # sharing is a fact, not a name
