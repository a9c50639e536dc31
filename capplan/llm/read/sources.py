"""Find a language model by what the user typed: a catalogue name, a file, a folder, or a name in the local cache."""

import os
import re
import struct
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from capplan.core.weights import find_weight_format
from capplan.errors import SpecError
from capplan.files import is_dir, is_file, read_file
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import default_quantisation
from capplan.llm.read.catalogue import find_in_catalogue, unknown_model
from capplan.llm.read.config.parse import parse_config
from capplan.llm.read.config.quantisation import declares_fp8_cache, parse_quantisation, stored_dtype
from capplan.llm.read.weight_headers import (
    LARGEST_HEADER_BYTES,
    StoredTensor,
    gguf_config,
    gguf_weights,
    parse_safetensors_header,
    read_gguf_header,
    read_safetensors_header,
)
from capplan.strict_json import JsonError, read_json

LARGEST_CONFIG_BYTES = 32_000_000
_LAYER = re.compile(r"(?:^|\.)(?:layers|blk|h|blocks)\.(\d+)\.")
_PART = re.compile(r"-(\d{5})-of-(\d{5})")
_DRAFT = re.compile(r"(?:^|\.)(?:mtp|nextn|eagle)\b|(?:^|\.)mtp_")


def find_model(name: str, *, download: bool = False) -> LanguageModel:
    """Return the model that a name stands for.

    Args:
        name: A name of the catalogue; `hf:` with a configuration file, a folder, or org/name in the local cache;
            or the path of a GGUF file, a configuration, or a folder.
        download: Fetch the configuration and the headers of an org/name that is not in the cache.

    Raises:
        CapplanError: There is no such model, or its file cannot be used.
    """
    word = name.removeprefix("hf:")
    path = Path(word)
    if is_dir(path) or is_file(path):
        return _from_path(path)
    if path.suffix in (".json", ".gguf", ".safetensors"):
        raise SpecError(f"{word}: there is no such file.")
    if name.startswith("hf:"):
        return _from_hub(word, download=download)
    found = find_in_catalogue(word)
    if found is None:
        raise unknown_model(word)
    return found


def _from_hub(name: str, *, download: bool) -> LanguageModel:
    snapshot = _cached_snapshot(name)
    if snapshot is not None:
        return _from_folder(snapshot, name=name)
    if download:
        files = download_model(name)
        return _from_config(files.config, name=name, where=files.where, tensors=files.tensors)
    found = find_in_catalogue(name)
    if found is not None and found.hf_id is not None and found.hf_id.lower() == name.lower():
        return found
    raise SpecError(
        f"hf:{name} is not in the local Hugging Face cache ({_hub_folder()}); ⟨download⟩ fetches its configuration "
        "and headers alone, and `capplan llm models` lists what is built in."
    )


def _hub_folder() -> Path:
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "huggingface") / "hub"


def _cached_snapshot(name: str) -> Path | None:
    """Return the newest snapshot of a model in the local cache that has a configuration."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or ".." in name:
        return None
    folder = _hub_folder() / f"models--{name.replace('/', '--')}" / "snapshots"
    snapshots = (config.parent for config in folder.glob("*/config.json") if config.is_file())
    return max(snapshots, key=lambda snapshot: snapshot.stat().st_mtime, default=None)


def _from_path(path: Path) -> LanguageModel:
    if path.is_dir():
        return _from_folder(path, name=path.resolve().name)
    if path.suffix == ".gguf":
        return _from_gguf(path)
    if path.suffix == ".safetensors":
        config = path.with_name("config.json")
        if not config.is_file():
            raise SpecError(f"{path}: its folder has no config.json, which states the model's layers.")
        if _PART.search(path.name):
            return _from_folder(path.parent, name=path.resolve().parent.name)
        tensors = read_safetensors_header(path)
        return _from_config(_read_json(config), name=path.stem, where=str(path), tensors=tensors)
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return _from_config(_read_json(path), name=name, where=str(path), tensors=())


def _from_folder(folder: Path, *, name: str) -> LanguageModel:
    config = folder / "config.json"
    if not config.is_file():
        whole = [file for file in sorted(folder.glob("*.gguf")) if "-of-" not in file.stem or "-00001-of" in file.stem]
        if len(whole) == 1:
            return _from_gguf(whole[0])
        raise SpecError(f"{folder}: the folder has neither a config.json nor one GGUF file.")
    files = _weight_files(folder)
    missing = sum(not file.is_file() for file in files)
    tensors = [] if missing else [tensor for file in files for tensor in read_safetensors_header(file)]
    model = _from_config(_read_json(config), name=name, where=str(folder), tensors=tensors)
    return replace(model, missing_files=missing)


def _weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder, those that its index names if it has one."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return [folder / name for name in _indexed_files(_read_json(index), where=str(index))]
    return sorted(folder.glob("*.safetensors"))


def _indexed_files(index: Mapping[str, Any], *, where: str) -> list[str]:
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


def _from_gguf(path: Path) -> LanguageModel:
    headers = [read_gguf_header(part) for part in _gguf_parts(path)]
    tensors = [tensor for header in headers for tensor in header.tensors]
    config = gguf_config(replace(headers[0], tensors=tuple(tensors)), where=str(path))
    model = _from_config(config, name=_PART.sub("", path.stem), where=str(path), tensors=tensors)
    weights = gguf_weights(headers[0])
    if weights is None:
        return model
    return replace(model, quantisation=default_quantisation(model.architecture, find_weight_format(weights)))


def _gguf_parts(path: Path) -> list[Path]:
    """Return all parts of a GGUF file that was split; the first one holds the metadata."""
    part = _PART.search(path.stem)
    if part is None:
        return [path]
    count, stem = int(part[2]), path.stem[: part.start()]
    parts = [path.with_name(f"{stem}-{index:05d}-of-{count:05d}.gguf") for index in range(1, min(count, 1000) + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise SpecError(f"{path}: its other parts must lie in the same folder; {missing[0]} is missing.")
    return parts


def _from_config(config: Mapping[str, Any], *, name: str, where: str, tensors: Iterable[StoredTensor]) -> LanguageModel:
    architecture = parse_config(config, name=name, where=where)
    served = [tensor for tensor in tensors if _is_served(tensor.name, len(architecture.layers))]
    return LanguageModel(
        architecture=architecture,
        dtype=stored_dtype(config),
        quantisation=parse_quantisation(config, architecture, where=where),
        source=where,
        declares_fp8_cache=declares_fp8_cache(config),
        exact_bytes=sum(tensor.size_bytes for tensor in served) or None,
        check="bytes of every tensor from the file's header" if served else None,
    )


def _is_served(name: str, layer_count: int) -> bool:
    """Return True unless a tensor belongs to a layer for multi-token prediction, which engines leave out."""
    layer = _LAYER.search(name)
    return not _DRAFT.search(name) and (layer is None or int(layer.group(1)) < layer_count)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_CONFIG_BYTES:
            raise SpecError(f"{path}: a configuration of more than {LARGEST_CONFIG_BYTES} bytes is not read.")
        return parse_json_object(read_file(path, at_most=LARGEST_CONFIG_BYTES), where=str(path))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}.") from error


def parse_json_object(text: bytes, *, where: str) -> dict[str, Any]:
    """Return the object that JSON text holds.

    Args:
        text: The text.
        where: What error messages call it.

    Raises:
        SpecError: It is not JSON, not an object, or nested too deeply.
    """
    try:
        found = read_json(text, allow_infinite=True)
    except JsonError as error:
        raise SpecError(f"{where} {error}.") from error
    if not isinstance(found, dict):
        raise SpecError(f"{where}: a configuration must be a JSON object.")
    return found


ENDPOINT = "https://huggingface.co"
"""Where models are fetched from unless `HF_ENDPOINT` names another server."""
TIMEOUT_S = 20.0
_MOST_FILES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadedModel:
    """What was fetched: the configuration and every tensor of the weight files, without data."""

    config: Mapping[str, Any]
    tensors: tuple[StoredTensor, ...]
    where: str


def download_model(name: str) -> DownloadedModel:
    """Fetch the configuration and the headers of a model's safetensors files.

    `HF_TOKEN` is sent along where it is set.

    Args:
        name: The model, as org/name.

    Raises:
        SpecError: The server cannot be reached, does not have the model, or sends what is not understood.
    """
    endpoint = os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")
    base = f"{endpoint}/{quote(name)}/resolve/main"
    address, listed = f"{base}/config.json", f"{base}/model.safetensors.index.json"
    config = parse_json_object(_get(address) or b"", where=address)
    index = _get(listed, optional=True)
    files = (
        ["model.safetensors"] if index is None else _indexed_files(parse_json_object(index, where=listed), where=listed)
    )
    tensors = [tensor for file in files for tensor in _tensors(f"{base}/{quote(file)}")]
    return DownloadedModel(config=config, tensors=tuple(tensors), where=f"{endpoint}/{name}")


def _tensors(url: str) -> tuple[StoredTensor, ...]:
    """Fetch the header of one safetensors file by two range requests."""
    first, size = _range(url, 0, 8)
    if size is None:
        return ()
    (length,) = struct.unpack("<Q", first)
    if not 2 <= length <= min(LARGEST_HEADER_BYTES, size - 8):
        raise SpecError(f"{url}: a header of {length} bytes is impossible in a file of {size} bytes.")
    header, _ = _range(url, 8, int(length))
    return parse_safetensors_header(BytesIO(first + header), file_bytes=size, where=url)


def _range(url: str, start: int, length: int) -> tuple[bytes, int | None]:
    """Return a stretch of a file and the file's size, None if the server does not have the file."""
    request = _request(url)
    request.add_header("Range", f"bytes={start}-{start + length - 1}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            stated = response.headers.get("Content-Range", "")
            size = stated.rpartition("/")[2] if response.status == 206 else ""
            content: bytes = response.read(length)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return b"", None
            raise _refused(url, error) from error
    except (OSError, ValueError, HTTPException) as error:
        raise _refused(url, error) from error
    if not size.isdigit() or len(content) < length:
        raise SpecError(f"{url}: the server does not serve parts of a file, and whole weights are not fetched.")
    return content, int(size)


def _get(url: str, *, optional: bool = False) -> bytes | None:
    try:
        with urllib.request.urlopen(_request(url), timeout=TIMEOUT_S) as response:
            content: bytes = response.read(LARGEST_CONFIG_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            if optional and error.code == 404:
                return None
            raise _refused(url, error) from error
    except (OSError, ValueError, HTTPException) as error:
        raise _refused(url, error) from error
    if len(content) > LARGEST_CONFIG_BYTES:
        raise SpecError(f"{url}: more than {LARGEST_CONFIG_BYTES} bytes are not read.")
    return content


def _request(url: str) -> urllib.request.Request:
    if not url.startswith(("https://", "http://")):
        raise SpecError(f"{url}: only http and https addresses are fetched; mend HF_ENDPOINT.")
    request = urllib.request.Request(url)
    token = os.environ.get("HF_TOKEN")
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return request


def _refused(url: str, error: Exception) -> SpecError:
    code = getattr(error, "code", None)
    reason = {401: "a token is needed (HF_TOKEN)", 403: "access is not granted (HF_TOKEN)", 404: "not found"}.get(
        code or 0, str(getattr(error, "reason", error))
    )
    return SpecError(f"{url}: cannot be fetched: {reason}.")
