"""Plans for the GPUs of this machine, with a driver that answers like the real one."""

import json
import sys
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run
from tests.probe.test_installed_gpus import library


def has(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setitem(
        sys.modules,
        "pynvml",
        library(
            nvmlDeviceGetCount=lambda: len(names),
            nvmlDeviceGetName=lambda index: names[index],
            nvmlDeviceGetPciInfo=lambda _: SimpleNamespace(pciDeviceId=0),
        ),
    )


def test_the_gpus_found_are_planned_for_and_nothing_is_rented(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090", "NVIDIA L4")
    result = run("llm", "plan", "llama-3.1-70b-instruct", "--here", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    best = found["recommended"]
    assert (best["gpu"], best["gpus"], best["engine"], best["weights"]) == ("rtx-3090", 2, "llama.cpp", "q4_k_m")
    assert (best["rent"], best["usd_per_hour"], found["money"]) == (None, None, None)
    assert "1 × l4" in found["machine"][-1]  # another kind is left out, and said so
    assert found["launch"]["arguments"][0] == "llama-server"


def test_without_a_model_the_largest_is_planned_ready_to_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "NVIDIA GeForce RTX 4090")
    lines = run("llm", "plan", "--here").stdout.splitlines()
    assert any(line.startswith("Here     1 × rtx-4090 of this machine; the largest model") for line in lines)
    assert any(line.startswith(("llama-server ", "vllm serve ")) for line in lines)
    assert not any(line.startswith(("Rent", "Cost")) for line in lines)


def test_a_load_beyond_the_machine_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "NVIDIA GeForce RTX 4090")
    result = run("llm", "plan", "qwen3-8b", "--here", "--rate", "1000")
    assert result.exit_code == 1
    assert "more than the 1 of this machine" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--here",), "no GPU is found on this machine (NVML: Driver Not Loaded; torch: no CUDA or ROCm device)"),
        (("--here", "--gpu", "l4"), "leave out --gpu"),
        ((), "name a language model, or write --here"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    import torch

    module = library()
    error = module.NVMLError

    def missing() -> None:
        raise error("Driver Not Loaded")

    module.__dict__["nvmlInit"] = missing
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = run("llm", "plan", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in " ".join(result.stderr.split())


def test_a_card_that_the_database_lacks_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, "NVIDIA Mystery 9000")
    result = run("llm", "plan", "--here")
    assert result.exit_code == 2
    assert "does not have 'NVIDIA Mystery 9000'" in " ".join(result.stderr.split())
