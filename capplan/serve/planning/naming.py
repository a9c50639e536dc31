"""Which models the service takes: zoo names, configs of known architectures and uploaded traces; nothing that is code.

Loading a model runs its code. So a question may name what the installed libraries register, or hand over data, and
nothing else: no file of the server, no Python file, no import path, no class.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from capplan.errors import UsageError
from capplan.probe.diffusers_index import PREFIX, published_component, published_name
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.target.names import canonical_words
from capplan.serve.questions import check_bounds
from capplan.specs.pipeline_file import KNOWN_PREFIX, known_names
from capplan.verbs.statement.fields import ModelFields

TRACE_PREFIX = "trace:"
CONFIG_PREFIX = "config:"
FILE_PREFIX = "file:"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")
_TRACE_ID = re.compile(r"[0-9a-f]{16}")
_LIBRARIES = ("torchvision", "timm", "hf")
_FILE_ENDINGS = (
    ".py", ".json", ".pt", ".pt2", ".pth", ".pkl", ".pickle", ".bin", ".ckpt", ".safetensors", ".onnx", ".gguf", ".gz",
    ".h5", ".pb", ".engine", ".plan", ".tflite", ".yaml", ".yml", ".so",
)  # fmt: skip
_REFUSED_NAMES = re.compile(
    r"weights|pretrained|checkpoint|cache_dir|file|path|url|hub|token|auto_map|remote_code|state_dict|custom|repo"
)
_DATA_NAMES = frozenset(
    {
        "_name_or_path", "name_or_path", "use_pretrained_backbone", "tie_weights", "tie_word_embeddings",
        "num_pretrained_labels", "custom_pipelines", "gradient_checkpointing", "use_gradient_checkpointing",
        "pretrained", "pretrained_cfg", "tie_encoder_decoder", "drop_path_rate", "drop_path", "stochastic_depth_prob",
        "droppath", "use_checkpoint", "token_type_vocab_size", "pretraining_tp",
    }
)  # fmt: skip
"""Keys of configs that would be refused by their name, although they hold mere settings or are dropped."""
_DROPPED = frozenset(
    {"_name_or_path", "name_or_path", "custom_pipelines", "auto_map", "pretrained", "pretrained_cfg",
     "use_pretrained_backbone", "transformers_version", "_attn_implementation", "attn_implementation",
     "_attn_implementation_autoset", "_attn_implementation_internal", "_commit_hash"}
)  # fmt: skip
"""Keys of configs that are left out: they name places to load from, or choose code."""


def is_trace_id(words: str) -> bool:
    """Return True if words could be the id of an uploaded trace."""
    return _TRACE_ID.fullmatch(words) is not None


def model_request(part: ModelFields, *, file: str | None = None) -> ModelRequest:
    """Return the request for a model that a question names, of zoo names and architectures only."""
    words = checked_name(part.model) if file is None else file
    if code := [step for step in part.prepare if ":" in step]:
        raise UsageError(f"prepare: {code[0]!r} names code, which the service does not run.")
    checked_arguments(part.arguments)
    # linear layers are quantised in the trace, by whoever opens the model
    return replace(part.model_request(), words=words, weights=None, activations=None)


def checked_name(words: str) -> str:
    """Return the name of a zoo model or architecture as its library writes it."""
    words = words.strip()
    if not words:
        raise UsageError("no model is named: give `model`, such as torchvision:resnet50, or `config`.")
    prefix, colon, rest = words.partition(":")
    if prefix == "diffusers" and published_component(rest):
        return words
    name = rest if colon else words
    if (colon and prefix not in _LIBRARIES) or name.lower().endswith(_FILE_ENDINGS) or not _PLAIN_NAME.fullmatch(name):
        raise UsageError(
            f"{words!r} is not taken here, because loading a model runs its code and the service reads no files of "
            "its machine: name a model of torchvision, timm or transformers (torchvision:resnet50, hf:bert), hand "
            "over a config.json as `config`, or upload an ONNX or .pt2 file, or what `capplan trace MODEL -o "
            "FILE.trace.json` wrote."
        )
    return words if prefix == "hf" and colon else canonical_words(words)


def checked_pipeline(words: str) -> str:
    """Return the name of a pipeline that the service knows: one that comes with capplan, or a published one."""
    named = words.strip()
    if named.startswith(KNOWN_PREFIX) and named.removeprefix(KNOWN_PREFIX) in known_names():
        return named
    name = published_name(named.removeprefix(PREFIX)) if named.startswith(PREFIX) else None
    if name is None:
        raise UsageError(
            f"{words!r} is not taken here: name a published pipeline, such as {PREFIX}black-forest-labs/FLUX.1-dev, or "
            f"{KNOWN_PREFIX}NAME, of {', '.join(known_names())}; the service reads no files of its machine."
        )
    return f"{PREFIX}{name}"


def checked_arguments(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of a constructor that are not plain values, or name a place to load from."""
    check_bounds(arguments)
    for name, value in arguments.items():
        if not re.fullmatch(r"[A-Za-z_][\w.]*", name) or name.rpartition(".")[2].startswith("__"):
            raise UsageError(f"{name[:100]!r} is not the name of an argument.")
        if _holds_object(value):
            raise UsageError(
                f"the argument {name!r} holds an object; an argument is a number, a text or a list of them."
            )
        if _is_refused(name) or name.rpartition(".")[2] in _DROPPED or any(map(_is_place, _texts(value))):
            raise UsageError(
                f"the argument {name!r} is not taken here: the service loads no weights, files or code that a request "
                "names."
            )


def _holds_object(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_holds_object, value)))


def checked_config(config: Mapping[str, Any]) -> bytes:
    """Return a transformers config as canonical JSON, without what names places to load from or code to run."""
    check_bounds(config)
    kind = config.get("model_type")
    if not isinstance(kind, str) or not _PLAIN_NAME.fullmatch(kind):
        raise UsageError('`config` is not a transformers config: it has no model_type such as "bert".')
    return json.dumps(_cleaned(config), sort_keys=True, allow_nan=False).encode()


def config_name(config: Mapping[str, Any]) -> str:
    """Return the name under which a config's model is shown: the end of its `_name_or_path`, or its architecture."""
    name = str(config.get("_name_or_path") or "").rstrip("/").rpartition("/")[2]
    return name if _PLAIN_NAME.fullmatch(name) and not name.endswith(_FILE_ENDINGS) else str(config.get("model_type"))


def digest(content: bytes) -> str:
    """Return the short hash that names a content. [hexadecimal]"""
    return hashlib.sha256(content).hexdigest()[:16]


def _cleaned(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _cleaned(item) for key, item in value.items() if _kept(key, item)}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _kept(key: str, value: Any) -> bool:
    """Return True if a config's entry is kept."""
    if key in _DROPPED:
        return False
    if key not in _DATA_NAMES and _is_refused(key) and any(map(_is_place, _texts(value))):
        raise UsageError(f"`config`: {key!r} names something to load, and the service loads nothing that is named.")
    return True


def _is_refused(name: str) -> bool:
    return name.rpartition(".")[2] not in _DATA_NAMES and _REFUSED_NAMES.search(name.lower()) is not None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _is_place(text: str) -> bool:
    """Return True if a text could name a file or an address."""
    return "/" in text or "\\" in text or "://" in text or text.lower().endswith(_FILE_ENDINGS)
