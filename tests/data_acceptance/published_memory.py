"""What people published of engines' memory, with the setups that they named: values to judge by, never fitted.

Each is from a public bug report or its log; `source` names it. Sizes are per GPU. [GiB]
"""

from dataclasses import dataclass, field
from typing import Any

from capplan.core.engine_names import Engine
from capplan.llm.core.engines import parse_version
from capplan.llm.core.memory_answer import MemoryAnswer, StatedDeployment, answer_memory
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.serving.asked import Drafter
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.calibrations import load_llm_memory
from capplan.llm.read.config.parse import parse_config
from capplan.llm.read.sources import find_model
from capplan.specs import load_gpus

GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published start: the setup, and what was logged of it; None for what was not."""

    source: str
    model: str | dict[str, Any]
    gpu: str
    version: str = ""
    engine: Engine = Engine.VLLM
    tp: int = 1
    pp: int = 1
    stated: dict[str, Any] = field(default_factory=dict)
    weights_gib: float | None = None
    cache_gib: float | None = None
    tokens: int | None = None
    within: float | None = None

    def answer(self) -> MemoryAnswer:
        """Return what capplan says of the setup."""
        model = find_model(self.model) if isinstance(self.model, str) else _from(self.model)
        request = StatedDeployment(
            model=model,
            gpu=load_gpus().find(self.gpu),
            engine=self.engine,
            version=parse_version(self.version) if self.version else None,
            sharding=Sharding(tensor=self.tp, pipeline=self.pp),
            **self.stated,
        )
        return answer_memory(request, load_llm_memory(), alternatives=False)


def _from(config: dict[str, Any]) -> LanguageModel:
    architecture = parse_config(config, name=config["name"])
    return LanguageModel(architecture=architecture, dtype="bf16", quantisation=None, source="its configuration")


QWEN_1_5_7B = {
    "name": "qwen1.5-7b", "model_type": "qwen2", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_CODER_6_7B = {
    "name": "deepseek-coder-6.7b", "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32256,
    "max_position_embeddings": 16384, "tie_word_embeddings": False,
}  # fmt: skip

CACHES = (
    Published(source="vllm#10517", model="llama-3.1-8b-instruct", gpu="rtx-3090", version="0.6.4",
              stated={"sequence_tokens": 20_000}, weights_gib=14.99, cache_gib=3.81, tokens=31_232),
    Published(source="vllm#10517", model="llama-3.1-8b-instruct", gpu="rtx-3090", version="0.6.4",
              stated={"sequence_tokens": 29_000}, weights_gib=14.99, cache_gib=2.89, tokens=23_648),
    Published(source="vllm#21348", model="qwen3-235b-a22b-fp8", gpu="h100-sxm5-80gb", tp=4, version="0.9",
              cache_gib=8.11, tokens=178_880),
    # 81,536 tokens are 7.46 GiB on the first GPU, which samples; the other logs 8.69 GiB
    Published(source="vllm#13061", model="deepseek-r1-distill-qwen-14b", gpu="rtx-4090", tp=2, version="0.7.2",
              stated={"fraction": 0.98}, weights_gib=13.95, cache_gib=81_536 * 98_304 / GIB, tokens=81_536),
    Published(source="vllm#12569", model="llama-3.1-70b-instruct", gpu="h100-sxm5-80gb", version="0.7",
              stated={"weights": "int8", "fraction": 0.98, "sequence_tokens": 2048}, weights_gib=67.72,
              cache_gib=22_096 * 327_680 / GIB, tokens=22_096),
    Published(source="vllm#4650", model="deepseek-v2", gpu="h100-sxm5-80gb", tp=8, version="0.5.4",
              stated={"fraction": 0.95}, cache_gib=2368 * 983_040 / GIB, tokens=2368),
    Published(source="vllm#5248", model=DEEPSEEK_CODER_6_7B, gpu="t4", tp=2, version="0.4.3",
              stated={"weights": "fp16"}, cache_gib=8112 * 262_144 / GIB,
              tokens=8112),
    Published(source="QwenLM/Qwen3#16", model=QWEN_1_5_7B, gpu="rtx-3090", version="0.3",
              stated={"weights": "gptq"}, cache_gib=24_320 * 524_288 / GIB, tokens=24_320),
    Published(source="club-3090#1087", model="qwen3.5-27b", gpu="rtx-5090", tp=2, version="0.25",
              stated={"weights": "fp8", "kv": "fp8", "fraction": 0.92, "batched_tokens": 8192}, weights_gib=14.28,
              cache_gib=12.26),
    Published(source="club-3090#104", model="qwen3.5-27b", gpu="rtx-3090", tp=2, version="0.21",
              stated={"weights": "int4_wo", "kv": "fp8", "fraction": 0.88, "sequence_tokens": 262_144}, cache_gib=9.84,
              tokens=619_202),
    Published(source="vllm#21348", model="qwen3-235b-a22b-fp8", gpu="h100-sxm5-80gb", tp=4, engine=Engine.SGLANG,
              stated={"fraction": 0.93}, cache_gib=16.46e9 / GIB, tokens=367_404),
    Published(source="TensorRT-LLM#1400", model="llama-2-7b", gpu="a100-sxm4-80gb", engine=Engine.TRTLLM,
              stated={"weights": "int8"}, cache_gib=64.75, tokens=132_608),
    Published(source="TensorRT-LLM#224", model="llama-2-7b", gpu="a10", engine=Engine.TRTLLM, stated={"fraction": 0.95},
              cache_gib=10_718 * 524_288 / GIB, tokens=10_718),
)  # fmt: skip
"""Caches, and the tokens in them. Left out is QwenLM/Qwen3#16's 72B on two A100: its cache of 5.45 GiB beside 67.3 GiB
of weights is more than 0.9 of an A100, so that its fraction was another and is not known."""

WEIGHTS = (
    # 16-bit attention: the maker's file (vllm#6746)
    Published(source="vllm#6746", model="llama-3.1-405b-instruct-fp8", gpu="h100-sxm5-80gb", tp=8, version="0.5.3",
              weights_gib=57.75, within=0.02),
    Published(source="vllm#15676", model="gemma-3-27b-it", gpu="a100-sxm4-80gb", tp=4, version="0.8.2",
              weights_gib=13.17, within=0.01),
    Published(source="vllm#22331", model="gpt-oss-20b", gpu="rtx-3090", version="0.10", weights_gib=12.88, within=0.01),
    Published(source="vllm-project/recipes#810", model="qwen3.5-27b", gpu="rtx-5090", tp=2,
              stated={"weights": "fp8"}, weights_gib=14.28, within=0.005),
    Published(source="ollama#6279", model="llama-3.1-70b-instruct", gpu="a100-sxm4-80gb", engine=Engine.LLAMACPP,
              stated={"weights": "q4_0"}, weights_gib=37.22, within=0.001),
    Published(source="vllm#10517", model="llama-3.1-8b-instruct", gpu="rtx-3090", version="0.6.4", weights_gib=14.99,
              within=0.001),
    Published(source="vllm#13061", model="deepseek-r1-distill-qwen-14b", gpu="rtx-4090", tp=2, version="0.7.2",
              weights_gib=13.95, within=0.015),
)  # fmt: skip

SIZES = (
    # of one request of the longest length, beside a cache that does not hold it
    Published(source="vllm#16118", model="llama-4-maverick", gpu="h100-sxm5-80gb", tp=8, version="0.8.2",
              stated={"weights": "fp8", "sequence_tokens": 1_048_576}, cache_gib=24.00, within=0.001),
    Published(source="InferenceX#1587", model="kimi-k2.5", gpu="h100-sxm5-80gb", tp=8,
              stated={"kv": "fp8", "sequence_tokens": 262_144}, cache_gib=8.58, within=0.001),
)  # fmt: skip
"""What one request of the longest length needs, where it does not fit."""

TOKENS = (
    Published(source="club-3090#104", model="qwen3.5-27b", gpu="rtx-3090", tp=2, version="0.21", tokens=619_202,
              stated={"weights": "int4_wo", "kv": "fp8", "sequence_tokens": 262_144, "pool_bytes": 9.84 * GIB},
              within=0.05),
    Published(source="mitchross/talos-argocd-proxmox#1995", model="qwen3.5-27b", gpu="rtx-3090", tp=2, version="0.23",
              stated={"weights": "fp8", "kv": "fp8", "sequence_tokens": 131_072, "pool_bytes": 4.99 * GIB},
              tokens=302_921, within=0.05),
    # with drafts, whose states of each position are not counted
    Published(source="club-3090#594", model="qwen3.5-27b", gpu="rtx-3090", tp=2, version="0.23", tokens=300_220,
              stated={"weights": "fp8", "kv": "fp8", "sequence_tokens": 262_144, "pool_bytes": 5.33 * GIB,
                      "drafter": Drafter()}, within=0.08),
)  # fmt: skip
"""What vLLM logs as the size of a cache of known bytes whose layers differ."""
