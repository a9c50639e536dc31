"""Read the `quantization_config` of a transformers configuration as a scheme: method, bits, groups, what stays wide."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from capplan.core.quantisation.schemes import SCHEMES, Execution, Scales, Scheme, find_scheme
from capplan.errors import UsageError

_MOST_PATTERNS = 10_000
_PLAIN_KEPT = ("lm_head",)


def checkpoint_scheme(config: Mapping[str, Any], *, where: str) -> Scheme:
    """Return how a checkpoint's linear layers are quantised.

    Known methods are bitsandbytes (8 and 4 bits), gptq, awq, fp8 and fbgemm_fp8, compressed-tensors, mxfp4, modelopt
    and torchao.
    """
    method = str(config.get("quant_method") or "").lower()
    if not method and (config.get("load_in_4bit") or config.get("load_in_8bit")):
        method = "bitsandbytes"
    read = _METHODS.get(method)
    if read is None:
        raise UsageError(
            f"{where}: quant_method {method or None!r} is not known; known are {', '.join(sorted(_METHODS))}. Drop "
            "quantization_config to plan the model at full width."
        )
    return replace(read(config, where), skipped=_skipped(config))


def _skipped(config: Mapping[str, Any]) -> tuple[str, ...]:
    for name in ("modules_to_not_convert", "llm_int8_skip_modules", "ignore", "exclude_modules"):
        values = config.get(name)
        if isinstance(values, list):
            named = [value for value in values if isinstance(value, str) and len(value) < 300][:_MOST_PATTERNS]
            return tuple(_as_glob(pattern) for pattern in named) or _PLAIN_KEPT
    return _PLAIN_KEPT


def _as_glob(pattern: str) -> str:
    """Return a pattern as a glob: regular expressions of configurations hold little but dots and stars."""
    if not pattern.startswith("re:"):
        return pattern
    text = pattern.removeprefix("re:").removeprefix("^").removesuffix("$")
    return text.replace(r"\.", ".").replace(".*", "*").replace(r"\d+", "*")


def _whole(config: Mapping[str, Any], name: str, default: int, where: str) -> int:
    value = config.get(name, default)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= 2**20:
        raise UsageError(f"{where}: quantization_config.{name} {value!r} is not a whole number.")
    return value


_ONE_SCALE = Scales(dtype="float32", rows=0, columns=0)
"""One scale for a whole matrix."""


def _bitsandbytes(config: Mapping[str, Any], _where: str) -> Scheme:
    if config.get("load_in_4bit"):
        return SCHEMES["bitsandbytes_4bit_double" if config.get("bnb_4bit_use_double_quant") else "bitsandbytes_4bit"]
    return SCHEMES["bitsandbytes_int8"]


def _grouped(base: str, config: Mapping[str, Any], where: str) -> Scheme:
    """Return GPTQ or AWQ with the bits and group size of a configuration."""
    scheme, bits = SCHEMES[base], _whole(config, "bits", 4, where)
    if bits not in (4, 8):
        raise UsageError(f"{where}: {base} with {bits} bits is not known; 4 and 8 are.")
    group = _whole(config, "group_size", 128, where)
    scales = Scales(dtype="half", columns=max(0, group), zero_bits=4 if bits == 4 else 0)
    return replace(scheme, weights="int4" if bits == 4 else "int8", scales=(scales,), format=None)


def _fp8(config: Mapping[str, Any], where: str) -> Scheme:
    block = config.get("weight_block_size")
    if block is None:
        return SCHEMES["float8_dynamic"]
    if not isinstance(block, list) or len(block) != 2 or not all(isinstance(size, int) and size > 0 for size in block):
        raise UsageError(f"{where}: quantization_config.weight_block_size {block!r} is not a pair of whole numbers.")
    return replace(SCHEMES["fp8_block"], scales=(Scales(dtype="float32", rows=block[0], columns=block[1]),))


def _modelopt(config: Mapping[str, Any], where: str) -> Scheme:
    algorithm = str(config.get("quant_algo") or "").upper()
    known = {
        "FP8": replace(SCHEMES["float8_dynamic"], scales=(_ONE_SCALE,)),
        "NVFP4": SCHEMES["nvfp4_dynamic"],
    }
    if algorithm not in known:
        raise UsageError(f"{where}: modelopt's quant_algo {algorithm!r} is not known; FP8 and NVFP4 are.")
    return known[algorithm]


def _torchao(config: Mapping[str, Any], where: str) -> Scheme:
    kind = config.get("quant_type")
    if isinstance(kind, Mapping):  # {"default": {"_type": "Int4WeightOnlyConfig", ...}}
        first: object = next(iter(kind.values()), None)
        kind = first.get("_type") if isinstance(first, Mapping) else None
    found = find_scheme(str(kind), None)
    if found is None:
        raise UsageError(f"{where}: torchao's quant_type is missing.")
    return found


def _compressed(config: Mapping[str, Any], where: str) -> Scheme:
    groups = config.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(first, Mapping) or not isinstance(weights, Mapping):
        raise UsageError(f"{where}: compressed-tensors without config_groups and their weights is not understood.")
    bits, is_float = _whole(weights, "num_bits", 8, where), weights.get("type") == "float"
    group = max(0, _whole(weights, "group_size", 0, where))
    dynamic = first.get("input_activations") is not None
    if bits == 8 and is_float:
        if weights.get("strategy") == "block":
            return _fp8({"weight_block_size": weights.get("block_structure") or [128, 128]}, where)
        found = SCHEMES["float8_dynamic" if dynamic else "float8_weight_only"]
        return replace(found, scales=(_ONE_SCALE,)) if weights.get("strategy") == "tensor" else found
    if bits == 8:
        fused = replace(SCHEMES["int8_weight_only"], execution=Execution.FUSED)
        return SCHEMES["int8_dynamic"] if dynamic else replace(fused, scales=(Scales(dtype="half", columns=group),))
    if bits == 4 and is_float:
        if group == 32:
            return SCHEMES["mxfp4"]
        return SCHEMES["nvfp4_dynamic" if dynamic else "nvfp4_weight_only"]
    if bits == 4:
        zero_bits = 0 if weights.get("symmetric", True) else 4
        return replace(
            SCHEMES["awq"],
            name="compressed_tensors_int4",
            scales=(Scales(dtype="half", columns=group, zero_bits=zero_bits),),
            format=None,
        )
    raise UsageError(f"{where}: compressed-tensors with {bits}-bit weights is not known; 8 and 4 bits are.")


_METHODS: Mapping[str, Callable[[Mapping[str, Any], str], Scheme]] = {
    "bitsandbytes": _bitsandbytes,
    "gptq": partial(_grouped, "gptq"),
    "awq": partial(_grouped, "awq"),
    "fp8": _fp8,
    "fbgemm_fp8": lambda *_: SCHEMES["float8_dynamic"],
    "compressed-tensors": _compressed,
    "mxfp4": lambda *_: replace(SCHEMES["mxfp4"], only=("*experts*",)),
    "modelopt": _modelopt,
    "torchao": _torchao,
}
