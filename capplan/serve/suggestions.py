"""Names to choose from while one is typed: models of the libraries, uploaded traces, GPUs and providers."""

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from capplan.probe.target.names import source_names
from capplan.serve.planning.data import Data
from capplan.serve.settings import Settings

MOST_SUGGESTED = 40
_COMMON = (
    "torchvision:resnet50",
    "torchvision:mobilenet_v3_large",
    "torchvision:efficientnet_b0",
    "timm:vit_base_patch16_224",
    "timm:convnext_tiny",
    "timm:swin_tiny_patch4_window7_224",
    "hf:bert",
    "hf:gpt2",
    "hf:vit",
    "hf:whisper",
)


def suggest(words: str, settings: Settings, uploads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return models whose names hold the words, the shortest first, and all GPUs and providers.

    Args:
        words: what was typed so far; nothing for usual names.
        settings: how the service runs.
        uploads: what is said of the uploaded traces.
    """
    own = [{"value": each["model"], "label": f"{each['name']} (a saved trace)"} for each in uploads]
    if not words.strip():
        gpus, providers = _lists(settings)
        models = [{"value": each, "label": each} for each in _COMMON]
        return {"models": [*own, *models], "gpus": gpus, "providers": providers}
    folded = words.strip().lower()
    found = [each for each in _all_models() if _squeeze(folded) in _squeeze(each)]
    found.sort(key=lambda each: (not each.partition(":")[2].startswith(folded.rpartition(":")[2]), len(each), each))
    named = [{"value": each, "label": each} for each in found[:MOST_SUGGESTED]]
    return {"models": [*(each for each in own if folded in str(each).lower()), *named]}


def _squeeze(name: str) -> str:
    return re.sub(r"[^a-z0-9:]", "", name.lower())


@cache
def _all_models() -> tuple[str, ...]:
    named = [f"{library}:{name}" for library in ("torchvision", "timm") for name in sorted(source_names(library))]
    return (*named, *(f"hf:{name}" for name in architectures()))


@cache
def architectures() -> tuple[str, ...]:
    """Return the architectures of transformers, read from its sources: importing it takes seconds."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent / "models" / "auto"
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("*.py") if "mapping" in path.name]
    sources.append((folder / "configuration_auto.py").read_text(encoding="utf-8"))
    return tuple(sorted(set(_config_names(sources))))


def _config_names(sources: Iterable[str]) -> Iterable[str]:
    for source in sources:
        for block in re.findall(r"CONFIG_MAPPING_NAMES\b[^=]*= OrderedDict.*?\n\)", source, re.DOTALL):
            yield from re.findall(r'\(\s*"([\w.-]+)",\s*"\w+Config"', block)


@cache
def _lists(settings: Settings) -> tuple[list[str], list[str]]:
    data = Data(settings)
    return sorted(data.gpus), sorted({price.provider for price in data.prices.hourly})
