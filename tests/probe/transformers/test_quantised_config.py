"""A quantised checkpoint's config is planned at full width, and says so."""

import json
from pathlib import Path

import pytest

from capplan.probe.inputs.grammar import parse_request
from capplan.probe.target.resolve import load_target

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("quantisation", "said"),
    [
        ({"quant_method": "gptq", "bits": 4}, "quantised (gptq, 4 bits)"),
        ({"quant_method": "fp8"}, "quantised (fp8)"),
        ({"load_in_4bit": True}, "4 bits"),
    ],
)
def test_a_quantised_config_is_told(tmp_path: Path, quantisation: dict[str, object], said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": quantisation}))
    target = load_target(f"hf:{tmp_path}", request=parse_request(seq_len=8))
    assert said in target.notes[0]
    assert "upper bound" in target.notes[0]
