"""A quantised checkpoint's config is planned with the kernels and bytes of its method."""

import json
from pathlib import Path

import pytest

import capplan
from capplan.app.models import open_model
from capplan.core.workload import Configuration, Training, Variant
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.units import format_seconds

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100,
}  # fmt: skip
# query, key, value and output of 64 by 64, gate, up and down of 64 by 128; embedding and head stay as they are
LAYERS = 4 * 64 * 64 + 3 * 64 * 128


def request(folder: Path, quantisation: dict[str, object] | None) -> ModelRequest:
    more = {} if quantisation is None else {"quantization_config": quantisation}
    (folder / "config.json").write_text(json.dumps({**CONFIG, **more}))
    return ModelRequest(words=f"hf:{folder}", seq_len=8)


def stored(folder: Path, quantisation: dict[str, object] | None) -> int:
    trace = open_model(request(folder, quantisation)).trace([Configuration(variant=Variant.HALF)])
    sizes = [each.size_bytes.constant for each in trace.recordings[0].storages if each.parameter is not None]
    return sum(sizes)


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("quantisation", "packed"),
    [
        # 4-bit weights, per row one group: a 16-bit scale and a 4-bit zero point, and 4 bytes for each input column
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128},
            LAYERS // 2 + (4 * 64 + 2 * 128 + 64) * 5 // 2 + 4 * (6 * 64 + 128),
        ),
        # an fp32 maximum for 64 weights
        ({"load_in_4bit": True}, LAYERS // 2 + LAYERS // 64 * 4),
        # a byte a weight, an fp32 scale a row
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, LAYERS + (4 * 64 + 2 * 128 + 64) * 4),
    ],
)
def test_linear_layers_of_a_quantised_config_are_packed(
    tmp_path: Path, quantisation: dict[str, object], packed: int
) -> None:
    assert stored(tmp_path, quantisation) == stored(tmp_path, None) - 2 * LAYERS + packed


@pytest.mark.zoo
def test_training_of_a_quantised_config_is_counted_at_full_width_and_noted(tmp_path: Path) -> None:
    model = open_model(request(tmp_path, {"quant_method": "awq", "bits": 4}))
    trace = model.trace([Configuration(training=Training())])
    assert any("full width" in note for note in trace.provenance.notes)


@pytest.mark.zoo
def test_an_unknown_method_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'hqq9' is not known.*full width"):
        open_model(request(tmp_path, {"quant_method": "hqq9"})).trace([Configuration()])


@pytest.mark.zoo
def test_a_plan_sets_a_quantised_checkpoint_beside_the_model_that_it_was_made_from(tmp_path: Path) -> None:
    words = request(tmp_path, {"quant_method": "gptq", "bits": 4, "group_size": 64}).words
    for _ in range(2):  # traced, and from the cache
        made = capplan.plan(words, seq_len=8, batches=[1], gpus=["l4"])
        assert made.notes[0].startswith("gptq on l4 at batch 1: ")
        assert "at full width" in made.notes[0]
        assert "as fast" in made.notes[0]
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    wide = capplan.plan(words, seq_len=8, batches=[1], gpus=["l4"]).best()
    assert wide is not None
    # the unquantised model's own plan has the time that the note names, up to its dtype of fp16 or bf16
    assert f"{format_seconds(wide.latency.latency_s.expected)} and" in made.notes[0].partition("at full width")[2]
