"""Write the catalogue of language models from configurations that check out, and list those that do not.

Run as `python benchmarks/llm_catalogue.py ../shared/data/llm/configs`. The folder holds reduced Hugging Face
configurations and `index.json` with their sources and published parameter totals. A configuration is taken if its
layers are covered by formulas and its total, alone, with the image encoder or with the layers for multi-token
prediction, is within 0.2 % of the published one, or no total is published. `llm_configs.json` beside this file adds
models in the same form, whose published totals may be rounded (`tolerance`), and lists models that are refused by name.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capplan.errors import CapplanError
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.tensors import count_parameters, layer_tensors
from capplan.llm.read.config.parse import parse_config
from capplan.llm.read.config.quantisation import declares_fp8_cache, parse_quantisation, stored_dtype

FURTHER = Path(__file__).with_name("llm_configs.json")
TARGET = Path(__file__).parents[1] / "capplan" / "llm_models"
TOLERANCE = 0.002
_DROPPED = {
    "_capplan", "quantization_config", "ep_size", "initializer_factor", "video_placeholder", "topk_method",
    "scoring_func", "norm_topk_prob", "routed_scaling_factor", "rms_norm_eps", "hidden_act", "hidden_activation",
}  # fmt: skip


_CONTEXTS = {
    "deepseek-v2-lite": 163840, "llama-2-7b": 4096, "llama-2-13b": 4096, "llama-2-70b": 4096, "moonlight-16b-a3b": 8192,
    "qwen1.5-moe-a2.7b": 8192, "qwen2.5-0.5b-instruct": 32768, "qwen2.5-1.5b-instruct": 32768,
    "qwen2.5-3b-instruct": 32768, "qwen2.5-7b-instruct": 32768, "qwen2.5-14b-instruct": 32768,
    "qwen2.5-32b-instruct": 32768, "qwen2.5-72b-instruct": 32768, "qwen3-4b": 40960, "qwen3-14b": 40960,
}  # fmt: skip
"""max_position_embeddings of published configurations, where the reduced ones leave it out."""

_REPOSITORIES = {
    "llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.1-70b-instruct": "meta-llama/Llama-3.1-70B-Instruct",
    "llama-3.1-405b-instruct": "meta-llama/Llama-3.1-405B-Instruct",
    "deepseek-v2-lite": "deepseek-ai/DeepSeek-V2-Lite",
}
"""Repositories of models whose configurations were taken from a sibling of equal layers (base or chat)."""


def _reduced(config: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in _DROPPED}
    for nested in ("text_config", "vision_config"):
        if isinstance(kept.get(nested), dict):
            kept[nested] = _reduced(kept[nested])
    return kept


def _stored(quantisation: Quantisation | None) -> dict[str, Any] | None:
    if quantisation is None:
        return None
    return {
        "format": quantisation.format.name,
        "roles": sorted(quantisation.roles),
        "skipped_layers": sorted(quantisation.skipped_layers),
        "mixed": {role: each.name for role, each in sorted(quantisation.mixed, key=lambda pair: pair[0])},
    }


def _draft_parameters(architecture: Architecture) -> int:
    """Count the layers for multi-token prediction: each an ordinary layer behind a projection of two states to one."""
    hidden = architecture.hidden_dim
    layer = sum(tensor.parameters for tensor in layer_tensors(architecture.layers[-1], hidden_dim=hidden))
    return architecture.draft_layers * (layer + 2 * hidden * hidden + 3 * hidden)


def _check(architecture: Architecture, row: dict[str, Any]) -> str | None:
    """Return what the total was checked against, None if it disagrees."""
    total, published = count_parameters(architecture), row["params_published"]
    if published is None:
        return "by formula alone; no published total is known"
    vision = architecture.vision.parameters if architecture.vision else 0
    drafts = _draft_parameters(architecture)
    variants = (("", 0), (" with the image encoder", vision), (" with multi-token prediction", drafts))
    for what, count in ((what, total + more) for what, more in variants):
        if abs(count / published - 1) <= row.get("tolerance", TOLERANCE):
            return f"published total {published / 1e9:.5g} B{what}, {100 * (count / published - 1):+.3f} %"
    return None


def _given(folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the rows of the folder's index with their configurations."""
    for row in json.loads((folder / "index.json").read_text()):
        yield row, json.loads((folder / f"{row['id']}.json").read_text())


def _further() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the further models with their configurations."""
    for row in json.loads(FURTHER.read_text())["models"]:
        yield row, row["config"]


def _refused_by_name() -> dict[str, dict[str, str]]:
    """Return the models that are refused by name, with reasons, by id."""
    return {
        row["id"]: {
            "hf_id": row["hf_id"],
            "reason": f"{row['id']}: it has {row['has']}, which no formula here covers, so nothing is guessed; the "
            "header of a safetensors or GGUF file gives its exact weights alone.",
        }
        for row in json.loads(FURTHER.read_text())["refused"]
    }


def main(folder: Path) -> None:
    """Write one file per model that checks out and print the others with the reason.

    Args:
        folder: Holds the configurations and `index.json`.
    """
    TARGET.mkdir(exist_ok=True)
    refused = {}
    for row, config in (*_given(folder), *_further()):
        if row["id"] in _CONTEXTS:
            config["max_position_embeddings"] = _CONTEXTS[row["id"]]
        try:
            architecture = parse_config(config, name=row["id"])
            quantisation = parse_quantisation(config, architecture)
        except CapplanError as error:
            print(f"{row['id']}: {error}")
            refused[row["id"]] = {"hf_id": row["hf"], "reason": str(error)}
            continue
        total = count_parameters(architecture)
        check = _check(architecture, row)
        if check is None:
            published = row["params_published"]
            print(
                f"{row['id']}: {total} parameters differ from {published:.0f} by {100 * (total / published - 1):.2f} %"
            )
            continue
        entry = {
            "id": row["id"],
            "hf_id": _REPOSITORIES.get(row["id"], row["hf"]),
            "source": row["source"],
            "check": check,
            "parameters": total,
            "dtype": stored_dtype(config),
            "quantisation": _stored(quantisation),
            "declares_fp8_cache": declares_fp8_cache(config),
            "config": _reduced(config),
        }
        (TARGET / f"{row['id']}.json").write_text(json.dumps(entry, indent=1) + "\n")
    refused |= _refused_by_name()
    (TARGET / "refused.json").write_text(json.dumps(refused, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
