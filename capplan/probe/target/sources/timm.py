"""timm: models by name, inputs from their pretrained configs."""

import importlib.util
from pathlib import Path
from types import ModuleType

from capplan.errors import UnknownNameError, UsageError
from capplan.probe.foreign.compiled_libraries import import_torchvision
from capplan.probe.foreign.libraries import call_with_arguments, import_library
from capplan.probe.inputs.common import asked_inputs, image_spec, refuse_seq_len, resized
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.inputs.tensors import InputMaker, SpecInputs
from capplan.probe.target.types import Target
from capplan.probe.target.words import full_words, source_sha256, versions_of


def import_timm() -> ModuleType:
    """Import timm, which imports torchvision."""
    import_torchvision()
    return import_library("timm")


def timm_names() -> frozenset[str]:
    """Name every architecture that timm registers."""
    return frozenset(import_timm().list_models())


def timm_takes(name: str) -> bool:
    """Return True if timm makes a model of this name, one of an earlier release among them, with or without a tag."""
    return bool(import_timm().is_model(name))


def timm_defines(name: str) -> bool:
    """Return True if timm has an architecture of this name, from its sources: importing it takes a second."""
    spec = importlib.util.find_spec("timm")
    if spec is None or spec.origin is None:
        return False
    wanted = f"\ndef {name}(".encode()
    return any(wanted in path.read_bytes() for path in (Path(spec.origin).parent / "models").glob("*.py"))


def timm_target(name: str, request: InputRequest) -> Target:
    """Find a timm model: an architecture, or one with a pretrained tag (`resnet50.a1_in1k`), of which no weights load.

    Raises:
        UsageError: an unknown name, or a hub reference.
    """
    if ":" in name or "/" in name:
        raise UsageError(f"timm:{name} would be downloaded, and nothing is: name one of timm's own architectures.")
    timm = import_timm()
    if not timm_takes(name):
        raise UnknownNameError("timm model", name, timm.list_models())
    _check_tag(timm, name)
    words = full_words(f"timm:{name}", request)
    refuse_seq_len(words, request)
    arguments = dict(request.arguments)
    return Target(
        name=name,
        words=words,
        library="timm",
        builder=lambda: call_with_arguments(words, lambda **given: timm.create_model(name, **given), arguments),
        inputs=asked_inputs(request, positional_names=("x",)) or _inputs(timm, name, request),
        versions=versions_of("torch", "timm"),
        source_sha256=source_sha256(timm.model_entrypoint(name)),
    )


def _check_tag(timm: ModuleType, name: str) -> None:
    """Refuse an unknown pretrained tag, which timm itself notices when it builds the model."""
    architecture, dot, tag = name.partition(".")
    known = timm.models.get_arch_pretrained_cfgs(architecture) if dot else {}
    if dot and name not in known and tag not in known:
        hint = f"timm has {', '.join(sorted(known))}." if known else f"{architecture} has no tags."
        raise UnknownNameError("timm model", name, known, hint=hint)


def _inputs(timm: ModuleType, name: str, request: InputRequest) -> InputMaker:
    """Return one image of the pretrained config's input size, as changed by `img_size` and `in_chans`."""
    config = timm.models.get_pretrained_cfg(name)
    size = tuple(config.input_size) if config is not None else (3, 224, 224)
    for key, value in request.arguments:
        if key == "in_chans":
            size = (value, *size[1:])
        if key in ("img_size", "input_size"):
            size = (size[0], *_pair(value)) if key == "img_size" else tuple(value)
    return SpecInputs(specs=(image_spec(resized(size, request.size)),), positional_names=("x",))


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
