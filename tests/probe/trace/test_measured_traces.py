"""Traces kept for measured steps: a config or code that changed is traced again."""

import json
from pathlib import Path

import pytest

from capplan.core.workload import Configuration
from capplan.probe.trace.measured import ModelRun, TraceFolder


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
