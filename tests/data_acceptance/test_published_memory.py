"""The memory of published starts of engines, by releases and cards that no constant was fitted on."""

import pytest

from capplan.core.engine_names import Engine
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory
from capplan.llm.read.calibrations import load_llm_memory
from capplan.llm.read.sources import find_model
from capplan.specs import load_gpus
from tests.data_acceptance.published_memory import CACHES, GIB, SIZES, TOKENS, WEIGHTS, Published
from tests.seen import at_least


def _name(case: Published) -> str:
    return f"{case.source} {case.gpu}"


def test_intervals_hold_as_many_published_caches_as_they_promise() -> None:
    held = []
    for case in at_least(12, CACHES):
        interval = case.answer().pool_interval
        held.append(interval.low <= (case.cache_gib or 0) * GIB <= interval.high)
    # 90 % are promised; the two outside are vLLM 0.4 and 0.5, whose profiling run is not known
    assert sum(held) >= len(held) - 2


@pytest.mark.parametrize("case", WEIGHTS, ids=_name)
def test_published_weights(case: Published) -> None:
    assert case.answer().stage.weight_bytes / GIB == pytest.approx(case.weights_gib, rel=case.within)


@pytest.mark.parametrize("case", SIZES, ids=_name)
def test_published_size_of_a_request_that_does_not_fit(case: Published) -> None:
    found = case.answer()
    assert found.stage.cache.sequence_bytes(found.sequence_tokens) / GIB == pytest.approx(
        case.cache_gib, rel=case.within
    )
    assert not found.holds_what_was_asked


@pytest.mark.parametrize("case", TOKENS, ids=_name)
def test_published_tokens_of_a_known_cache_of_differing_layers(case: Published) -> None:
    assert case.answer().kv_tokens == pytest.approx(case.tokens, rel=case.within)


@pytest.mark.parametrize(
    ("length", "fits"),
    [(20_000, True), (29_000, False)],
)
def test_prompts_are_profiled_whole_before_0_8(length: int, fits: bool) -> None:
    # vllm#10517: 31,232 tokens of cache at 20,000, and 23,648 at 29,000, which vLLM refuses
    case = Published(source="vllm#10517", model="llama-3.1-8b-instruct", gpu="rtx-3090", version="0.6.4",
                     stated={"sequence_tokens": length})  # fmt: skip
    assert case.answer().fits == fits


def test_what_does_not_start_is_said() -> None:
    # vllm#41695: Qwen3-Coder-30B in fp8 on an RTX 5090 at 0.95
    case = Published(source="vllm#41695", model="qwen3-coder-30b-a3b-instruct", gpu="rtx-5090",
                     stated={"weights": "fp8", "fraction": 0.95, "sequence_tokens": 16_384})  # fmt: skip
    assert not case.answer().stage.fits


def test_the_default_fraction_and_graphs_by_release() -> None:
    # vllm#38284: 0.92 with CUDA graphs inside the budget since 0.21, 0.9 with them outside before
    def answer(version: tuple[int, ...] | None):
        request = StatedDeployment(
            model=find_model("llama-3.1-8b-instruct"), gpu=load_gpus().find("h100-sxm5-80gb"), version=version
        )
        return answer_memory(request, load_llm_memory(), alternatives=False)

    old, new = answer((0, 20)), answer((0, 21))
    assert (old.memory.deployment.fraction, new.memory.deployment.fraction) == (0.9, 0.92)
    graphs = new.memory.deployment.engine.graph_bytes
    assert new.stage.other_bytes - old.stage.other_bytes == pytest.approx(graphs)
    total = new.memory.deployment.total_bytes
    assert new.stage.pool_bytes - old.stage.pool_bytes == pytest.approx(0.02 * total - graphs)
    assert any("outside vLLM's budget" in note for note in old.notes)
    assert any("inside vLLM's budget" in note for note in new.notes)
    assert answer(None).stage.pool_bytes == new.stage.pool_bytes


def test_a_release_that_is_not_known_is_answered_as_the_newest_with_a_word() -> None:
    case = Published(source="", model="qwen3-8b", gpu="h100-sxm5-80gb", version="99.0")
    assert any("99.0 is newer than what is known" in note for note in case.answer().notes)
    assert case.answer().evidence == "extrapolated"
    quiet = Published(source="", model="qwen3-8b", gpu="h100-sxm5-80gb", version="0.28.1")
    assert not any("newer than" in note for note in quiet.answer().notes)


def test_reductions_have_buffers_where_a_switch_adds_up() -> None:
    # 2.07 GiB in start-up logs of two H100 on NVSwitch; 0.20 GiB on each of sixteen RTX 3090 on PCIe (vllm#14447)
    def other(gpu: str, engine: Engine = Engine.VLLM) -> float:
        case = Published(source="", model="qwen3-8b", gpu=gpu, tp=2, version="0.19", engine=engine)
        return case.answer().stage.other_bytes / GIB

    assert other("h100-sxm5-80gb") == pytest.approx(2.07, abs=0.01)
    assert other("b200-sxm-180gb") == pytest.approx(2.07, abs=0.01)
    for gpu in ("rtx-3090", "rtx-4090", "rtx-5090", "l40s", "h100-pcie-80gb", "a100-sxm4-80gb"):
        assert other(gpu) == pytest.approx(0.25, abs=0.06)
