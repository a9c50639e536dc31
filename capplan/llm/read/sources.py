"""Find a language model by what the user typed: a catalogue name, a file, a folder, or a name of the Hub."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from capplan.errors import SpecError
from capplan.files import is_dir, is_file, read_file
from capplan.hub.names import HubName, parse_hub_name
from capplan.hub.refusals import NotOnHubError, UnreachableError, with_nearest
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.yarn import split_factor, stretched
from capplan.llm.read.catalogue import catalogue_ids, find_in_catalogue, unknown_model
from capplan.llm.read.checkpoint import INDEX, PART, gguf_parts, indexed_files, model_of_config, model_of_gguf
from capplan.llm.read.config.traits import UnusualModelError
from capplan.llm.read.hub_models import model_of_hub
from capplan.llm.read.training_files import megatron_model
from capplan.llm.read.weight_headers import read_gguf_header, read_safetensors_header
from capplan.specs.foreign_files import SCRIPTS, read_foreign
from capplan.strict_json import JsonError, read_json

LARGEST_CONFIG_BYTES = 32_000_000


def find_model(name: str) -> LanguageModel:
    """Return the model that a name stands for.

    What lies on this machine comes first, then the built-in catalogue, then the Hugging Face Hub.

    Args:
        name: A name of the catalogue; the path of a GGUF file, a configuration, or a folder, after `hf:` or alone; or
            a name of the Hub, such as Qwen/Qwen3-8B, hf:ORG/NAME@revision or ORG/NAME:Q4_K_M. After `hf:` and with a
            revision the Hub comes before the catalogue. With +yarn4 behind it YaRN stretches its positions.

    Raises:
        CapplanError: There is no such model, or its file cannot be used.
    """
    word = name.removeprefix("hf:")
    path = Path(word)
    if is_dir(path) or is_file(path):
        return _from_path(path)
    if split := split_factor(name):
        model = find_model(split[0])
        return replace(model, architecture=stretched(model.architecture, split[1]))
    if path.suffix in (".json", ".gguf", ".safetensors"):
        raise SpecError(f"{word}: there is no such file.")
    on_hub = parse_hub_name(name)
    if on_hub is not None and (on_hub.is_marked or on_hub.revision is not None or on_hub.file):
        return _from_hub_first(on_hub)
    found = find_in_catalogue(word)
    if found is not None:
        return found if on_hub is None else replace(found, origin=f"built-in entry; hf:{word} asks the Hub instead")
    unknown = unknown_model(word)
    if on_hub is None or isinstance(unknown, UnusualModelError):
        raise unknown
    return _from_hub(on_hub)


def _from_hub(name: HubName) -> LanguageModel:
    try:
        return model_of_hub(name)
    except (NotOnHubError, UnreachableError) as error:
        raise with_nearest(error, name.repository.rpartition("/")[2], catalogue_ids()) from error


def _from_hub_first(name: HubName) -> LanguageModel:
    """Return a model of the Hub, or the catalogue's entry for the same repository where the Hub cannot be asked."""
    try:
        return _from_hub(name)
    except UnreachableError as error:
        found = None if name.revision is not None or name.file else find_in_catalogue(name.repository)
        if found is None or found.hf_id is None or found.hf_id.lower() != name.repository.lower():
            raise
        return replace(found, origin=f"built-in entry, because the Hub was not asked ({error})")


def _from_path(path: Path) -> LanguageModel:
    if path.is_dir():
        return _from_folder(path, name=path.resolve().name)
    if path.suffix == ".gguf":
        return _from_gguf(path)
    if path.suffix == ".safetensors":
        config = path.with_name("config.json")
        if not config.is_file():
            raise SpecError(f"{path}: its folder has no config.json, which states the model's layers.")
        if PART.search(path.name):
            return _from_folder(path.parent, name=path.resolve().parent.name)
        tensors = read_safetensors_header(path)
        return model_of_config(_read_json(config), name=path.stem, where=str(path), tensors=tensors)
    if path.suffix.lower() in SCRIPTS:
        config_of_script = megatron_model(read_foreign(path))
        if not config_of_script:
            raise SpecError(f"{path}: its commands have no Megatron arguments that describe a whole model.")
        return model_of_config(config_of_script, name=path.stem, where=str(path), tensors=())
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return model_of_config(_read_json(path), name=name, where=str(path), tensors=())


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
    model = model_of_config(_read_json(config), name=name, where=str(folder), tensors=tensors)
    return replace(model, missing_files=missing)


def _weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder, those that its index names if it has one."""
    index = folder / INDEX
    if index.is_file():
        return [folder / name for name in indexed_files(_read_json(index), where=str(index))]
    return sorted(folder.glob("*.safetensors"))


def _from_gguf(path: Path) -> LanguageModel:
    parts = [path.with_name(name) for name in gguf_parts(path.name)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise SpecError(f"{path}: its other parts must lie in the same folder; {missing[0]} is missing.")
    return model_of_gguf([read_gguf_header(part) for part in parts], name=PART.sub("", path.stem), where=str(path))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_CONFIG_BYTES:
            raise SpecError(f"{path}: a configuration of more than {LARGEST_CONFIG_BYTES} bytes is not read.")
        # The object that JSON text holds.
        where = str(path)
        try:
            found = read_json(read_file(path, at_most=LARGEST_CONFIG_BYTES), allow_infinite=True)
        except JsonError as error:
            raise SpecError(f"{where} {error}.") from error
        if not isinstance(found, dict):
            raise SpecError(f"{where}: a configuration must be a JSON object.")
        return found
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}.") from error
