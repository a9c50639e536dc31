"""Names of torchvision's and timm's models, read from their sources: importing either takes seconds.

A mistyped name is refused within a fraction of a second, and names as people write them (`EfficientNet-B0`) are turned
into those that the libraries know.
"""

import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from capplan.errors import UnknownNameError, UsageError
from capplan.files import is_dir

_REGISTERED = re.compile(
    rb"^@register_model(?:\((?:name=[\"'](\w+)[\"'])?[^\n]*\))?\n(?:(?:@|[ )]).*\n)*def (\w+)\(", re.MULTILINE
)
"""A decorated function that makes a model, under its own name or a stated one."""
_FORMER = re.compile(rb"^register_model_deprecations\(__name__, \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_KEY = re.compile(rb"^\s*[\"'](\w+)[\"']\s*:", re.MULTILINE)
"""timm's tables of names that models had in earlier releases, and a name in one."""
ZOOS = ("torchvision", "timm")
"""The libraries whose models are listed in their sources."""
_AS_IMPORTED = re.compile(r"^(torchvision|timm)\.models[.:](?:\w+\.)*(?=\w+$)")
"""How code names a zoo's model: torchvision.models.resnet50, torchvision.models.detection.ssd300_vgg16."""
_ELSEWHERE: Mapping[str, str] = {
    "yolo": "YOLO models come from ultralytics: write a file with `net = YOLO(...).model` and name FILE.py:net",
    "sam": "give the code that builds it, as FILE.py:Name or package.module:Name",
}
OTHERS = "Others are FILE.py:Name, package.module:Name, or hf: with a config.json, its folder or an architecture."


def canonical_words(words: str) -> str:
    """Return a model's words with a library's name as the library writes it; anything else as it is."""
    if "://" in words:
        raise UsageError(f"{words} would be downloaded, and nothing is: save it, and name the file or hf:config.json.")
    words = _AS_IMPORTED.sub(r"\1:", words)
    prefix, colon, rest = words.partition(":")
    if colon and prefix not in ZOOS:
        return words
    name = rest if colon else words
    if "/" in name or "\\" in name or Path(name).suffix in SUFFIXES or _exists(name):
        return words
    known = [library for library in (ZOOS if not colon else (prefix,)) if source_names(library)]
    if not known:
        return words
    names = {name: None for library in known for name in source_names(library)}
    architecture, dot, tag = name.partition(".")
    if architecture in names or any(architecture in former_names(library) for library in known):
        return words
    alike = [known_name for known_name in names if _squeeze(known_name) == _squeeze(architecture)]
    if len(alike) == 1:
        return f"{prefix}:{alike[0]}{dot}{tag}" if colon else f"{alike[0]}{dot}{tag}"
    raise UnknownNameError(f"{prefix} model" if colon else "model", name, names, hint=_hint(name))


def _exists(name: str) -> bool:
    """Return True if a name is that of a file or folder; one too long to be a path is not."""
    try:
        return Path(name).exists()
    except OSError:
        return False


SUFFIXES = frozenset(
    {".py", ".pt2", ".pt", ".pth", ".onnx", ".pkl", ".pickle", ".ckpt", ".safetensors", ".bin", ".json", ".gz", ".gguf",
     ".engine", ".plan", ".tflite", ".h5", ".pb"}
)  # fmt: skip
"""Endings of files: such words name a file, whether it is there or not."""


@cache
def source_names(library: str) -> frozenset[str]:
    """Return the models that an installed library registers, from its sources; none where they cannot be read."""
    matches = (match for source in _sources(library) for match in _REGISTERED.finditer(source))
    return frozenset((match[1] or match[2]).decode() for match in matches)


@cache
def former_names(library: str) -> frozenset[str]:
    """Return the names of earlier releases that an installed library still takes (`ssl_resnet50`), from its sources."""
    tables = (table for source in _sources(library) for table in _FORMER.findall(source))
    return frozenset(key.decode() for table in tables for key in _KEY.findall(table))


def _sources(library: str) -> Iterator[bytes]:
    spec = importlib.util.find_spec(library)
    if spec is not None and spec.origin is not None:
        yield from (path.read_bytes() for path in (Path(spec.origin).parent / "models").rglob("*.py"))


def _squeeze(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _hint(name: str) -> str:
    other = next((hint for start, hint in _ELSEWHERE.items() if name.casefold().startswith(start)), None)
    served, architecture = served_hint(name), _architecture(name)
    if served:
        return served
    if other is None and architecture:
        return (
            f"hf:{architecture} is that architecture in its default size, and ORG/{name} asks the Hugging Face Hub for "
            "a repository."
        )
    return f"{other}." if other else OTHERS


def served_hint(words: str) -> str:
    """Return what to ask of a served language model that is built in, by its name here or on the Hub; else nothing."""
    name = words.removeprefix("hf:").partition("@")[0].rpartition("/")[2]
    built_in = [entry.name for entry in (files("capplan") / "llm_models").iterdir()]
    wanted = (f"{name.lower()}.json", *([f"{name.lower()}-"] if "/" in words else []))
    if not any(entry.startswith(wanted) for entry in built_in):
        return ""
    asked = words.removeprefix("hf:")
    return f"It is a served language model: ask `capplan llm memory {asked}` or `capplan llm plan {asked}`."


def _architecture(name: str) -> str:
    """Return the architecture of transformers that a name begins with, such as bert of bert-base-uncased."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        return ""
    parts = re.split(r"[-_.]", name.casefold())
    starts = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((start for start in starts if is_dir(Path(spec.origin).parent / "models" / start)), "")
