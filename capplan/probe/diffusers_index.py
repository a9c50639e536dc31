"""Read which components a diffusers pipeline has: of the published ones that capplan knows, of a local folder,
or of a repository of the Hub.

No weights are fetched and no code of a model runs: configurations are JSON.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from capplan.errors import UnknownNameError, UsageError
from capplan.files import is_file, read_file
from capplan.hub.names import parse_hub_name
from capplan.hub.refusals import NotOnHubError, UnreachableError, with_nearest
from capplan.hub.repository import HubRepository, find_repository
from capplan.strict_json import LARGEST_TEXT_BYTES, JsonError, read_json

PREFIX = "diffusers:"
_CATALOGUE = Path(__file__).with_name("diffusers_catalogue.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusersIndex:
    """A pipeline's components by name, each with its configuration.

    Attributes:
        name: the words after `diffusers:`.
        components: configurations by the component's name; diffusers' have `_class_name`, transformers' `model_type`.
        parameters: height, width, frames and steps that the pipeline runs with by default.
        text_tokens: how long prompts are padded to, by text encoder; empty where the folder does not say.
        options: what the index states beside components, such as `expand_timesteps`.
        guidance: "together" (both passes of a step as one batch), "apart" or "distilled" (one pass); None if unknown.
    """

    name: str
    pipeline: str
    components: Mapping[str, Mapping[str, Any]]
    parameters: Mapping[str, int]
    text_tokens: Mapping[str, int]
    guidance: str | None
    options: Mapping[str, Any]

    @property
    def denoiser(self) -> str:
        """Return the name of the component that runs at every step."""
        for name in ("transformer", "unet"):
            if name in self.components:
                return name
        raise UsageError(f"{PREFIX}{self.name} has neither a transformer nor a unet, so that no denoiser is known.")


@cache
def _catalogue() -> Mapping[str, Any]:
    content: Mapping[str, Any] = read_json(_CATALOGUE.read_bytes())
    return content


def published_name(name: str) -> str | None:
    """Return the one published name that words stand for, whole or without the publisher and regard to case."""
    models = _catalogue()["models"]
    alike = [model for model in models if name.casefold() in (model.casefold(), model.rpartition("/")[2].casefold())]
    return name if name in models else alike[0] if len(alike) == 1 else None


def published_component(words: str) -> bool:
    """Return True if words name a component of a published pipeline, such as NAME/transformer or NAME/vae.decode."""
    owner, _, component = words.rpartition("/")
    name = published_name(owner)
    return name is not None and component.partition(".")[0] in _catalogue()["models"][name]["components"]


def is_known(name: str) -> bool:
    """Return True if a name is that of a published pipeline, of a folder that holds one, or of the Hub."""
    on_machine = published_name(name) is not None or is_file(Path(name) / "model_index.json")
    return on_machine or parse_hub_name(name) is not None


def find_index(name: str) -> DiffusersIndex:
    """Return a pipeline's components."""
    models = _catalogue()["models"]
    known = published_name(name)
    if known is not None:
        entry = models[known]
        shared = _catalogue()["components"]
        components = {
            component: shared[config]["config"] if isinstance(config, str) else config
            for component, config in entry["components"].items()
        }
        return DiffusersIndex(
            name=known,
            pipeline=entry["pipeline"],
            components=components,
            parameters=entry["parameters"],
            text_tokens=entry["text_tokens"],
            guidance=entry["guidance"],
            options=entry.get("options", {}),
        )
    folder = Path(name)
    if is_file(folder / "model_index.json"):
        index = _read(folder / "model_index.json")
        places = {name: folder / name / "config.json" for name in _components(index)}
        configs = {name: _read(path) for name, path in places.items() if is_file(path)}
        return _of_configs(str(folder), index, configs)
    if (on_hub := parse_hub_name(name)) is not None:
        try:
            return _of_repository(find_repository(on_hub))
        except (NotOnHubError, UnreachableError) as error:
            raise with_nearest(error, on_hub.repository, models) from error
    hint = "For another one, name its repository as ORG/NAME, or a folder with its model_index.json."
    raise UnknownNameError("diffusers pipeline", name, models, hint=hint)


def _of_repository(repository: HubRepository) -> DiffusersIndex:
    """Read the same files of a repository of the Hub."""
    index = repository.json("model_index.json")
    places = {name: f"{name}/config.json" for name in _components(index)}
    configs = {name: repository.json(place) for name, place in places.items() if place in repository.files}
    return _of_configs(repository.words, index, configs)


def _components(index: Mapping[str, Any]) -> Iterator[str]:
    """Yield the components that may be models; others are flags, or left out by the pipeline."""
    for component, what in index.items():
        if isinstance(what, list) and len(what) == 2 and what[0] in ("diffusers", "transformers"):
            yield component


def _of_configs(name: str, index: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]]) -> DiffusersIndex:
    if not configs:
        raise UsageError(f"{name}/model_index.json names no component whose config.json is beside it.")
    return DiffusersIndex(
        name=name,
        pipeline=str(index.get("_class_name", "")),
        components=configs,
        parameters={},
        text_tokens={},
        guidance=None,
        options=index,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_json(read_file(path, at_most=LARGEST_TEXT_BYTES))
    except (OSError, JsonError) as error:
        raise UsageError(f"{path} {error}.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a JSON object.")
    return content


def find_component(words: str) -> tuple[Mapping[str, Any], str | None, str]:
    """Return the component that the words after `diffusers:` name: `NAME/transformer`, `FOLDER/vae.decode`, a class.

    Returns:
        The configuration, empty where a class is named; the class of diffusers, None for a component of transformers;
        what is called in the place of forward, such as decode, empty for forward.
    """
    owner, _, component = words.rpartition("/")
    named, _, method = component.partition(".")
    if not owner:
        return {}, named, method
    index = find_index(owner)
    if named not in index.components:
        raise UnknownNameError(f"component of {PREFIX}{index.name}", named, index.components)
    config = index.components[named]
    class_name = config.get("_class_name")
    return config, None if class_name is None else str(class_name), method
