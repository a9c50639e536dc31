"""Read the headers of GGUF and safetensors files: metadata; names, types and sizes of tensors; no data."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

from capplan.errors import SpecError, UnknownNameError
from capplan.llm.read.config.traits import families

LARGEST_HEADER_BYTES = 100_000_000
"""The format's own limit. [bytes]"""

MOST_TENSORS = 100_000
"""Most tensors of one file; the largest models have about 90,000, spread over more than a hundred files."""

_MARKS = 20
"""Commas and brackets that a tensor may take: a tensor of 16 dimensions has 19."""

_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64,
}  # fmt: skip


class ByteStream(Protocol):
    """What headers are read from: a file of this machine, or the beginning of one of the Hub."""

    def read(self, count: int, /) -> bytes:
        """Return the next bytes, fewer at the end."""

    def seek(self, count: int, whence: int = 0, /) -> int:
        """Move forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """One tensor of a file: its name, how it is stored, its shape, and its size. [bytes]"""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


def read_safetensors_header(path: Path) -> tuple[StoredTensor, ...]:
    """Return the tensors of a safetensors file without reading their data.

    Raises:
        SpecError: The file is damaged, truncated, or not a safetensors file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            return parse_safetensors_header(stream, file_bytes=size, where=str(path))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}.") from error


def parse_safetensors_header(stream: ByteStream, *, file_bytes: int, where: str) -> tuple[StoredTensor, ...]:
    """Return the tensors that the header at the start of a stream describes.

    Raises:
        SpecError: The header is damaged or does not fit the file.
    """
    prefix = stream.read(8)
    if len(prefix) < 8:
        raise SpecError(f"{where}: a safetensors file has at least 8 bytes, this one has {len(prefix)}.")
    (length,) = struct.unpack("<Q", prefix)
    if not 2 <= length <= min(LARGEST_HEADER_BYTES, max(0, file_bytes - 8)):
        raise SpecError(
            f"{where}: a header of {length} bytes is impossible in a safetensors file of {file_bytes} bytes "
            f"(at most {LARGEST_HEADER_BYTES} are allowed)."
        )
    text = stream.read(length)
    if text.count(b"{") > MOST_TENSORS or sum(text.count(mark) for mark in (b",", b"[")) > _MARKS * MOST_TENSORS:
        raise SpecError(f"{where}: the header lists more than {MOST_TENSORS:,} tensors, the most that are read.")
    if len(text) < length:
        raise SpecError(f"{where}: the header ends after {len(text)} of {length} bytes.")
    try:
        header = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise SpecError(f"{where}: the safetensors header is not valid JSON: {reason}.") from error
    if not isinstance(header, dict):
        raise SpecError(f"{where}: the safetensors header must be an object.")
    data_bytes = file_bytes - 8 - length
    return tuple(
        _tensor(name, entry, data_bytes=data_bytes, where=where)
        for name, entry in header.items()
        if name != "__metadata__"
    )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is repeated")
    return found


def _tensor(name: str, entry: Any, *, data_bytes: int, where: str) -> StoredTensor:
    shown = name if len(name) <= 80 else f"{name[:77]}..."
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SpecError(f"{where}: tensor {shown!r} must have dtype, shape and data_offsets.")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in _BITS:
        raise SpecError(f"{where}: tensor {shown!r} has the unknown dtype {str(dtype)[:20]!r}.")
    if not _are_sizes(shape) or len(shape) > 16:
        raise SpecError(f"{where}: tensor {shown!r} has the shape {str(shape)[:60]}, which is impossible.")
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= data_bytes:
        raise SpecError(f"{where}: tensor {shown!r} has data_offsets {str(offsets)[:60]} outside the file's data.")
    size = offsets[1] - offsets[0]
    if prod(shape) * _BITS[dtype] != size * 8:
        raise SpecError(f"{where}: tensor {shown!r} of shape {shape} in {dtype} cannot take {size} bytes.")
    return StoredTensor(name=name, dtype=dtype, shape=tuple(shape), size_bytes=size)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48 for value in values
    )


_MOST_TENSORS = 1_000_000
_MOST_KEYS = 100_000
_LONGEST_NAME = 65_535
_DEEPEST_ARRAY = 4
_LONGEST_KEPT_ARRAY = 4096
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
"""ggml's tensor types: name, weights of a block, bytes of a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What a GGUF file says about its model.

    `metadata` holds scalars, texts and short arrays; a long array stands as its length alone, under its name and
    ` length`.
    """

    metadata: Mapping[str, Any]
    tensors: tuple[StoredTensor, ...]


def read_gguf_header(path: Path) -> GgufHeader:
    """Return the metadata and the tensors of a GGUF file without reading their data.

    Raises:
        SpecError: The file is damaged, truncated, of an unknown version, or not a GGUF file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            return parse_gguf_header(stream, file_bytes=size, where=str(path))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}.") from error


def parse_gguf_header(stream: ByteStream, *, file_bytes: int, where: str) -> GgufHeader:
    """Return the metadata and the tensors that the header at the start of a stream describes.

    Raises:
        SpecError: The header is damaged or does not fit the file.
    """
    return _GgufReader(stream, size=file_bytes, where=where).header()


class _GgufReader:
    def __init__(self, stream: ByteStream, *, size: int, where: str) -> None:
        self._stream, self._left, self._where = stream, size, where

    def header(self) -> GgufHeader:
        """Return the parsed header."""
        if self._bytes(4) != b"GGUF":
            raise self._error("it does not begin with GGUF")
        version = self._number("I")
        if version not in (2, 3):
            raise self._error(f"version {version} of the format is not known (2 and 3 are)")
        tensor_count, key_count = self._number("Q"), self._number("Q")
        if tensor_count > _MOST_TENSORS or key_count > _MOST_KEYS:
            raise self._error(f"{tensor_count} tensors and {key_count} keys are more than any model has")
        metadata: dict[str, Any] = {}
        for _ in range(key_count):
            name = self._text(longest=_LONGEST_NAME)
            if name in metadata:
                raise self._error(f"the key {name[:60]!r} is repeated")
            kind = self._number("I")
            if kind == _ARRAY:
                length, values = self._array(depth=1)
                metadata[f"{name} length"] = length
                if values is not None:
                    metadata[name] = values
            else:
                metadata[name] = self._value(kind)
        tensors = tuple(self._tensor() for _ in range(tensor_count))
        data_bytes = sum(tensor.size_bytes for tensor in tensors)
        if data_bytes > self._left:
            raise self._error(f"its tensors need {data_bytes} bytes, but only {self._left} follow the header")
        return GgufHeader(metadata=metadata, tensors=tensors)

    def _array(self, *, depth: int) -> tuple[int, list[Any] | None]:
        """Read an array; return its length, and its values if they are few."""
        if depth > _DEEPEST_ARRAY:
            raise self._error(f"arrays are nested more than {_DEEPEST_ARRAY} deep")
        kind, length = self._number("I"), self._number("Q")
        least = struct.calcsize(_SCALARS[kind]) if kind in _SCALARS else 8
        if length * least > self._left:
            raise self._error(f"an array of {length} entries is longer than the file")
        if kind in _SCALARS and length > _LONGEST_KEPT_ARRAY:
            count = length * least
            self._stream.seek(count, 1)
            self._left -= count
            return length, None
        kept: list[Any] = []
        for _ in range(length):
            value = self._array(depth=depth + 1)[1] if kind == _ARRAY else self._value(kind)
            if length <= _LONGEST_KEPT_ARRAY:
                kept.append(value)
        return length, kept if length <= _LONGEST_KEPT_ARRAY else None

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind not in _SCALARS:
            raise self._error(f"a value has the unknown type {kind}")
        return self._number(_SCALARS[kind])

    def _tensor(self) -> StoredTensor:
        name, dims = self._text(longest=_LONGEST_NAME), self._number("I")
        if not 1 <= dims <= 4:
            raise self._error(f"tensor {name[:60]!r} has {dims} dimensions; 1 to 4 are possible")
        shape = tuple(self._number("Q") for _ in range(dims))
        kind, _offset = self._number("I"), self._number("Q")
        if kind not in _TYPES:
            raise self._error(f"tensor {name[:60]!r} has the unknown type {kind}")
        dtype, block, block_bytes = _TYPES[kind]
        if not all(0 < size < 1 << 40 for size in shape) or shape[0] % block:
            raise self._error(f"tensor {name[:60]!r} of type {dtype} cannot have the shape {shape}")
        return StoredTensor(name=name, dtype=dtype, shape=shape[::-1], size_bytes=prod(shape) // block * block_bytes)

    def _text(self, *, longest: int | None = None) -> str:
        length = self._number("Q")
        if length > self._left or (longest is not None and length > longest):
            raise self._error(f"a text of {length} bytes is longer than the file or than is allowed")
        return self._bytes(length).decode("utf-8", errors="replace")

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._bytes(struct.calcsize(code)))[0]

    def _bytes(self, count: int) -> bytes:
        found = self._stream.read(count) if count <= self._left else b""
        if len(found) < count:
            raise self._error("it ends inside its header")
        self._left -= count
        return found

    def _error(self, what: str) -> SpecError:
        return SpecError(f"{self._where}: not a sound GGUF file: {what}.")


_FAMILIES = {
    "llama": "llama", "qwen2": "qwen2", "qwen2moe": "qwen2_moe", "qwen3": "qwen3", "qwen3moe": "qwen3_moe",
    "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text", "phi2": "phi", "phi3": "phi3", "granite": "granite",
    "deepseek2": "deepseek_v3", "gpt-oss": "gpt_oss", "falcon": "falcon", "gptj": "gptj", "minimax-m2": "minimax_m2",
    "olmo2": "olmo2", "olmoe": "olmoe", "command-r": "cohere", "cohere2": "cohere2", "starcoder2": "starcoder2",
    "stablelm": "stablelm", "gptneox": "gpt_neox", "seed_oss": "seed_oss", "ernie4_5": "ernie4_5",
    "hunyuan-dense": "hunyuan_v1_dense", "exaone4": "exaone4", "glm4": "glm4", "glm4moe": "glm4_moe",
    "smollm3": "smollm3", "nemotron": "nemotron", "arcee": "arcee", "qwen3vl": "qwen3", "qwen3vlmoe": "qwen3_moe",
    "dots1": "dots1", "granitemoe": "granitemoe", "phimoe": "phimoe",
}  # fmt: skip
_SIZES = {
    "block_count": "num_hidden_layers", "embedding_length": "hidden_size", "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim", "attention.value_length": "v_head_dim",
    "feed_forward_length": "intermediate_size", "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_count": "n_shared_experts", "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace", "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank", "attention.kv_lora_rank": "kv_lora_rank",
    "attention.key_length_mla": "_query_dim", "attention.value_length_mla": "_latent_value_dim",
    "rope.dimension_count": "_rope_dim", "vocab_size": "vocab_size",
}  # fmt: skip


_FILE_TYPES = {
    0: "fp32", 1: "fp16", 2: "q4_0", 7: "q8_0", 8: "q5_0", 10: "q2_k", 11: "q3_k_s", 12: "q3_k_m", 14: "q4_k_s",
    15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 30: "iq4_xs", 32: "bf16", 38: "mxfp4",
}  # fmt: skip
"""llama.cpp's numbers of mixes (`llama_ftype`) as weight formats."""


def gguf_weights(header: GgufHeader) -> str | None:
    """Return the weight format that a GGUF file states, None if it is not one of those known here."""
    stated = header.metadata.get("general.file_type")
    return _FILE_TYPES.get(stated) if isinstance(stated, int) else None


def gguf_config(header: GgufHeader, *, where: str) -> dict[str, Any]:
    """Return the configuration that a GGUF header states, in Hugging Face's words.

    Raises:
        SpecError: The header names no architecture or per-layer sizes that differ.
        UnknownNameError: The architecture is not one whose layers are known here.
    """
    metadata = header.metadata
    family = metadata.get("general.architecture")
    if not isinstance(family, str):
        raise SpecError(f"{where}: the file has no general.architecture.")
    if family not in _FAMILIES:
        raise UnknownNameError(f"GGUF architecture in {where}:", family, _FAMILIES)
    config: dict[str, Any] = {}
    for key, name in _SIZES.items():
        value = metadata.get(f"{family}.{key}")
        if isinstance(value, list):
            if len(set(map(str, value))) != 1:
                raise SpecError(f"{where}: {family}.{key} differs from layer to layer, which is not covered here.")
            value = value[0]
        if value is not None:
            config[name] = value
    names = {tensor.name: tensor for tensor in header.tensors}
    config["model_type"] = "mixtral" if family == "llama" and config.get("num_experts") else _FAMILIES[family]
    config["tie_word_embeddings"] = "output.weight" not in names
    config.setdefault("vocab_size", metadata.get("tokenizer.ggml.tokens length"))
    if config.get("num_experts") and families()[config["model_type"]].plain_expert_width:
        config["num_local_experts"] = config.pop("num_experts")
        config["intermediate_size"] = config.get("moe_intermediate_size") or config.get("intermediate_size")
    if "kv_lora_rank" in config:
        # Derive the head widths of latent attention, which GGUF states for the compressed and for the rebuilt form.
        query, value, rope = (config.get(name) for name in ("_query_dim", "_latent_value_dim", "_rope_dim"))
        if not (isinstance(query, int) and isinstance(value, int) and isinstance(rope, int)):
            raise SpecError(f"{where}: key_length_mla and value_length_mla must state the widths of latent attention.")
        config["qk_rope_head_dim"], config["qk_nope_head_dim"], config["v_head_dim"] = rope, query - rope, value
        config["n_routed_experts"] = config.pop("num_experts", None)
        config.pop("head_dim", None)
    config["attention_bias"] = "blk.0.attn_q.bias" in names
    return {key: value for key, value in config.items() if value is not None and not key.startswith("_")}
