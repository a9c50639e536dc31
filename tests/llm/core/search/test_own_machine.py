"""Which models the GPUs of one machine hold, against sizes that are worked out by hand."""

from itertools import islice

from capplan.core.engine_names import Engine
from capplan.llm.core.search.own_machine import held_models
from capplan.llm.core.tensors import count_parameters
from capplan.llm.read.calibrations import load_llm_memory
from capplan.llm.read.catalogue import load_catalogue
from capplan.specs import load_gpus

LLAMA_70B = load_catalogue()["llama-3.1-70b-instruct"]
QWEN_8B = load_catalogue()["qwen3-8b"]


def held(*models, count: int, gpu: str = "rtx-3090"):  # type: ignore[no-untyped-def]
    return tuple(held_models(models, load_gpus().find(gpu), count, tokens=1280, constants=load_llm_memory()))


def test_seventy_billion_parameters_in_four_bits_take_two_cards_of_24_gib() -> None:
    # the published Llama-3.1-70B-Instruct-Q4_K_M.gguf has 42.5 GB, 39.6 GiB: more than one card, less than two
    assert held(LLAMA_70B, count=1) == ()
    (way,) = held(LLAMA_70B, count=2)
    assert (way.engine, way.weights, way.sharding.gpus) == (Engine.LLAMACPP, "q4_k_m", 2)
    # what two cards of 24 GiB have left, over 2 · 80 · 8 · 128 · 2 bytes = 320 KiB a token
    assert 2048 <= way.longest <= (48 - 39.6) * 2**30 / (320 * 2**10)


def test_a_checkpoint_that_fits_is_served_as_it_is_on_one_card() -> None:
    # 8.19 B parameters in 16 bits are 15.3 GiB
    (way,) = held(QWEN_8B, count=2)
    assert (way.engine, way.weights, way.sharding.gpus) == (Engine.VLLM, "", 1)


def test_the_largest_models_come_first_and_sizes_once() -> None:
    models, gpu = load_catalogue(), load_gpus().find("rtx-4090")
    ways = islice(held_models(models.values(), gpu, 1, tokens=1280, constants=load_llm_memory()), 9)
    sizes = [count_parameters(models[way.model].architecture) for way in ways]
    assert len(sizes) == 9
    assert sizes == sorted(set(sizes), reverse=True)
