"""SWEEP.yaml: what it may hold, and how errors name the key and what would do."""

from enum import Enum
from pathlib import Path

import pytest

from capplan.core.sweep.definition import ModelEntry, workload_label
from capplan.core.workload import BatchChoice, Optimizer
from capplan.errors import SpecError
from capplan.verbs.sweep_file import _MODEL_KEYS, _TRAINING_KEYS, _WORKLOAD_FIELDS, read_sweep_file, read_sweep_tree

OF_THE_DOCS = """
models: [torchvision:resnet18, "timm:vit_tiny*"]
gpus: {where: "memory >= 24GiB", segment: data-centre}
workloads:
  - {batch: [1, 32], precision: [fp32, amp-fp16], framework: [eager], layout: [nchw]}
"""


def test_the_example_reads(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(OF_THE_DOCS)
    found = read_sweep_file(path)
    assert [entry.words for entry in found.models] == ["torchvision:resnet18", "timm:vit_tiny*"]
    assert found.gpus[0].where == ("memory >= 24GiB", "segment = data-centre")
    assert [workload_label(each) for each in found.workloads] == [
        "fp32-eager-nchw-inference",
        "amp-fp16-eager-nchw-inference",
    ]
    assert found.workloads[0].batches.sizes == (1, 32)


def test_a_model_is_prepared_and_frozen() -> None:
    model = {"model": "resnet18", "prepare": ["fuse"], "freeze": ["layer1.*", "conv1.weight"]}
    found = read_sweep_tree({"models": [model], "gpus": ["l4"]}, shown="sweep.yaml").models[0]
    assert (found.prepare, found.freeze) == (("fuse",), ("layer1.*", "conv1.weight"))


def test_every_key_of_a_model_changes_what_is_swept() -> None:
    values: dict[str, object] = {
        "arg": ["depth=50"], "input": ["x=3x8x8"], "input_size": "3x8x8", "seq_len": 8, "inputs_from": "f.py:make",
        "prepare": ["fuse"], "freeze": ["a.*"], "new_tokens": 4, "set": {"steps": 2}, "part": {"vae.precision": "fp32"},
        "offload": "model",
    }  # fmt: skip
    assert {*values, "model"} == set(_MODEL_KEYS)
    for name, value in values.items():
        found = read_sweep_tree({"models": [{"model": "m", name: value}], "gpus": ["l4"]}, shown="sweep.yaml")
        assert found.models[0] != ModelEntry(words="m"), name


def read(**changes: object) -> object:
    tree = {"models": ["resnet18"], "gpus": ["l4"], "workloads": [{"batch": [1]}], **changes}
    return read_sweep_tree({key: value for key, value in tree.items() if value is not None}, shown="sweep.yaml")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": ["resnet18"]}, r"sweep\.yaml: model: unknown key; did you mean models"),
        ({"models": None}, r"models: is missing; list models"),
        ({"models": []}, r"models: is empty"),
        ({"models": [3]}, r"models\[0\]: must be a model's name"),
        ({"gpus": None}, r"gpus: is missing"),
        ({"gpus": {"where": "memory >= 24GiB", "segmnt": "x"}}, r"gpus\.segmnt: unknown key; did you mean segment"),
        ({"gpus": {"segment": "datacenter"}}, r"gpus\.segment: 'datacenter' is not known; use data-centre"),
        (
            {"workloads": [{"precision": "fp17"}]},
            r"workloads\[0\]\.precision: unknown precision 'fp17'; did you mean fp1",
        ),
        ({"workloads": [{"batches": [1]}]}, r"workloads\[0\]\.batches: unknown key; did you mean batch"),
        ({"workloads": [{"layout": None}]}, r"workloads\[0\]\.layout: is empty; leave it out for its default"),
        ({"workloads": [{"batch": 0}]}, r"workloads\[0\]\.batch: '0': a batch lies between 1 and"),
        ({"workloads": [{"batch": [1, "auto"]}]}, r"auto and max stand alone"),
        ({"workloads": [{"optimizer": "sgd"}]}, r"describe a training step; add mode: training"),
        ({"workloads": [{"utilization": 2}]}, r"utilization: expected a number from 0.01 to 1, not 2"),
        (
            {"workloads": [{"precision": "fp16", "weights": "int3"}]},
            r"workloads\[0\]\.weights: unknown format of weights",
        ),
        (
            {"workloads": [{"precision": "fp16", "weights": "int4", "activations": "int8"}]},
            r"workloads\[0\]\.weights: PyTorch has no kernel for int4 weights with int8 activations",
        ),
        (
            {"workloads": [{"precision": ["fp16", "amp-fp16"], "weights": "int8"}]},
            r"neither under autocast nor in training",
        ),
        ({"workloads": [{"weights": 8}]}, r"workloads\[0\]\.weights: expected text, not 8"),
        (
            {"workloads": [{"mode": "serving", "kv": "banana"}]},
            r"\]\.kv: unknown KV cache format 'banana'\. Known: fp32",
        ),
        ({"workloads": [{"mode": "serving", "weights": "fp99"}]}, r"\]\.weights: unknown weight format 'fp99'"),
        (
            {"workloads": [{"mode": "serving", "input_len": 10**9}]},
            r"\]\.input_len: .* from 1 to 100,000,000, not 10{9}$",
        ),
        ({"workloads": [{"mode": "serving", "tp": 0}]}, r"\]\.tp: expected a whole number from 1 to 10,000,000, not 0"),
        ({"workloads": [{"mode": "serving", "concurrency": "auto"}]}, r"\]\.concurrency: auto: write 8, 1,8,32"),
        ({"models": [{"model": "a", "seq_len": 0}]}, r"seq_len: expected a whole number of at least 1, not 0"),
        ({"models": [{"model": "a", "offload": "disk"}]}, r"models\[0\]\.offload: unknown offload 'disk'"),
        ({"workloads": "fp32"}, r"workloads\[0\]: must be keys with values"),
    ],
)
def test_a_refused_file_names_the_key_and_what_would_do(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        read(**changes)


def test_lists_multiply_and_equal_conditions_join_their_batches() -> None:
    found = read_sweep_tree(
        {
            "models": "resnet18",
            "gpus": "a100",
            "workloads": [
                {"batch": "1..8", "mode": ["inference", "training"], "optimizer": ["sgd", "adam"]},
                {"batch": [3, 16]},
            ],
        },
        shown="sweep",
    )
    labels = {workload_label(each): each.batches.sizes for each in found.workloads}
    assert labels == {
        "fp32-eager-nchw-inference": (1, 2, 3, 4, 8, 16),
        "fp32-eager-nchw-training-sgd": (1, 2, 4, 8),
        "fp32-eager-nchw-training-adam": (1, 2, 4, 8),
    }
    training = found.workloads[1].workload.training
    assert training is not None
    assert training.optimizer is Optimizer.SGD


def test_workloads_of_serving_multiply_in_one_order() -> None:
    workload = {
        "mode": "serving",
        "concurrency": [8, "1..2"],
        "tp": [1, 2],
        "kv": ["none", "fp8"],
        "power_limit": "300W",
    }
    found = read_sweep_tree({"models": ["llm:a"], "gpus": ["l4"], "workloads": [workload]}, shown="sweep")
    ends = ["", "-kv_fp8"]
    labels = [f"serving-vllm-tp{tp}-in1024-out256{end}-limit300w" for tp in (1, 2) for end in ends]
    assert {workload_label(each): each.sizes for each in found.workloads} == dict.fromkeys(labels, (1, 2, 8))
    gguf = {"mode": "serving", "weights": "q4_k_m"}
    (one,) = read_sweep_tree({"models": ["llm:a"], "gpus": ["l4"], "workloads": [gguf]}, shown="sweep").workloads
    assert (workload_label(one).split("-")[1], one.sizes) == ("llama.cpp", (1, 8, 32))  # as `llm estimate` takes it


def test_number_formats_of_linear_layers_multiply_too() -> None:
    workload = {"precision": ["fp16", "bf16"], "weights": ["none", "int8"], "activations": ["none", "int8"]}
    found = read_sweep_tree({"models": ["a"], "gpus": ["l4"], "workloads": [workload]}, shown="sweep")
    ends = ["", "-activations_int8", "-weights_int8", "-weights_int8-activations_int8"]
    labels = [workload_label(each) for each in found.workloads]
    assert labels == [f"{precision}-eager-nchw-inference{end}" for precision in ("fp16", "bf16") for end in ends]
    assert [getattr(each, "weights", "") for each in found.workloads[:4]] == [None, None, "int8", "int8"]


def test_auto_is_a_batch_of_its_own() -> None:
    found = read_sweep_tree({"models": ["a"], "gpus": ["l4"], "workloads": [{"batch": "auto"}]}, shown="sweep")
    assert found.workloads[0].batches.choice is BatchChoice.AUTO


@pytest.mark.parametrize("name", sorted(_WORKLOAD_FIELDS))
def test_every_key_of_a_workload_changes_what_is_swept(name: str) -> None:
    base = {"precision": "fp16", "mode": "training" if name in _TRAINING_KEYS else "inference"}

    def workloads(**keys: object) -> object:
        tree = {"models": ["a"], "gpus": ["l4"], "workloads": [{**base, **keys}]}
        try:
            return read_sweep_tree(tree, shown="sweep").workloads
        except SpecError:
            return workloads() if keys else None

    values = [*(_WORKLOAD_FIELDS[name].enumeration or ()), True, 2, 0.5, "400W", "int8", "1.13"]
    assert any(workloads(**{name: str(value) if isinstance(value, Enum) else value}) != workloads() for value in values)
