"""Resolve words to a model: "timm:resnet50", "net.py:Net", "hf:config.json" name a module and its inputs.

Nothing is built until `Target.build`, and then under whatever device context the caller has entered: on meta no
weights are made.
"""

import zipfile
from dataclasses import replace
from pathlib import Path

from capplan.core.named_code import before_colon
from capplan.errors import UnknownNameError, UsageError
from capplan.files import is_file
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.target.names import OTHERS, SUFFIXES, source_names
from capplan.probe.target.prepare import (
    find_steps,
    freezing_notes,
    freezing_steps,
    generating_notes,
    generating_steps,
    step_notes,
)
from capplan.probe.target.types import Target
from capplan.probe.torchscript.archive import is_torchscript


def load_target(words: str, *, request: InputRequest) -> Target:
    """Find the model that words name, without building it, and the steps that prepare it.

    `torchvision:NAME`, `timm:NAME`, a bare name of either; `hf:` with a config.json, its folder or an architecture;
    `diffusers:` with a component of a pipeline; `FILE.py:NAME`, `package.module:NAME`; `FILE.pt2`; `FILE.onnx`; a
    TorchScript archive.
    """
    return as_requested(_find_target(words, request), request)


def as_requested(target: Target, request: InputRequest) -> Target:
    """Return a target with the steps that prepare and freeze it, and what a request says of how its code runs."""
    return replace(
        target,
        steps=(*find_steps(request.prepare), *freezing_steps(request.freeze), *generating_steps(request.new_tokens)),
        notes=(
            *target.notes,
            *step_notes(request.prepare),
            *freezing_notes(request.freeze),
            *generating_notes(request.new_tokens),
        ),
        selected_share=request.selected_share,
        as_cpu=request.as_cpu,
        differentiates=request.grad,
    )


def _elsewhere_called(words: str) -> str | None:
    """Return what a model is called here that hubs and imports call otherwise; None where nothing is known of it."""
    hub, slash, name = words.removeprefix("hf-hub:").partition("/")
    if slash and hub == "timm" and not is_file(words):
        return f"{words} is timm's: write timm:{name}. No weights are loaded."
    return None


def _find_target(words: str, request: InputRequest) -> Target:
    words = words.removeprefix("hf-hub:") if words.startswith("hf-hub:timm/") else words
    kind, colon, rest = before_colon(words)
    if kind == "torchvision" and colon:
        from capplan.probe.target.sources.image_zoos import torchvision_target

        return torchvision_target(rest, request)
    if kind == "timm" and colon:
        from capplan.probe.target.sources.image_zoos import timm_target

        return timm_target(rest, request)
    if kind == "hf" and colon:
        from capplan.probe.target.sources.transformers import transformers_target

        return transformers_target(rest, request)
    if kind == "diffusers" and colon:
        from capplan.probe.target.sources.diffusers import diffusers_target

        return diffusers_target(rest, request)
    if colon or words.endswith(".py"):
        from capplan.probe.target.sources.code import code_target

        return code_target(words, request)
    if words.endswith(".pt2"):
        from capplan.probe.target.sources.exported import exported_target

        return exported_target(Path(words), request)
    if words.endswith(".onnx") and is_file(words):
        from capplan.probe.target.sources.graph_files import onnx_target

        return onnx_target(Path(words), request)
    if is_file(words) and is_torchscript(Path(words)):
        from capplan.probe.target.sources.graph_files import torchscript_target

        return torchscript_target(Path(words), request)
    if (said := _elsewhere_called(words)) is not None:
        raise UsageError(said)
    if "/" in words or "\\" in words or Path(words).suffix in SUFFIXES or is_file(words):
        raise UsageError(_refusal(Path(words)))
    return _bare_target(words, request)


def _refusal(path: Path) -> str:
    """Explain why a file is not a model, and name what would be one."""
    instead = (
        "Give the code, as FILE.py:Name or package.module:Name, a .pt2 of torch.export.save, an .onnx file, or "
        "TorchScript of torch.jit.save."
    )
    if path.suffix == ".json":
        return f"{path} is not a model by itself: write hf:{path} for a transformers config."
    if not is_file(path):
        hub = f" A model of the Hugging Face Hub is named hf:{path} here."
        return f"there is no model or file {path}. {instead}{hub if len(path.parts) == 2 and not path.suffix else ''}"
    if path.suffix == ".gguf":
        return f"{path} holds quantised weights for llama.cpp: `capplan llm memory {path}` reads it. {instead}"
    if path.suffix in (".engine", ".plan"):
        return f"{path} is an engine built for one GPU, which says nothing of others. {instead}"
    if path.suffix == ".safetensors":
        return f"{path} holds weights and no model. {instead}"
    with path.open("rb") as file:
        is_cut = file.read(4) == b"PK\x03\x04" and not zipfile.is_zipfile(path)  # torch writes zip archives
    if is_cut:
        return f"{path} is an archive that is cut off or damaged: its table of contents, at its end, is not there."
    return f"{path} is not a model that can be read without running what it holds: loading a pickle does. {instead}"


def _bare_target(name: str, request: InputRequest) -> Target:
    """Look a bare name up in torchvision and timm; torchvision wins, and a note says so."""
    from capplan.probe.target.sources.image_zoos import (
        timm_names,
        timm_takes,
        timm_target,
        torchvision_names,
        torchvision_target,
    )

    if name in torchvision_names():
        target = torchvision_target(name, request)
        if name not in source_names("timm"):
            return target
        note = f"both torchvision and timm have {name}: this is torchvision's; timm:{name} is the other."
        return replace(target, notes=(note, *target.notes))
    if timm_takes(name):
        return timm_target(name, request)
    raise UnknownNameError("model", name, {*torchvision_names(), *timm_names()}, hint=OTHERS)
