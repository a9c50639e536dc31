"""Default configs of transformers and what their models are fed, checked by what the library itself refuses."""

from typing import Any

import pytest

from capplan.core.workload import Configuration
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target

pytest.importorskip("transformers")

from capplan.probe.target.sources.transformers import choose_class, import_transformers, make_config  # needs it

import_transformers()

SMALL_TEXT = {"text_config.num_hidden_layers": 2, "text_config.intermediate_size": 256}


def config_of(kind: str, **arguments: Any) -> Any:
    named = {name.replace("__", "."): value for name, value in arguments.items()}
    return make_config(f"hf:{kind}", {"model_type": kind}, named)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("qwen2_vl", {**SMALL_TEXT, "vision_config.depth": 2}),  # a grid of patches
        ("llava_next", {**SMALL_TEXT, "vision_config.num_hidden_layers": 2}),  # tiles
        ("idefics2", {**SMALL_TEXT, "vision_config.num_hidden_layers": 2}),  # images that may be padding
        (
            "granite_docling",
            {"text_config.num_hidden_layers": 2, "vision_config.num_hidden_layers": 2},
        ),  # a mask
        ("lfm2_vl", {"vision_config.num_hidden_layers": 2}),  # rows of patches with their shapes
        ("audioflamingo3", {**SMALL_TEXT, "audio_config.num_hidden_layers": 2}),  # a mask of frames
        ("voxtral", {**SMALL_TEXT, "audio_config.num_hidden_layers": 2}),
    ],
)
def test_features_and_the_tokens_that_stand_for_them_agree(kind: str, arguments: dict[str, Any]):
    # each of these models counts both in its forward, and raises where they differ
    target = load_target(f"hf:{kind}", request=InputRequest(arguments=tuple(arguments.items())))
    recording = trace_target(target).recording(Configuration())
    assert (recording.backend, recording.assumed_values) == ("meta", ())


def test_a_vision_part_puts_out_what_the_text_part_takes():
    assert config_of("qwen3_vl").vision_config.out_hidden_size == 4096  # its text part's default width
    assert config_of("qwen3_vl", text_config__hidden_size=1024).vision_config.out_hidden_size == 1024


def test_an_argument_goes_before_what_completes_a_default_config():
    assert config_of("qwen3_vl", vision_config__out_hidden_size=512).vision_config.out_hidden_size == 512


def test_a_config_file_is_taken_as_it_is():
    given = {"model_type": "qwen3_vl", "image_token_id": 7}
    # the library's own default, which does not fit its text part
    assert make_config("hf:config.json", given, {}).vision_config.out_hidden_size == 3584


def test_a_width_per_head_is_the_width_by_the_heads():
    config = config_of("hunyuan_v1_dense")
    assert config.head_dim * config.num_attention_heads == config.hidden_size


def test_settings_of_layers_that_are_cut_off_go_with_them():
    config = config_of("gemma4", text_config__num_hidden_layers=6)
    assert len(config.text_config.layer_types) == 6
    assert set(config.to_dict()["text_config"]["per_layer_config"]) == {"5"}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("llama4", "Llama4ForConditionalGeneration"),  # the causal class is made of the text part alone
        ("musicgen", "MusicgenForConditionalGeneration"),
        ("llama", "LlamaForCausalLM"),
        ("bert", "BertModel"),
    ],
)
def test_the_class_is_made_of_the_whole_config(kind: str, name: str):
    assert choose_class(config_of(kind), f"hf:{kind}").__name__ == name
