"""Turn names of the Hugging Face Hub into words that name the same model at one commit, before anything is built.

A transformers model becomes `hf:ORG/NAME@COMMIT`, a timm model `timm:ARCHITECTURE` with its arguments, an adapter the
model that it is for. Only JSON files are read; no code of a repository runs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from capplan.errors import UsageError
from capplan.hub.names import HubName, parse_hub_name
from capplan.hub.refusals import HubError, NotOnHubError, with_nearest
from capplan.hub.repository import HubRepository, base_of_adapter, find_repository
from capplan.probe.diffusers_index import published_name
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.target.names import ZOOS, served_hint, source_names

INDEX = "model_index.json"
"""The file of a repository that makes it a pipeline of diffusers."""
_ADAPTER = "adapter_config.json"
_MODULES = "modules.json"
"""The file of sentence-transformers that lists what follows one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """A model by words that need no network, and sentences on where it was found."""

    request: ModelRequest
    notes: tuple[str, ...] = ()


def find_on_hub(request: ModelRequest) -> HubModel:
    """Return the model that a name of the Hub stands for; any other as it is."""
    name = parse_hub_name(request.words)
    if name is None:
        return HubModel(request=request)
    if (known := _known_to_timm(name)) is not None:
        note = f"{name.repository} is known to the installed timm, so that the Hub was not asked."
        return HubModel(request=replace(request, words=f"timm:{known}"), notes=(note,))
    if name.file:
        raise UsageError(
            f"{name} holds quantised weights for llama.cpp: `capplan llm memory {name}` and `capplan llm plan {name}` "
            "take it."
        )
    return _of_repository(found_repository(name), request)


def found_repository(name: HubName) -> HubRepository:
    """Return the repository of a name; a refusal names what is built in: the served language model, or the nearest."""
    try:
        return find_repository(name)
    except NotOnHubError as error:
        known = {model for library in ZOOS for model in source_names(library)}
        raise with_nearest(error, name.repository.rpartition("/")[2], known) from error
    except HubError as error:
        if not (served := served_hint(name.repository)):
            raise
        raise type(error)(f"{error} {served}") from error


def is_pipeline(words: str) -> bool:
    """Return True if words are the name of a pipeline of diffusers that was published."""
    name = parse_hub_name(words)
    if name is None or name.file or _known_to_timm(name) is not None:
        return False
    return published_name(name.repository) is not None or INDEX in found_repository(name).files


def _known_to_timm(name: HubName) -> str | None:
    """Return what the installed timm calls a model of its own organisation; None where a revision or file is asked."""
    owner, _, model = name.repository.partition("/")
    plain = name.revision is None and not name.file
    return model if plain and owner == "timm" and model.partition(".")[0] in source_names("timm") else None


def _of_repository(repository: HubRepository, request: ModelRequest) -> HubModel:
    files, notes = repository.files, (f"configuration of {repository.origin}; no weights were read.", *repository.notes)
    if _ADAPTER in files and "config.json" not in files:
        adapter = repository.json(_ADAPTER)
        base = found_repository(base_of_adapter(adapter, repository))
        if _ADAPTER in base.files and "config.json" not in base.files:
            raise UsageError(f"{repository.id} is an adapter of {base.id}, which is an adapter itself.")
        found = _of_repository(base, request)
        return replace(found, notes=(*found.notes, _adapter_note(repository, adapter)))
    if "config.json" in files:
        config = repository.json("config.json")
        if "model_type" not in config and isinstance(config.get("architecture"), str):
            return HubModel(request=_of_timm(config, request), notes=notes)
        if isinstance(config.get("auto_map"), dict):
            notes = (*notes, f"{repository.id} brings code of its own (auto_map), which is never run.")
    elif config_place(repository) is None:
        raise UsageError(f"{repository.id} {_what_else(repository)}.")
    if _MODULES in files:
        kinds = [str(module.get("type", "")).rpartition(".")[2] for module in _modules(repository)]
        others = ", ".join(kind for kind in kinds[1:] if kind) or "nothing"
        notes += (f"sentence-transformers: this is its transformer; {others} follows it and is not counted.",)
    return HubModel(request=replace(request, words=f"hf:{repository.words}"), notes=notes)


def config_place(repository: HubRepository) -> str | None:
    """Return the name of the configuration of a repository's transformers model; None where it has none."""
    places = ["config.json"]
    if _MODULES in repository.files:
        places += [f"{module['path']}/config.json" for module in _modules(repository) if module.get("path")]
    return next((place for place in places if place in repository.files), None)


def _what_else(repository: HubRepository) -> str:
    """Describe a repository that holds no model for PyTorch that its files describe."""
    if any(file.lower().endswith(".gguf") for file in repository.files):
        return f"holds GGUF files for llama.cpp: `capplan llm memory {repository.id}` reads one"
    if INDEX in repository.files:
        return f"is a pipeline of diffusers: `capplan plan {repository.id}` takes it, and this question takes a model"
    return "has no config.json, so that nothing says which model it holds"


_TIMM_FACTS = ("num_classes", "global_pool")
"""What timm's config.json states beside the architecture, and its constructor takes."""


def _of_timm(config: Mapping[str, Any], request: ModelRequest) -> ModelRequest:
    """Return the architecture that timm's config.json names, with its arguments and the size of its images."""
    pretrained = config.get("pretrained_cfg")
    facts = {name: config[name] for name in _TIMM_FACTS if isinstance(config.get(name), int | str)}
    if isinstance(config.get("model_args"), dict):
        facts |= config["model_args"]
    stated = {name for name, _ in (argument.split("=", 1) for argument in request.arg if "=" in argument)}
    arguments = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in facts.items()
        if name not in stated
    ]
    size = pretrained.get("input_size") if isinstance(pretrained, dict) else None
    is_size = isinstance(size, list) and all(isinstance(dim, int) and dim > 0 for dim in size)
    asked = request.input_size is not None or request.inputs or request.inputs_from is not None
    return replace(
        request,
        words=f"timm:{config['architecture']}",
        arg=(*request.arg, *arguments),
        input_size="x".join(map(str, size)) if is_size and size and not asked else request.input_size,
    )


def _adapter_note(repository: HubRepository, adapter: Mapping[str, Any]) -> str:
    rank, targets = adapter.get("r"), adapter.get("target_modules")
    where = f" beside {', '.join(map(str, targets[:8]))}" if isinstance(targets, list) and targets else ""
    return (
        f"{repository.origin} is an adapter of rank {rank}{where}; this is its model, into which it is merged without "
        f"cost: ⟨prepare⟩ lora={rank} keeps adapters beside the linear layers."
    )


def _modules(repository: HubRepository) -> list[dict[str, Any]]:
    listed = repository.json_list(_MODULES)
    return [module for module in listed if isinstance(module, dict)]
