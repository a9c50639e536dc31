"""Language models of the Hugging Face Hub: by their configuration and the headers of their weight files."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import PurePosixPath

from capplan.errors import UsageError
from capplan.hub.names import HubName
from capplan.hub.refusals import UnreachableError
from capplan.hub.repository import HubRepository, base_of_adapter, find_repository
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.read.checkpoint import INDEX, PART, gguf_parts, indexed_files, model_of_config, model_of_gguf
from capplan.llm.read.weight_headers import (
    GgufHeader,
    StoredTensor,
    parse_gguf_header,
    parse_safetensors_header,
    read_gguf_header,
    read_safetensors_header,
)

_AT_ONCE = 8
"""Weight files whose headers are fetched at a time: large models have more than a hundred."""
_USUAL_FORMAT = "Q4_K_M"
"""The GGUF file that llama.cpp takes of a repository where no format is named (common/download.cpp, 2026-11)."""
_MOST_SHOWN = 12


def model_of_hub(name: HubName) -> LanguageModel:
    """Return a model of the Hub.

    Raises:
        HubError: the Hub does not have it, does not give it, or cannot be asked.
        UsageError: the repository does not hold a language model that is known here.
    """
    repository = find_repository(name)
    files = repository.files
    if name.file or ("config.json" not in files and any(map(_is_gguf, files))):
        chosen = _gguf_file(repository, name.file)
        headers = [_gguf_header(repository, file) for file in gguf_parts(chosen)]
        stem = PART.sub("", PurePosixPath(chosen).stem)
        model = model_of_gguf(headers, name=f"{_name(repository)}:{stem}", where=f"{chosen} of {repository.origin}")
    elif "config.json" in files:
        model = _config_model(repository)
    elif "adapter_config.json" in files:
        return _adapted_model(repository)
    else:
        what = (
            "is a pipeline of diffusers: `capplan plan` takes it"
            if "model_index.json" in files
            else "has no config.json"
        )
        raise UsageError(f"{repository.id} {what}.")
    notes = [repository.origin, *repository.notes, *([model.origin] if model.origin else [])]
    return replace(model, hf_id=repository.id, origin="; ".join(notes))


def _name(repository: HubRepository) -> str:
    return f"{repository.id}@{repository.commit[:7]}"


def _config_model(repository: HubRepository) -> LanguageModel:
    config = repository.json("config.json")
    if "model_type" not in config and ("architecture" in config or repository.library == "timm"):
        raise UsageError(f"{repository.id} is a model of timm: `capplan plan {repository.name}` takes it.")
    files = _weight_files(repository)
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            tensors = [tensor for read in pool.map(lambda file: _tensors(repository, file), files) for tensor in read]
    except UnreachableError as error:  # the configuration was fetched earlier, and the headers were not
        model = model_of_config(config, name=_name(repository), where=repository.origin, tensors=())
        return replace(model, origin=f"sizes follow from the configuration, because no headers were read ({error})")
    return model_of_config(config, name=_name(repository), where=repository.origin, tensors=tensors)


def _weight_files(repository: HubRepository) -> list[str]:
    """Return the safetensors files that hold the model; none where the repository has other formats alone."""
    if INDEX in repository.files:
        where = f"{repository.id}: {INDEX}"
        return [file for file in indexed_files(repository.json(INDEX), where=where) if file in repository.files]
    return [file for file in ("model.safetensors",) if file in repository.files]


def _tensors(repository: HubRepository, file: str) -> tuple[StoredTensor, ...]:
    head, where = repository.head(file), f"{repository.id}: {file}"
    if head.local is not None:
        return read_safetensors_header(head.local)
    found = parse_safetensors_header(head, file_bytes=head.size_bytes, where=where)
    head.keep()
    return found


def _gguf_header(repository: HubRepository, file: str) -> GgufHeader:
    head = repository.head(file)
    if head.local is not None:
        return read_gguf_header(head.local)
    found = parse_gguf_header(head, file_bytes=head.size_bytes, where=f"{repository.id}: {file}")
    head.keep()
    return found


def _is_gguf(file: str) -> bool:
    """Return True for the GGUF file of a model, the first one of several parts; those of image encoders are not."""
    part = PART.search(file)
    is_first = part is None or int(part[1]) == 1
    return file.lower().endswith(".gguf") and is_first and "mmproj" not in PurePosixPath(file).name.lower()


def _gguf_file(repository: HubRepository, wanted: str) -> str:
    """Return the GGUF file of a number format, or of a name; the usual format's where none is stated."""
    found = sorted(filter(_is_gguf, repository.files), key=lambda file: (len(file), file))
    if wanted.lower().endswith(".gguf"):
        named = [file for file in found if wanted in (file, PurePosixPath(file).name)]
    else:
        format_ = re.compile(rf"(^|[-._/]){re.escape(wanted or _USUAL_FORMAT)}($|[-._/])", re.IGNORECASE)
        named = [file for file in found if format_.search(file[: -len(".gguf")])]
    if named:
        return named[0]
    if len(found) == 1 and not wanted:
        return found[0]
    if not found:
        raise UsageError(f"{repository.id} has no GGUF file.")
    shown = ", ".join(PurePosixPath(file).name for file in found[:_MOST_SHOWN])
    what = f"no GGUF file {wanted}" if wanted else f"several GGUF files, and none in {_USUAL_FORMAT}"
    raise UsageError(f"{repository.id} has {what}; name one of {shown} after a colon, or its number format.")


def _adapted_model(repository: HubRepository) -> LanguageModel:
    """Return the model that an adapter is for, which is served beside it."""
    config = repository.json("adapter_config.json")
    base = base_of_adapter(config, repository)
    if "adapter_config.json" in find_repository(base).files and "config.json" not in find_repository(base).files:
        raise UsageError(f"{repository.id} is an adapter of {base}, which is an adapter itself.")
    model, rank = model_of_hub(base), config.get("r")
    origin = f"{repository.origin}, an adapter of {model.origin}"
    return replace(model, origin=origin, adapter_rank=rank if isinstance(rank, int) and rank > 0 else None)
