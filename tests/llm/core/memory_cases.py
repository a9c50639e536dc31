"""Deployments for tests: an H100 with vLLM's rules as a study of its start-up logs states them."""

from typing import Any

from capplan.core.engine_names import Engine
from capplan.llm.core.engine_support import EngineRuns, EngineSupport, ReleaseFacts
from capplan.llm.core.engines import ActivationConstants, EngineMemoryRules, LlmMemoryConstants, PoolRule

GIB = 1 << 30
H100_BYTES = 79.19 * GIB

VLLM = EngineMemoryRules(
    engine=Engine.VLLM,
    since=(0, 17),
    rule=PoolRule.BUDGET,
    block_tokens=16,
    activation=ActivationConstants(
        # 1.398e-5 GiB per vocabulary entry and 1.8e-5 GiB per hidden element, at 1,024 sequences
        sampler_bytes_per_vocab=1.398e-5 * GIB / 1024,
        sampler_bytes_per_hidden=1.8e-5 * GIB / 1024,
        forward_mlp=3,
        forward_hidden=4,
        fixed_bytes=0,
        expert_workspaces=1,
        vision_bytes=0.15 * GIB,
        stage_bytes=1.05 * GIB,
    ),
    other_bytes={1: 0.25 * GIB, 2: 2.07 * GIB, 4: 2.15 * GIB},
    stage_other_bytes=0.07 * GIB,
    graph_bytes=0.9 * GIB,
    uncertain_fraction=0.02,
    uncertain_bytes=0.1 * GIB,
    evidence="measured",
    source="study",
)


def engine(name: Engine, rule: PoolRule, **changes: Any) -> EngineMemoryRules:
    """Return simple rules of another engine, with the forward pass of vLLM."""
    from dataclasses import replace

    return replace(VLLM, engine=name, since=(0,), rule=rule, evidence="documented", **changes)


PADDED = {"other": (128, 256)}
FRACTIONS = {Engine.VLLM: 0.9, Engine.SGLANG: None, Engine.TRTLLM: 0.9, Engine.LLAMACPP: 1.0}

CONSTANTS = LlmMemoryConstants(
    engines=(
        VLLM,
        engine(Engine.SGLANG, PoolRule.STATIC, block_tokens=1),
        engine(Engine.TRTLLM, PoolRule.FREE, block_tokens=32),
        engine(Engine.LLAMACPP, PoolRule.REST, block_tokens=256),
    ),
    origin="study",
    support=EngineSupport(
        engines={
            name: EngineRuns(
                families={}, formats={}, caches={}, memory=(ReleaseFacts(fraction=fraction, expert_padding=PADDED),)
            )
            for name, fraction in FRACTIONS.items()
        }
    ),
)
