"""Traces kept for measured steps: a config or code that changed is traced again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.core.calibrate.measured import runs_code, split_words
from capplan.core.workload import Configuration
from capplan.errors import UsageError
from capplan.probe.trace.measured import ModelRun, TraceFolder
from capplan.specs.measurements import read_measured


def run_of(model: str) -> ModelRun:
    return ModelRun(model=model, input_size=(8,), reparameterized=False, fast_norm=False, configuration=Configuration())


@pytest.mark.zoo
def test_a_config_that_changed_is_not_answered_from_the_old_trace(tmp_path: Path) -> None:
    config, folder = tmp_path / "config.json", TraceFolder(tmp_path / "traces")
    small = {"model_type": "bert", "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    for layers in (1, 2):
        config.write_text(json.dumps({**small, "num_hidden_layers": layers}))
        trace = folder.obtain(run_of(f"hf:{config}"))
        names = {name for parameter in trace.parameters for name in parameter.names}
        assert {f"encoder.layer.{layer}.output.dense.weight" for layer in range(layers)} <= names
        assert f"encoder.layer.{layers}.output.dense.weight" not in names


def test_code_that_changed_has_a_key_of_its_own_and_names_of_libraries_keep_theirs(tmp_path: Path) -> None:
    folder, code = TraceFolder(tmp_path), tmp_path / "net.py"
    keys = []
    for text in ("a = 1", "a = 2"):
        code.write_text(text)
        keys.append(folder._path(run_of(f"{code}:Net")))
    assert keys[0] != keys[1]
    assert folder._path(run_of("timm:resnet18")) == folder._path(run_of("timm:resnet18"))


@pytest.mark.parametrize(("stated", "torch", "precision", "fast"), [
    ("1", "2.4", "amp-fp16", False),  # nn.LayerNorm in timm 1.0.9's vision_transformer.py
    ("1", "2.9", "amp-fp16", True),
])  # fmt: skip
def test_the_norms_of_clips_towers_were_torchs_own_until_torch_2_4(
    tmp_path: Path, stated: str, torch: str, precision: str, *, fast: bool
) -> None:
    assert fast_norm_of(tmp_path, "timm:vit_base_patch16_clip_224", torch, precision, stated) is fast


@pytest.mark.parametrize(("stated", "torch", "precision", "fast"), [
    ("", "2.1", "amp-fp16", True),  # timm's published tables of 1.13 and 2.1, whose group norms ran in half precision
    ("", "2.4", "amp-fp16", False),  # nothing is known of the run: timm's own default
    ("1", "2.9", "amp-fp16", True),
    ("0", "2.1", "amp-fp16", False),
    ("", "2.1", "fp32", False),
])  # fmt: skip
def test_norms_that_a_row_leaves_open_run_as_timm_leaves_them(
    tmp_path: Path, *, stated: str, torch: str, precision: str, fast: bool
) -> None:
    assert fast_norm_of(tmp_path, "timm:resnet50_gn", torch, precision, stated) is fast


def fast_norm_of(tmp_path: Path, model: str, torch: str, precision: str, stated: str) -> bool:
    path = tmp_path / "rows.csv"
    head = "model,gpu,batch,latency_ms,torch,precision,fast_norm"
    path.write_text(f"{head}\n{model},rtx-4090,64,30,{torch},{precision},{stated}\n")
    (step,) = read_measured(path).steps
    return ModelRun.of(step).fast_norm


NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, width=4):
        super().__init__(nn.Conv2d(3, width, 3))
"""


def test_the_inputs_that_a_measurement_names_are_those_that_are_traced(tmp_path: Path) -> None:
    code, folder = tmp_path / "net.py", TraceFolder(tmp_path / "traces")
    code.write_text(NET)
    # 3 channels and 3 x 3 windows to 6 channels, and a bias each: 168 parameters; an image of 3 x 10 x 12
    trace = folder.obtain(run_of(f"{code}:Net --arg width=6 --input input=Nx3x10x12"))
    assert sum(parameter.elements for parameter in trace.parameters) == 168
    assert [tuple(dim.at(2) for dim in each.shape) for each in trace.inputs] == [(2, 3, 10, 12)]


def test_steps_and_frozen_parameters_that_a_measurement_names_are_applied(tmp_path: Path) -> None:
    code, folder = tmp_path / "net.py", TraceFolder(tmp_path / "traces")
    code.write_text(NET)
    (tmp_path / "own.py").write_text("def without_bias(net):\n    net[0].bias = None\n")
    run = replace(
        run_of(f"{code}:Net --prepare {tmp_path}/own.py:without_bias --freeze 0.weight"), input_size=(3, 8, 8)
    )
    # 3 channels and 3 x 3 windows to 4 channels: 108 weights, without the 4 biases
    trace = folder.obtain(run)
    assert (trace.parameter_count, trace.trainable_count) == (108, 0)


def test_flags_and_numbers_that_a_measurement_names_are_read(tmp_path: Path) -> None:
    code, folder = tmp_path / "net.py", TraceFolder(tmp_path / "traces")
    code.write_text(NET)
    trace = folder.obtain(run_of(f"{code}:Net --as-cpu --grad --selected-share 0.5 --input input=Nx3x10x12"))
    assert any("gradients are on in inference" in note for note in trace.provenance.notes)
    assert "--selected-share 0.5 --as-cpu --grad" in trace.target


def test_another_release_of_a_model_library_has_a_key_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = TraceFolder(tmp_path), run_of("timm:resnet18")
    before = folder._path(run)
    monkeypatch.setattr("capplan.probe.trace.measured.versions_of", lambda *_: {"timm": "0.0.1"})
    assert folder._path(run) != before


def test_a_function_of_inputs_that_changed_has_a_key_of_its_own(tmp_path: Path) -> None:
    code, made, folder = tmp_path / "net.py", tmp_path / "made.py", TraceFolder(tmp_path)
    code.write_text(NET)
    keys = set()
    for text in ("a = 1", "a = 2"):
        made.write_text(text)
        keys.add(folder._path(run_of(f"{code}:Net --inputs-from {made}:inputs")))
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("timm:resnet18 --size 8", "'--size' is none of --arg, --input, --input-size"),
        ("timm:resnet18 --seq-len", "each option takes one value"),
        ("timm:resnet18 --seq-len 8 --seq-len 9", "only --arg, --input, --prepare and --freeze may be repeated"),
        ("timm:resnet18 --arg depth=1 --arg", "each option takes one value"),
        ("timm:resnet18 --seq-len eight", "'eight' is not a whole number"),
        ("timm:resnet18 --selected-share half", "'half' is not a number"),
    ],
)
def test_options_that_measure_does_not_write_are_refused(words: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=reason):
        TraceFolder(tmp_path).obtain(run_of(words))


def test_words_that_import_code_are_known_behind_a_librarys_name() -> None:
    assert split_words("hf:bert --seq-len 16") == ("hf:bert", ("--seq-len", "16"))
    assert split_words("my nets.py:Net") == ("my nets.py:Net", ())
    assert split_words("'my nets.py:Net' --arg a=1") == ("my nets.py:Net", ("--arg", "a=1"))
    assert not runs_code("hf:bert --seq-len 16")
    assert runs_code("hf:bert --inputs-from made.py:inputs")
    assert runs_code("hf:bert --prepare=made.py:prepared")
    assert runs_code("net.py:Net --input x=3x8x8")
