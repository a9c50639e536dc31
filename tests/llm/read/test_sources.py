"""Models found by name, file, folder and cache."""

import contextlib
import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.errors import CapplanError, UnknownNameError
from capplan.llm.core.tensors import WeightRole, count_parameters
from capplan.llm.read.catalogue import find_in_catalogue, load_catalogue
from capplan.llm.read.config.traits import UnusualModelError
from capplan.llm.read.sources import find_model
from tests.llm.core import architectures as cases
from tests.llm.read.test_headers import entry, gguf_bytes, gguf_tensor, safetensors_bytes, tensor, text

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}


def tiny_tensors():
    """Every tensor of the tiny model in bf16, as a file would name it, and one for multi-token prediction."""
    shapes = {"model.embed_tokens.weight": [100, 64], "lm_head.weight": [100, 64], "model.norm.weight": [64]}
    for layer in range(3):
        name = f"model.layers.{layer}"
        shapes |= {
            f"{name}.self_attn.q_proj.weight": [64, 64],
            f"{name}.self_attn.k_proj.weight": [32, 64],
            f"{name}.self_attn.v_proj.weight": [32, 64],
            f"{name}.self_attn.o_proj.weight": [64, 64],
            f"{name}.mlp.gate_up_proj.weight": [256, 64],
            f"{name}.mlp.down_proj.weight": [64, 128],
            f"{name}.input_layernorm.weight": [64],
            f"{name}.post_attention_layernorm.weight": [64],
        }
    header, position = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = tensor("BF16", shape, position, position + size)
        position += size
    return header, position


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "tiny"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(TINY))
    header, size = tiny_tensors()
    (path / "model.safetensors").write_bytes(safetensors_bytes(header, bytes(size)))
    return path


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("deepseek-v3", "deepseek-v3"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("llama-3.1-70b", "llama-3.1-70b-instruct"),
        ("llama3.1:70b", "llama-3.1-70b-instruct"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"),
        ("GPT-OSS-120B", "gpt-oss-120b"),
        ("gemma-3-27b", "gemma-3-27b-it"),
        ("meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b-instruct"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("qwen3-32b-fp8", "qwen3-32b-fp8"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b-instruct-2507"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek-v3.1"),
        ("glm-4.5-air", "glm-4.5-air"),
    ],
)
def test_models_are_found_as_people_type_them(typed, found):
    model = find_in_catalogue(typed)
    assert model is not None
    assert model.architecture.name == found


@pytest.mark.parametrize(
    ("typed", "weights"),
    [
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "int8"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "awq"),
        ("RedHatAI/Qwen2.5-7B-Instruct-fp8-dynamic", "fp8"),
        ("phi-4-quantized.w4a16", "int4_wo"),
    ],
)
def test_a_number_format_at_the_end_of_a_name_is_how_it_is_stored(typed, weights):
    model = find_in_catalogue(typed)
    assert model is not None
    assert model.own_quantisation.format.name == weights
    assert "by the name" in model.source


def test_other_models_are_not_taken_for_a_known_one():
    for name in ("Qwen3-14B-Instruct-2507", "llama-3.1-7b", "qwen3", "mixtral", "-it", "", "awq", "deepseek"):
        assert find_in_catalogue(name) is None


def test_unknown_names_get_the_nearest_ones():
    with pytest.raises(UnknownNameError, match="qwen3-32b"):
        find_model("qwen3-23b")
    with pytest.raises(UnknownNameError, match="did you mean llama-3-70b-instruct, llama-3-8b-instruct"):
        find_model("llama3")


def test_refused_models_say_why():
    with pytest.raises(UnusualModelError, match="experts that compute nothing"):
        find_model("longcat-flash-chat")
    with pytest.raises(UnusualModelError, match="Mamba-1"):
        find_model("jamba-1.5-mini")
    with pytest.raises(UnusualModelError, match="lightning attention"):
        find_model("MiniMaxAI/MiniMax-Text-01")


def test_the_beginning_of_a_refused_name_says_why_unless_a_known_model_begins_so():
    with pytest.raises(UnusualModelError, match="embeddings per layer"):
        find_model("gemma-3n")
    with pytest.raises(UnknownNameError, match="qwen3-next-80b-a3b-instruct"):
        find_model("qwen3-next")
    with pytest.raises(UnknownNameError, match="granite-3"):
        find_model("granite")


def test_the_catalogue_states_sources_and_checks():
    catalogue = load_catalogue()
    assert len(catalogue) >= 190
    assert all(model.source and model.check and model.hf_id for model in catalogue.values())


def test_totals_of_further_models_are_the_published_ones():
    # safetensors totals on the models' pages; GLM's and Qwen3-Next's are rounded by their publishers
    published = {
        "command-a-03-2025": (111.06e9, 0.001),
        "exaone-4.0-32b": (32.00e9, 0.001),
        "glm-4.5-air": (106e9, 0.01),
        "olmo-2-32b-instruct": (32.23e9, 0.001),
        "phi-3.5-moe-instruct": (41.87e9, 0.001),
        "qwen3-next-80b-a3b-instruct": (80e9, 0.01),
        "seed-oss-36b-instruct": (36.15e9, 0.001),
        "starcoder2-15b": (15.96e9, 0.001),
    }
    for name, (total, tolerance) in published.items():
        assert count_parameters(find_model(name).architecture) == pytest.approx(total, rel=tolerance)


def test_gemma_totals_with_their_image_encoders_are_the_published_ones():
    # safetensors totals on the models' pages
    published = {
        "gemma-3-4b-it": 4_300_079_472,
        "gemma-3-12b-it": 12_187_325_040,
        "gemma-3-27b-it": 27_432_406_640,
    }
    for name, total in published.items():
        architecture = find_model(name).architecture
        assert architecture.vision is not None
        assert count_parameters(architecture) + architecture.vision.parameters == total


def test_a_configuration_file_is_enough(tmp_path):
    path = tmp_path / "my-model.json"
    path.write_text(json.dumps(cases.QWEN3_14B))
    for name in (f"hf:{path}", str(path)):
        model = find_model(name)
        assert model.architecture.name == "my-model"
        assert model.exact_bytes is None


def test_a_folder_gives_the_bytes_of_its_files_without_draft_layers(folder):
    # the third layer is beyond num_hidden_layers: a layer for multi-token prediction, which is not served
    model = find_model(f"hf:{folder}")
    assert model.exact_bytes == 2 * count_parameters(model.architecture)


def test_sharded_files_are_read_by_their_index_and_only_if_complete(folder):
    header, _ = tiny_tensors()
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": dict.fromkeys(header, "model-00001-of-00002.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert find_model(str(folder)).exact_bytes is not None
    index["weight_map"]["more"] = "model-00002-of-00002.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    incomplete = find_model(str(folder))
    assert incomplete.exact_bytes is None
    assert incomplete.missing_files == 1
    index["weight_map"]["more"] = "../../etc/passwd"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CapplanError, match="outside the folder"):
        find_model(str(folder))


def test_the_local_cache_is_searched(folder, tmp_path, monkeypatch):
    snapshot = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    folder.rename(snapshot)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    model = find_model("hf:org/tiny")
    assert model.architecture.name == "org/tiny@abc"  # a name of the Hub states the revision
    assert model.exact_bytes
    with pytest.raises(CapplanError, match="cannot be reached"):
        find_model("hf:org/other")
    with pytest.raises(CapplanError, match="unknown language model"):
        find_model("hf:../../x/y")


def gguf_file(**changes):
    facts = {
        "block_count": 2, "embedding_length": 256, "context_length": 512, "feed_forward_length": 512,
        "attention.head_count": 4, "attention.head_count_kv": 2, "vocab_size": 1000, **changes,
    }  # fmt: skip
    keys = [entry("general.architecture", 8, text("llama"))]
    keys += [entry(f"llama.{name}", 4, struct.pack("<I", value)) for name, value in facts.items()]
    keys += [entry("general.file_type", 4, struct.pack("<I", 15))]
    shapes = [("token_embd.weight", (256, 1000)), ("output.weight", (256, 1000))]
    shapes += [(f"blk.{layer}.ffn_down.weight", (512, 256)) for layer in range(2)]
    tensors = [gguf_tensor(name, shape, 12) for name, shape in shapes]
    size = sum(shape[0] * shape[1] // 256 * 144 for _, shape in shapes)
    return gguf_bytes(keys, tensors) + bytes(size), size


def test_a_gguf_file_states_its_architecture_and_its_bytes(tmp_path):
    content, size = gguf_file()
    path = tmp_path / "tiny.gguf"
    path.write_bytes(content)
    model = find_model(str(path))
    assert model.exact_bytes == size
    assert model.own_quantisation.format.name == "q4_k_m"
    assert model.architecture.max_positions == 512
    assert not model.architecture.tied_embeddings
    # per layer: q and o 256 · 256, k and v 128 · 256, three matrices of 512 · 256, two norms; two tables; a norm
    per_layer = 2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256 + 2 * 256
    assert count_parameters(model.architecture) == 2 * per_layer + 2 * 256 * 1000 + 256


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1]", "JSON object"),
        ("{", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "model_type"),
        (json.dumps({**TINY, "num_attention_heads": 3}), "not a multiple"),
        (json.dumps({**TINY, "quantization_config": {"quant_method": "magic"}}), "magic"),
        (json.dumps({**TINY, "quantization_config": [1]}), "must be an object"),
        (json.dumps({**TINY, "hidden_size": 10**30}), "hidden_size"),
    ],
)
def test_bad_configurations_are_one_sentence(tmp_path, content, words):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(CapplanError, match=words) as caught:
        find_model(str(path))
    assert "\n" not in str(caught.value)


def test_missing_files_are_one_sentence():
    for name in ("hf:nowhere/config.json", "nowhere/model.gguf"):
        with pytest.raises(CapplanError, match="no such file"):
            find_model(name)


def test_checkpoint_formats_are_read_from_the_configuration(tmp_path):
    def stored(quantization, config=cases.QWEN3_235B):
        path = tmp_path / "q.json"
        path.write_text(json.dumps({**config, "quantization_config": quantization}))
        return find_model(str(path)).own_quantisation

    block = stored({"quant_method": "fp8", "weight_block_size": [128, 128]})
    assert block.format.name == "fp8_block"
    assert stored({"quant_method": "gptq", "bits": 4, "group_size": 32}).format.name == "gptq_g32"
    # per 64 weights a 16-bit scale and a 4-bit zero point
    assert stored({"quant_method": "awq", "bits": 4, "group_size": 64}).bits(WeightRole.MLP) == 4 + 20 / 64
    # bitsandbytes: an fp32 scale per 64 weights, or one of 8 bits, of which 256 share one of 32
    four = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    assert stored(four).bits(WeightRole.MLP) == 4.5
    assert stored({**four, "bnb_4bit_use_double_quant": True}).bits(WeightRole.MLP) == pytest.approx(
        4 + 0.125 + 0.5 / 256
    )
    assert stored({"quant_method": "bitsandbytes", "load_in_8bit": True}).bits(WeightRole.MLP) == 8
    assert stored(four).bits(WeightRole.HEAD) == 16
    group = {"weights": {"num_bits": 4, "type": "int", "group_size": 32}, "targets": ["Linear"]}
    kimi = stored(
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": group},
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*mlp\\.(gate|up|down)_proj.*"],
        }
    )
    assert (kimi.format.name, kimi.roles) == ("int4_g32", frozenset({WeightRole.EXPERT}))
    # NVIDIA's checkpoints keep the attention of a first layer, or of every layer, in 16 bits
    some = stored({"quant_algo": "NVFP4", "quant_method": "modelopt", "ignore": ["model.layers.0.*", "lm_head"]})
    assert some.skipped_layers == frozenset({0})
    assert some.bits(WeightRole.EXPERT, layer=0) == 16
    assert some.bits(WeightRole.EXPERT, layer=1) == 4.5


def test_a_split_gguf_file_needs_all_its_parts(tmp_path):
    content, size = gguf_file()
    first, second = tmp_path / "m-00001-of-00002.gguf", tmp_path / "m-00002-of-00002.gguf"
    first.write_bytes(content)
    with pytest.raises(CapplanError, match=r"m-00002-of-00002\.gguf is missing"):
        find_model(str(first))
    second.write_bytes(gguf_bytes([], [gguf_tensor("blk.1.ffn_up.weight", (256, 512), 12)]) + bytes(512 * 144))
    model = find_model(str(first))
    assert model.exact_bytes == size + 512 * 144
    assert find_model(str(tmp_path)).architecture.name == "m"


def test_hostile_patterns_cost_no_time(tmp_path):
    # as a regular expression this one takes 2 to the power of the name's length
    evil = {"quant_method": "fp8", "ignore": ["re:(\\w+)+(\\w+)+!$", "re:" + ".*a" * 150, "re:" + "(a|b)" * 50]}
    path = tmp_path / "evil.json"
    path.write_text(json.dumps({**cases.DEEPSEEK_V3, "quantization_config": evil}))
    assert WeightRole.EXPERT in find_model(str(path)).own_quantisation.roles


@settings(max_examples=200)
@given(data=st.data())
def test_mutated_configurations_are_read_or_refused(tmp_path, data):
    config = dict(data.draw(st.sampled_from([cases.DEEPSEEK_V3, cases.GEMMA_3_27B, cases.GPT_OSS_120B, TINY])))
    odd = st.sampled_from([None, -1, 0, 1, 7, 2.5, 1e300, "x", [], [1], {}, {"a": 1}, True, 10**40, "llama"])
    known = [*config, "rope_scaling", "layer_types", "quantization_config", "text_config", "vision_config",
             "per_layer_config", "moe_layer_freq", "num_kv_shared_layers", "mlp_layer_types"]  # fmt: skip
    for name in data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)):
        config[name] = data.draw(odd)
    path = tmp_path / "mutated.json"
    path.write_text(json.dumps(config))
    with contextlib.suppress(CapplanError):  # any other exception fails the test
        model = find_model(str(path))
        assert count_parameters(model.architecture) > 0


def test_a_gguf_file_of_experts_states_their_width(tmp_path):
    facts = {
        "block_count": 2, "embedding_length": 256, "context_length": 512, "feed_forward_length": 512,
        "vocab_size": 1000, "attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 64,
        "attention.value_length": 64,
        "expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 96,
    }  # fmt: skip
    keys = [entry("general.architecture", 8, text("qwen3moe"))]
    keys += [entry(f"qwen3moe.{name}", 4, struct.pack("<I", value)) for name, value in facts.items()]
    path = tmp_path / "moe.gguf"
    path.write_bytes(gguf_bytes(keys, [gguf_tensor("token_embd.weight", (256, 1000), 12)]) + bytes(1000 * 144))
    architecture = find_model(str(path)).architecture
    (_, experts), *_ = architecture.expert_layers()
    assert (experts.count, experts.per_token, experts.width) == (8, 2, 96)
    assert architecture.tied_embeddings
