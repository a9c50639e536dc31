"""Make a language model of what its checkpoint states: a configuration, and the headers of its weight files."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from capplan.core.weights import find_weight_format
from capplan.errors import SpecError
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import default_quantisation
from capplan.llm.read.config.parse import parse_config
from capplan.llm.read.config.quantisation import declares_fp8_cache, parse_quantisation, stored_dtype
from capplan.llm.read.weight_headers import GgufHeader, StoredTensor, gguf_config, gguf_weights

INDEX = "model.safetensors.index.json"
"""The file that says which weight file holds which tensor, where there are several."""
PART = re.compile(r"-(\d{5})-of-(\d{5})")
"""What stands in the name of one of several weight files."""
_LAYER = re.compile(r"(?:^|\.)(?:layers|blk|h|blocks)\.([0-9]{1,9})\.")
_DRAFT = re.compile(r"(?:^|\.)(?:mtp|nextn|eagle)\b|(?:^|\.)mtp_")
_MOST_FILES = 1000


def model_of_config(
    config: Mapping[str, Any], *, name: str, where: str, tensors: Iterable[StoredTensor]
) -> LanguageModel:
    """Return the model that a configuration describes, with the bytes of its tensors where headers were read."""
    architecture = parse_config(config, name=name, where=where)
    served = [tensor for tensor in tensors if _is_served(tensor.name, len(architecture.layers))]
    stored: Counter[str] = Counter()
    for tensor in served:
        stored[tensor.dtype] += tensor.size_bytes
    return LanguageModel(
        architecture=architecture,
        dtype=stored_dtype(config),
        quantisation=parse_quantisation(config, architecture, where=where),
        source=where,
        declares_fp8_cache=declares_fp8_cache(config),
        exact_bytes=stored.total() or None,
        stored_bytes=dict(stored.most_common()),
        check="bytes of every tensor from the file's header" if served else None,
    )


def model_of_gguf(headers: Sequence[GgufHeader], *, name: str, where: str) -> LanguageModel:
    """Return the model of a GGUF file by the headers of its parts; the first one holds the metadata."""
    tensors = [tensor for header in headers for tensor in header.tensors]
    config = gguf_config(replace(headers[0], tensors=tuple(tensors)), where=where)
    model = model_of_config(config, name=name, where=where, tensors=tensors)
    weights = gguf_weights(headers[0])
    if weights is None:
        return model
    return replace(model, quantisation=default_quantisation(model.architecture, find_weight_format(weights)))


def gguf_parts(name: str) -> list[str]:
    """Return the names of all parts of a GGUF file that was split, in order; the name itself where it was not."""
    part = PART.search(name)
    if part is None:
        return [name]
    count = min(int(part[2]), _MOST_FILES)
    return [f"{name[: part.start()]}-{index:05d}-of-{part[2]}{name[part.end() :]}" for index in range(1, count + 1)]


def indexed_files(index: Mapping[str, Any], *, where: str) -> list[str]:
    """Return the names of the weight files that an index lists, all in one folder."""
    mapping = index.get("weight_map")
    if not isinstance(mapping, dict) or not mapping or not all(isinstance(file, str) for file in mapping.values()):
        raise SpecError(f"{where}: it has no weight_map of tensors to files.")
    names = sorted(set(mapping.values()))
    if any(name in ("", "..") or Path(name).name != name for name in names):
        raise SpecError(f"{where}: weight_map names files outside the folder.")
    if len(names) > _MOST_FILES:
        raise SpecError(f"{where}: weight_map names {len(names):,} files; at most {_MOST_FILES:,} are read.")
    return names


def _is_served(name: str, layer_count: int) -> bool:
    """Return True unless a tensor belongs to a layer for multi-token prediction, which engines leave out."""
    layer = _LAYER.search(name)
    return not _DRAFT.search(name) and (layer is None or int(layer.group(1)) < layer_count)
