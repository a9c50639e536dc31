"""transformers: architectures from a config, never from a checkpoint."""

import contextlib
import inspect
import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from capplan.core.quantisation.checkpoints import checkpoint_scheme
from capplan.errors import TraceError, UnknownNameError, UsageError, nearest_names
from capplan.files import exists, is_file, read_file
from capplan.hub.names import parse_hub_name
from capplan.probe.foreign.code import model_code
from capplan.probe.foreign.libraries import import_library, import_torchvision
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.inputs.tensors import asked_inputs
from capplan.probe.target.hub_names import config_place, found_repository
from capplan.probe.target.types import Target, full_words, source_sha256, versions_of
from capplan.probe.transformers.architectures import completed
from capplan.probe.transformers.forward import transformers_inputs
from capplan.strict_json import LARGEST_TEXT_BYTES, JsonError, read_json


def import_transformers() -> ModuleType:
    """Import transformers, which imports torchvision where it is installed."""
    with contextlib.suppress(UsageError):  # its text models do without
        import_torchvision()
    return import_library("transformers")


def unknown_architecture(model_type: str) -> UnknownNameError:
    """Return the refusal of an architecture that transformers does not know; names of checkpoints get a way out."""
    from transformers import CONFIG_MAPPING

    family = model_type.split("-", maxsplit=1)[0].lower()
    hint = "A model of the Hub is named with its organisation, as hf:ORG/NAME."
    nearest = [family] if family in CONFIG_MAPPING else None
    return UnknownNameError("transformers architecture", model_type, CONFIG_MAPPING, hint=hint, nearest=nearest)


_CAUSAL_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel")


_WHO_DECIDES_ATTENTION = (
    "attention as transformers {version} runs it by default, by PyTorch's operator; older releases and torch before "
    "2.0 write it out, as ⟨arg⟩ attn_implementation=eager does."
)


def transformers_target(words: str, request: InputRequest) -> Target:
    """Find a transformers model: a config.json, its folder, or an architecture's default config.

    Decoder-only language models come with their head (AutoModelForCausalLM), a config's own `architectures` decide
    where given, all else is the bare model (AutoModel).
    """
    full = full_words(f"hf:{words}", request)
    if (on_hub := parse_hub_name(f"hf:{words}")) is not None:
        repository = found_repository(on_hub)
        place = config_place(repository)
        if place is None:
            raise UsageError(f"{repository.id} has no config.json, so that nothing says which model it holds.")
        given, name, source = _read_config(repository.path(place), words), repository.id, "config.json"
    else:
        path = _config_path(words)
        given = {} if path is None else _read_config(path, str(path))
        name = words if path is None else path.resolve().parent.name
        source = "default config" if path is None else path.name
    return target_of_config(full, given or {"model_type": words}, request, name=name, source=source)


def target_of_config(
    full: str, given: dict[str, Any], request: InputRequest, *, name: str, source: str = "config"
) -> Target:
    """Return the model that a config's content describes."""
    import_transformers()
    config = make_config(full, given, dict(request.arguments))
    model_class = choose_class(config, full, generates=request.new_tokens is not None)
    inputs = asked_inputs(request) or transformers_inputs(config, model_class, full, request)
    notes = [f"{model_class.__name__} of {config.model_type}'s {source}."]
    names = [name.rpartition(".")[2] for name, _ in request.arguments]
    chooses_attention = any(name.endswith("attn_implementation") for name in names)
    if getattr(model_class, "_supports_sdpa", False) and not chooses_attention:
        notes.append(_WHO_DECIDES_ATTENTION.format(version=versions_of("transformers")["transformers"]))
    if model_class.__name__.endswith(_CAUSAL_LANGUAGE_MODELS) and request.new_tokens is None:
        tokens = f"{request.seq_len} tokens" if request.seq_len else "all its input tokens"
        notes.append(
            f"one forward pass of {tokens}: prefill, without a KV cache; decoding is not in it (⟨new-tokens⟩ runs it)."
        )
    quantisation = given.get("quantization_config")
    return Target(
        name=name,
        words=full,
        library="transformers",
        builder=lambda: model_class._from_config(deepcopy(config)),
        inputs=inputs,
        versions=versions_of("torch", "transformers"),
        source_sha256=source_sha256(model_class),
        notes=tuple(notes),
        scheme=checkpoint_scheme(quantisation, where=full) if isinstance(quantisation, Mapping) else None,
    )


def _config_path(words: str) -> Path | None:
    """Return the config file that words name; None if they name an architecture."""
    path = Path(words)
    if exists(path) and path.is_dir():
        path = path / "config.json"
    if is_file(path):
        return path
    if "/" in words or words.endswith(".json"):
        raise UsageError(f"there is no {path}: hf: takes a config.json, its folder, or a name of the Hub, as ORG/NAME.")
    return None


def _read_config(path: Path, where: str) -> dict[str, Any]:
    try:
        content = read_json(read_file(path, at_most=LARGEST_TEXT_BYTES), allow_infinite=True)
    except (OSError, JsonError) as error:
        raise UsageError(f"{where} {error}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise UsageError(f"{where} is not a transformers config: it has no model_type.")
    _check_layers(content, where)
    return content


MOST_LAYERS = 4096
"""Most layers of a part of a model; each is built, and no model has more than some hundreds."""

_LAYERS = re.compile(r"(^|_)(layers?|depths?|blocks|stages)$")
"""Fields whose number says how many modules are built: num_hidden_layers, n_layer, encoder_layers."""

_STAGES = re.compile(r"(^|_)(depths?|num_(\w+_)?(layers|blocks))$")
"""Fields whose list says how many there are of each stage; other lists of layers hold their indexes."""


def _check_layers(content: Mapping[str, Any], where: str) -> None:
    """Refuse a config of more layers than any model has, before they are built."""
    for name, value in content.items():
        if isinstance(value, dict):
            _check_layers(value, where)
        elif isinstance(value, list | tuple):
            layers = sum(count for count in value if isinstance(count, int)) if _STAGES.search(name) else 0
            _check_layer_count(layers, f"{where}: {name}")
        elif isinstance(value, int) and _LAYERS.search(name):
            _check_layer_count(value, f"{where}: {name}")


def _check_layer_count(layers: int, where: str) -> None:
    if layers > MOST_LAYERS:
        raise UsageError(f"{where} is {layers:,}; at most {MOST_LAYERS:,} layers are built.")


def make_config(words: str, given: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """Make an architecture's config from a config file's content and the user's arguments.

    A dotted argument goes to a part: `text_config.num_hidden_layers`. `attn_implementation` chooses attention as
    `from_pretrained` does: "eager", which writes it out, or "sdpa".
    """
    from transformers import CONFIG_MAPPING

    arguments = {_config_name(name): value for name, value in arguments.items()}
    _check_layers({name.rpartition(".")[2]: value for name, value in arguments.items()}, words)
    model_type = given.get("model_type")
    if not isinstance(model_type, str):
        raise UsageError(f"{words}: its config is not one of transformers: it has no model_type.")
    if model_type not in CONFIG_MAPPING:
        raise unknown_architecture(model_type)
    with model_code(f"the config of {words}", error=UsageError):
        config_class = CONFIG_MAPPING[model_type]
        content = {key: value for key, value in given.items() if key != "auto_map"}
        is_default = set(given) == {"model_type"}
        defaults = config_class().to_dict() if is_default or any("." in name for name in arguments) else {}
        for name, value in arguments.items():
            _place(content, name.split("."), value, defaults)
        if is_default:
            for name, value in completed(model_type, _merged(defaults, content)):
                if name not in arguments:
                    _place(content, name.split("."), value, defaults)
        _refuse_kernels(content, words)
        config = config_class.from_dict(content)
        _check_arguments(words, config_class, arguments)
    # Disable the key-value cache in all parts, because one forward pass is traced.
    parts = [config, *(getattr(config, key, None) for key in config.sub_configs)]
    for part in parts:
        if part is not None and getattr(part, "use_cache", False):
            part.use_cache = False
    return config


def _refuse_kernels(content: Mapping[str, Any], words: str) -> None:
    """Refuse a config that names kernels of a repository, which transformers would download and run."""
    for key, value in content.items():
        if str(key).endswith("_implementation") and "/" in str(value):
            raise UsageError(f"{words}: {key} {value!r:.120} names code to download and run; eager or sdpa runs here.")
        if isinstance(value, Mapping):
            _refuse_kernels(value, words)


def _config_name(argument: str) -> str:
    """Return a config's own name for what `from_pretrained` calls `attn_implementation`, in a part too."""
    before, dot, name = argument.rpartition(".")
    return f"{before}{dot}_{name}" if name == "attn_implementation" else argument


def _merged(defaults: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Lay given content over defaults, part by part."""
    merged = {**defaults, **content}
    for key, value in content.items():
        if isinstance(value, dict) and isinstance(defaults.get(key), dict):
            merged[key] = _merged(defaults[key], value)
    return merged


def _place(content: dict[str, Any], path: list[str], value: Any, defaults: Mapping[str, Any]) -> None:
    """Set the value that a dotted name points to, below the defaults of the parts it leads through.

    A list or mapping with an item per layer is cut where a depth is.
    """
    for part in path[:-1]:
        defaults = defaults.get(part) or {}
        content = content.setdefault(part, dict(defaults))
    name = path[-1]
    before = content.get(name, defaults.get(name))
    content[name] = value
    if "layers" in name and isinstance(value, int) and isinstance(before, int):
        for key, held in content.items():
            if isinstance(held, list) and len(held) == before and value < before:
                content[key] = held[:value]
            elif isinstance(held, dict) and held and all(str(layer).isdecimal() for layer in held):
                content[key] = {layer: part for layer, part in held.items() if int(layer) < value}


def _check_arguments(words: str, config_class: Any, arguments: Mapping[str, Any]) -> None:
    known = config_class()
    for name in arguments:
        holder: Any = known
        for part in name.split("."):
            if isinstance(holder, dict):
                break
            if not hasattr(holder, part):
                offered = [key for key in vars(holder) if not key.startswith("_")]
                meant = nearest_names(part, offered) or offered[:5]
                raise UsageError(f"{words}: its config has no {part!r}; did you mean {', '.join(meant)}?")
            holder = getattr(holder, part)


def choose_class(config: Any, words: str, *, generates: bool = False) -> Any:
    """Choose the model class that users of a config expect; where they generate text, the first that can."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    for name in config.architectures or ():
        if hasattr(transformers, name):
            return _class_named(name, words)
    kind = config.model_type
    causal = kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    first = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES" if causal and not config.is_encoder_decoder else "MODEL_MAPPING_NAMES"
    others = sorted(name for name in vars(auto) if name.startswith("MODEL_") and name.endswith("_MAPPING_NAMES"))
    names = [
        name[0] if isinstance(name, tuple | list) else name
        for mapping in (first, "MODEL_MAPPING_NAMES", *others)
        if (name := getattr(auto, mapping).get(kind)) is not None
    ]
    if generates:
        names = [name for name in dict.fromkeys(names) if _class_named(name, words).can_generate()] or names
    classes = [_class_named(name, words) for name in dict.fromkeys(names)]
    # some only generate; some of composite ones are made of the text's part, and others of the whole config
    classes = [kind for kind in classes if "input" not in inspect.signature(kind.forward).parameters]
    for model_class in classes:
        if model_class.config_class is None or isinstance(config, model_class.config_class):
            return model_class
    if classes:
        return classes[0]
    raise TraceError(f"{words}: transformers has no model class for the architecture {kind}.")


def _class_named(name: str, words: str) -> Any:
    import transformers

    with model_code(f"importing {name} for {words}"):
        found = getattr(transformers, name)
        if inspect.isclass(found) and issubclass(found, torch.nn.Module):
            return found
    raise TraceError(f"{words}: {name} is not a model of transformers, or needs a library that is not installed.")
