"""Fetch a model's configuration and the headers of its weight files over HTTP; never the weights themselves."""

import json
import os
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import quote

from capplan.errors import SpecError
from capplan.llm.read.safetensors import LARGEST_HEADER_BYTES, StoredTensor, parse_safetensors_header

ENDPOINT = "https://huggingface.co"
"""Where models are fetched from unless `HF_ENDPOINT` names another server."""
LARGEST_FILE_BYTES = 32_000_000
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
    config = _json(_get(f"{base}/config.json"), f"{base}/config.json")
    index = _get(f"{base}/model.safetensors.index.json", optional=True)
    files = ["model.safetensors"] if index is None else _files_of(_json(index, base), base)
    tensors = [tensor for file in files for tensor in _tensors(f"{base}/{quote(file)}")]
    return DownloadedModel(config=config, tensors=tuple(tensors), where=f"{endpoint}/{name}")


def _files_of(index: Mapping[str, Any], where: str) -> list[str]:
    mapping = index.get("weight_map")
    names = sorted(set(mapping.values())) if isinstance(mapping, dict) else []
    if not names or len(names) > _MOST_FILES or any("/" in name or ".." in name for name in names):
        raise SpecError(f"{where}: the index of weight files is not understood.")
    return names


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
        if error.code == 404:
            return b"", None
        raise _refused(url, error) from error
    except (OSError, ValueError) as error:
        raise _refused(url, error) from error
    if not size.isdigit() or len(content) < length:
        raise SpecError(f"{url}: the server does not serve parts of a file, and whole weights are not fetched.")
    return content, int(size)


def _get(url: str, *, optional: bool = False) -> bytes | None:
    try:
        with urllib.request.urlopen(_request(url), timeout=TIMEOUT_S) as response:
            content: bytes = response.read(LARGEST_FILE_BYTES + 1)
    except urllib.error.HTTPError as error:
        if optional and error.code == 404:
            return None
        raise _refused(url, error) from error
    except (OSError, ValueError) as error:
        raise _refused(url, error) from error
    if len(content) > LARGEST_FILE_BYTES:
        raise SpecError(f"{url}: more than {LARGEST_FILE_BYTES} bytes are not read.")
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


def _json(text: bytes | None, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text or b"")
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{where}: the answer is not valid JSON.") from error
    if not isinstance(found, dict):
        raise SpecError(f"{where}: the answer is not a JSON object.")
    return found
