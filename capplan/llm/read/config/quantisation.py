"""Read how a checkpoint is quantised from the `quantization_config` of its configuration."""

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from capplan.core.weights import WeightFormat, find_weight_format
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.layers import Attention, CompressedAttention, DenseMlp, Experts, GatedDeltaNet, LatentAttention
from capplan.llm.core.quantisation import Quantisation, default_roles
from capplan.llm.core.tensors import WeightRole
from capplan.llm.read.config.fields import Fields

_MOST_PATTERNS = 20_000
_MOST_ALTERNATIVES = 20
_MOST_GROUPS = 2
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def stored_dtype(config: Mapping[str, Any]) -> str:
    """Return the 16- or 32-bit format that a checkpoint's unquantised weights are in."""
    nested = config.get("text_config")
    for source in (nested if isinstance(nested, dict) else {}, config):
        for name in ("dtype", "torch_dtype"):
            found = source.get(name)
            if isinstance(found, str) and found in _DTYPES:
                return _DTYPES[found]
    return "bf16"


def parse_quantisation(
    config: Mapping[str, Any], architecture: Architecture, *, where: str | None = None
) -> Quantisation | None:
    """Return how a checkpoint is quantised, None if it is not."""
    root = Fields(config, where=where or architecture.name)
    nested = root.object("text_config")
    found = root.object("quantization_config") or (nested.object("quantization_config") if nested else None)
    if found is None:
        return None
    weights = _format(found)
    mixed = _mixed_roles(found, architecture)
    expert_dtype = root.word("expert_dtype") or found.word("expert_dtype")
    if expert_dtype == "fp4" and weights.name == "fp8_block":
        # DeepSeek-V4's experts: two elements a byte, and a scale of 8 bits for 32 of them
        roles = default_roles(architecture, weights)
        mixed = tuple((role, find_weight_format("mxfp4") if role is WeightRole.EXPERT else weights) for role in roles)
    if mixed:
        return Quantisation(format=weights, roles=frozenset(), mixed=mixed)
    patterns = _patterns(found)
    if not patterns:
        return Quantisation(format=weights, roles=default_roles(architecture, weights))
    return _apply_patterns(architecture, weights, patterns)


def declares_fp8_cache(config: Mapping[str, Any]) -> bool:
    """Return True if a checkpoint holds scales for an fp8 KV cache."""
    nested = config.get("text_config")
    for source in (config, nested if isinstance(nested, dict) else {}):
        found = source.get("quantization_config")
        if isinstance(found, dict):
            scheme = found.get("kv_cache_scheme")
            narrow = isinstance(scheme, dict) and scheme.get("num_bits") == 8
            return narrow or scheme == "FP8" or found.get("kv_cache_quant_algo") == "FP8"
    return False


def _format(found: Fields) -> WeightFormat:
    method, algorithm = found.word("quant_method") or "", (found.word("quant_algo") or "").upper()
    bits = found.optional_size("bits")
    if method == "mxfp4":
        return find_weight_format("mxfp4")
    if algorithm in ("NVFP4", "MIXED_PRECISION"):
        return find_weight_format("nvfp4")
    if found.has("weight_block_size"):
        return find_weight_format("fp8_block")
    if algorithm == "FP8" or method in ("fp8", "fbgemm_fp8"):
        return find_weight_format("fp8")
    if method in ("awq", "gptq") and bits in (None, 4):
        group = found.raw("group_size")
        return find_weight_format(f"{method}_g{group}" if group in (32, 64) else method)
    if method == "gptq" and bits == 8:
        return find_weight_format("int8_wo")
    if method == "bitsandbytes":
        # Four bits have scales per 64 weights, which double quantisation narrows to eight bits.
        if not found.flag("load_in_4bit"):
            return find_weight_format("int8_wo")
        return find_weight_format("bnb_4bit_double" if found.flag("bnb_4bit_use_double_quant") else "bnb_4bit")
    if method == "compressed-tensors":
        return _compressed_format(found)
    what = f"quant_method {method!r}" + (f" with {bits} bits" if bits else "")
    raise found.error(f"{what} is not one whose sizes are known; known are {', '.join(_METHODS)}")


_METHODS = ("fp8", "fbgemm_fp8", "awq", "gptq", "bitsandbytes", "compressed-tensors", "modelopt", "mxfp4")


def _compressed_format(found: Fields) -> WeightFormat:
    groups = found.object("config_groups")
    first = groups.object("group_0") if groups else None
    weights = first.object("weights") if first else None
    if weights is None:
        raise found.error("compressed-tensors without config_groups.group_0.weights is not understood")
    bits, kind = weights.size("num_bits"), weights.word("type")
    group = weights.optional_size("group_size")
    match bits, kind:
        case 8, "float":
            return find_weight_format("fp8_block" if weights.word("strategy") == "block" else "fp8")
        case 8, _:
            inputs = first.raw("input_activations") if first else None
            return find_weight_format("int8" if inputs else "int8_wo")
        case 4, "float":
            return find_weight_format("mxfp4" if group == 32 else "nvfp4")
        case 4, _:
            return find_weight_format("int4_g32" if group == 32 else "int4_wo")
    raise found.error(f"compressed-tensors with {bits}-bit weights is not one whose sizes are known")


def _mixed_roles(found: Fields, architecture: Architecture) -> tuple[tuple[WeightRole, WeightFormat], ...]:
    """Return the format of each role where groups of modules with formats of their own are listed."""
    groups = found.raw("config_groups")
    if (found.word("quant_algo") or "").upper() != "MIXED_PRECISION" or not isinstance(groups, dict):
        return ()
    layers = range(len(architecture.layers))
    names = {role: set(modules) for layer in layers for role, modules in _modules(architecture, layer)}
    names[WeightRole.HEAD] = {"lm_head"}
    mixed: dict[WeightRole, WeightFormat] = {}
    for group in groups.values():
        targets = group.get("targets") if isinstance(group, dict) else None
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(targets, list) or not isinstance(weights, dict):
            raise found.error("config_groups must hold objects with weights and targets")
        matchers = [_matcher(target) for target in targets[:_MOST_PATTERNS] if isinstance(target, str)]
        for role, modules in names.items():
            if any(matcher(name) for matcher in matchers for name in modules):
                mixed[role] = find_weight_format("nvfp4" if weights.get("num_bits") == 4 else "fp8")
    return tuple(mixed.items())


def _patterns(found: Fields) -> list[str]:
    for name in ("ignore", "modules_to_not_convert", "exclude_modules"):
        values = found.raw(name)
        if isinstance(values, list):
            return [value for value in values if isinstance(value, str) and len(value) < 500][:_MOST_PATTERNS]
    return []


def _apply_patterns(architecture: Architecture, weights: WeightFormat, patterns: list[str]) -> Quantisation:
    """Return the roles that are quantised in most layers, and the layers that are left out whole."""
    matchers = [_matcher(pattern) for pattern in patterns]
    layers = len(architecture.layers)
    quantised: dict[WeightRole, set[int]] = {}
    for layer in range(layers):
        for role, names in _modules(architecture, layer):
            kept = any(matcher(name) for matcher in matchers for name in names)
            quantised.setdefault(role, set())
            if not kept:
                quantised[role].add(layer)
    present = {role: {i for i in range(layers) if role in dict(_modules(architecture, i))} for role in quantised}
    roles = frozenset(role for role, inside in quantised.items() if 2 * len(inside) >= len(present[role]) > 0)
    skipped = frozenset(
        layer
        for layer in range(layers)
        if any(layer in present[role] for role in roles) and not any(layer in quantised[role] for role in roles)
    )
    return Quantisation(format=weights, roles=roles, skipped_layers=skipped)


def _modules(architecture: Architecture, layer: int) -> Iterator[tuple[WeightRole, tuple[str, ...]]]:
    """Yield the roles of a layer's matrices with the names that a typical module of each goes by."""
    held = architecture.layers[layer]
    if isinstance(held.mixer, Attention | LatentAttention | CompressedAttention):
        yield WeightRole.ATTENTION, _names(layer, "self_attn.o_proj")
    elif isinstance(held.mixer, GatedDeltaNet) and held.mixer.decay_rank is not None:
        yield WeightRole.LINEAR_ATTENTION, _names(layer, "self_attn.o_proj")  # as Kimi's checkpoints name it
    elif held.mixer is not None:
        yield WeightRole.LINEAR_ATTENTION, _names(layer, "linear_attn.in_proj_qkv")
    if isinstance(held.mlp, DenseMlp):
        yield WeightRole.MLP, _names(layer, "mlp.down_proj")
    if isinstance(held.mlp, Experts):
        yield (
            WeightRole.EXPERT,
            _names(layer, "experts.0.down_proj")  # Gemma 4 has them beside an ordinary MLP
            if held.mlp.dense is not None
            else _names(layer, "mlp.experts.0.down_proj") + _names(layer, "block_sparse_moe.experts.0.w2"),
        )
        if held.mlp.dense is not None:
            yield WeightRole.MLP, _names(layer, "mlp.down_proj")
        if held.mlp.shared_width:
            yield (
                WeightRole.SHARED_EXPERT,
                _names(layer, "mlp.shared_experts.down_proj") + _names(layer, "mlp.shared_expert.down_proj"),
            )


def _names(layer: int, module: str) -> tuple[str, ...]:
    prefixes = ("model.layers", "language_model.model.layers", "model.language_model.layers")
    return tuple(f"{prefix}.{layer}.{module}" for prefix in prefixes)


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test of module names: a regular expression after `re:`, a glob, or the name of a parent.

    Regular expressions are read as globs, because those of a hostile file could take for ever. What configurations
    hold are wildcards, escaped dots and groups of alternatives; any other expression matches nothing.
    """
    if pattern.startswith("re:"):
        globs = _globs(pattern.removeprefix("re:"))
        return lambda name: any(fnmatchcase(name, glob) for glob in globs)
    if "*" in pattern:
        return lambda name: fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
    return lambda name: name == pattern or name.startswith(f"{pattern}.")


def _globs(expression: str) -> list[str]:
    """Return globs that match what a simple regular expression matches at the beginning of a name."""
    text = expression.removeprefix("^").removesuffix("$").replace(".*", "*").replace(r"\d+", "*").replace(r"\.", ".")
    group = re.search(r"\(([^()]*)\)", text)
    if group is not None and text.count("(") <= _MOST_GROUPS:
        choices = group[1].removeprefix("?:").split("|")[:_MOST_ALTERNATIVES]
        return [glob for choice in choices for glob in _globs(text[: group.start()] + choice + text[group.end() :])]
    return [f"{text}*"] if re.fullmatch(r"[\w.*/-]*", text) else []
