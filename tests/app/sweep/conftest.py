"""Traces of two tiny networks, and a sweep over them that needs no torch."""

from pathlib import Path

import pytest

import capplan
from capplan.app.sweep.request import ModelLimits, SweepRequest
from capplan.verbs.sweep_file import read_sweep_tree

NETS = """
import torch


class Narrow(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


class Wide(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(8, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4))
"""


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of two trace files, each with recordings in single precision and autocast."""
    from capplan.core.trace.format import dump_trace

    folder = tmp_path_factory.mktemp("traces")
    (folder / "nets.py").write_text(NETS)
    for name in ("Narrow", "Wide"):
        made = capplan.trace(f"{folder / 'nets.py'}:{name}", inputs=["8"], precisions=["fp32", "amp-fp16"])
        (folder / f"{name.lower()}.trace.json").write_bytes(dump_trace(made, compress=False))
    return folder


def make_request(output: Path, models: object, **changes: object) -> SweepRequest:
    """Return a request for a small sweep; `gpus`, `workloads` and fields of the request may be given."""
    tree = {
        "models": models,
        "gpus": changes.pop("gpus", ["l4", "t4"]),
        "workloads": changes.pop("workloads", [{"batch": [1, 32]}]),
    }
    values = {"limits": ModelLimits(time_s=120.0), "workers": 1, **changes}
    return SweepRequest(definition=read_sweep_tree(tree, shown="sweep"), output=output, **values)  # type: ignore[arg-type]
