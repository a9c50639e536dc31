"""The law of starts: parts by hand, and what must hold of any start."""

import csv
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from capplan.core.numbers import Interval
from capplan.core.origin import Origin
from capplan.llm.core.start.answer import (
    CaptureLaw,
    LayerLaw,
    LoadLaw,
    StartAnswer,
    StartLaw,
    StartPart,
    StartSize,
    Surroundings,
    start_parts,
)
from capplan.llm.read.start_calibration import load_machine_facts, load_start_law

LAW = StartLaw(
    engine="vllm",
    logs="",
    graphs=67,
    process_s=10.0,
    shared_process_s=50.0,
    load=LoadLaw(gigabyte_s=0.5, power=1.0),
    compile_cold=LayerLaw(fixed_s=-4.0, per_layer_s=0.8, per_expert_layer_s=0.4, shared_s=0.0),
    compile_warm=LayerLaw(fixed_s=6.0, per_layer_s=0.1, per_expert_layer_s=0.0, shared_s=0.0),
    warm_up_cold=LayerLaw(fixed_s=2.0, per_layer_s=0.0, per_expert_layer_s=0.0, shared_s=7.0),
    warm_up_warm=LayerLaw(fixed_s=1.0, per_layer_s=0.0, per_expert_layer_s=0.0, shared_s=9.0),
    capture=CaptureLaw(fixed_s=0.2, alone_s=0.0005, shared_s=0.003, expert_s=0.001),
    spreads={part.value: 0.2 for part in StartPart},
    origin=Origin(made=date(2026, 11, 27), command="", sources=(), rows=0),
)
SIZE = StartSize(weight_bytes=20e9, layers=40, has_experts=False, tensor=1, graphs=50, is_compiled=False)


STANDING = Surroundings()


def _whole_s(size: StartSize, around: Surroundings = STANDING) -> float:
    return sum(part.time_s.expected for part in start_parts(LAW, size, around))


def test_parts_follow_from_layers_bytes_and_graphs() -> None:
    # 20 GB × 0.5 s; −4 + 40 × 0.8; 2; 0.2 + 40 layers × 50 graphs × 0.5 ms
    expected = {"processes": 10.0, "weights into the GPU": 10.0, "compile": 28.0, "warm-up": 2.0, "graph capture": 1.2}
    found = {part.part.value: part.time_s.expected for part in start_parts(LAW, SIZE, Surroundings())}
    assert found == pytest.approx(expected)


def test_several_gpus_and_experts_take_longer() -> None:
    # 4 GPUs: 50 + 10 + (−4 + 40 × 1.2) + (2 + 7) + (0.2 + 2000 × 4 ms)
    size = replace(SIZE, tensor=4, has_experts=True)
    assert _whole_s(size) == pytest.approx(50 + 10 + 44 + 9 + 8.2)


def test_reading_and_copying_overlap() -> None:
    # 20 GB at 1 GB/s are read in 20 s, within which the 10 s of copying lie; at 4 GB/s 5 s of copying are left
    slow = {part.part: part.time_s.expected for part in start_parts(LAW, SIZE, Surroundings(storage_bytes_per_s=1e9))}
    fast = {part.part: part.time_s.expected for part in start_parts(LAW, SIZE, Surroundings(storage_bytes_per_s=4e9))}
    assert slow[StartPart.STORAGE] == 20.0
    assert StartPart.LOAD not in slow
    assert fast[StartPart.STORAGE] == 5.0
    assert fast[StartPart.LOAD] == pytest.approx(5.0)


def test_a_compiled_model_and_an_eager_engine_start_sooner() -> None:
    assert _whole_s(replace(SIZE, is_compiled=True)) == pytest.approx(10 + 10 + 10 + 1 + 1.2)
    assert _whole_s(SIZE, Surroundings(is_eager=True)) == pytest.approx(10 + 10 + 2)


def test_a_new_machine_and_its_image_come_first() -> None:
    rate = Interval(low=20e6, expected=25e6, high=100e6)
    around = Surroundings(provision_s=Interval.exact(90.0), image_bytes=10e9, image_bytes_per_s=rate)
    first, second, *_ = start_parts(LAW, SIZE, around)
    assert (first.part, first.time_s.expected) == (StartPart.PROVISIONING, 90.0)
    assert second.time_s == Interval(low=100.0, expected=400.0, high=500.0)


@pytest.mark.parametrize(
    ("asleep", "weight_bytes", "low_s", "high_s"),
    [
        ("sleep-1", 61e9, 3.0, 6.5),
        ("sleep-1", 8.3e9, 0.7, 0.9),
        ("sleep-2", 1.5e9, 0.7, 1.0),
        ("snapshot", 35e9, 12, 20),
    ],
)
def test_engines_wake_as_published(asleep: str, weight_bytes: float, low_s: float, high_s: float) -> None:
    # vLLM's blog: large models wake from level 1 in 3 to 6 s (Qwen3-30B-A3B has 61 GB), Phi-3-vision in 0.82 s,
    # Qwen3-0.6B from level 2 in 0.85 s; a snapshot of Qwen3.5-35B-A3B in FP8 in 12 to 20 s
    around = Surroundings(wake=load_machine_facts().wakes[asleep])
    (part,) = start_parts(LAW, replace(SIZE, weight_bytes=weight_bytes), around)
    assert part.part is StartPart.WAKE
    assert low_s <= part.time_s.expected <= high_s


def test_the_whole_is_the_sum_of_its_parts() -> None:
    parts = start_parts(LAW, SIZE, Surroundings(storage_bytes_per_s=4e9))
    answer = StartAnswer(model="m", gpu="g", engine="vllm", gpus=1, size=SIZE, parts=parts, spread=0.2)
    assert answer.whole_s.expected == pytest.approx(sum(part.time_s.expected for part in parts))


@pytest.mark.parametrize("rate", [0.2e9, 1e9, 5e9, 50e9])
def test_faster_storage_never_starts_later(rate: float) -> None:
    def start_s(rate: float) -> float:
        return _whole_s(SIZE, Surroundings(storage_bytes_per_s=rate))

    assert start_s(2 * rate) <= start_s(rate)


@pytest.mark.parametrize(("engine", "split", "starts"), [("vllm", "held out", 55), ("sglang", "by model", 20)])
def test_the_shipped_laws_meet_whole_starts_of_models_that_were_held_out(engine: str, split: str, starts: int) -> None:
    law = load_start_law(engine)
    assert law is not None
    kept = law.origin.held_out_errors[f"{split}, whole"]
    assert kept["rows"] >= starts
    assert kept["median"] <= 0.25
    assert kept["p90"] <= 0.60
    assert 0.85 <= kept["coverage"] <= 0.95


def test_ten_starts_of_models_that_the_law_has_not_seen_are_kept_apart() -> None:
    law = load_start_law("vllm")
    assert law is not None
    kept = law.origin.held_out_errors["kept apart, whole"]
    assert kept["rows"] >= 10
    assert kept["median"] <= 0.25
    assert kept["p90"] <= 0.60


def test_an_engine_without_a_compiler_has_no_such_part() -> None:
    none = LayerLaw(fixed_s=0.0, per_layer_s=0.0, per_expert_layer_s=0.0, shared_s=0.0)
    law = replace(LAW, compile_cold=none, warm_up_cold=none)
    assert [part.part.value for part in start_parts(law, SIZE, STANDING)] == [
        "processes", "weights into the GPU", "graph capture",
    ]  # fmt: skip


def test_no_law_is_known_of_an_engine_without_logs() -> None:
    assert load_start_law("trtllm") is None


def test_the_logs_state_their_source_and_add_up() -> None:
    path = Path(__file__).parents[4] / "benchmarks" / "llm_start_logs.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 110
    assert {row["engine"] for row in rows} == {"vllm", "sglang"}
    assert all(row["source"] and row["read"] for row in rows)
    whole = [row for row in rows if row["total_s"]]
    assert len(whole) >= 80
    parts = ("load_s", "compile_s", "warm_up_s", "capture_s")
    for row in whole:
        inside = [row["load_s"], row["engine_s"]] if row["engine_s"] else [row[part] for part in parts]
        assert sum(float(time_s or 0) for time_s in inside) < float(row["total_s"])


def test_figures_of_new_machines_have_sources() -> None:
    facts = load_machine_facts()
    assert facts.sources
    assert facts.image_bytes_per_s.low < facts.image_bytes_per_s.expected < facts.image_bytes_per_s.high
