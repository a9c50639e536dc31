"""torchvision and timm: models by name, inputs from their weights' transforms and configs."""

import inspect
from types import ModuleType
from typing import Any

from capplan.errors import UnknownNameError, UsageError
from capplan.probe.foreign.libraries import call_with_arguments, import_library, import_torchvision
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.inputs.tensors import (
    ImageListInputs,
    InputMaker,
    SpecInputs,
    asked_inputs,
    image_spec,
    refuse_seq_len,
    resized,
)
from capplan.probe.target.types import Target, full_words, source_sha256, versions_of


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


def timm_target(name: str, request: InputRequest) -> Target:
    """Find a timm model: an architecture, or one with a pretrained tag (`resnet50.a1_in1k`), of which no weights
    load.
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
        given = tuple(value) if isinstance(value, list | tuple) else (value,)
        if not given or not all(isinstance(number, int) and number > 0 for number in given):
            continue  # if it is not a size, timm itself refuses it
        if key == "in_chans":
            size = (given[0], *size[1:])
        if key == "img_size":
            size = (size[0], given[0], given[-1])
        if key == "input_size":
            size = given
    return _image(size, request)


_DETECTOR_IMAGE = (3, 800, 800)
_FLOW_IMAGE = (3, 520, 960)
_CLIP_FRAMES = 16
"""Frames of a clip: what torchvision's own GFLOPs of its video models were counted at."""


def torchvision_names() -> frozenset[str]:
    """Name every model that torchvision registers."""
    return frozenset(import_torchvision().models.list_models())


def torchvision_target(name: str, request: InputRequest) -> Target:
    """Find a torchvision model; no weights are loaded, for its backbone neither."""
    models = import_torchvision().models
    if name not in models.list_models():
        raise UnknownNameError("torchvision model", name, models.list_models())
    builder = models.get_model_builder(name)
    words = full_words(f"torchvision:{name}", request)
    refuse_seq_len(words, request)
    arguments = {**_without_weights(models, builder), **dict(request.arguments)}
    return Target(
        name=name,
        words=words,
        library="torchvision",
        builder=lambda: call_with_arguments(words, builder, arguments),
        inputs=asked_inputs(request) or _image_inputs(models, name, builder, request),
        versions=versions_of("torch", "torchvision"),
        source_sha256=source_sha256(builder),
    )


def _without_weights(models: ModuleType, builder: Any) -> dict[str, Any]:
    """Return arguments that keep a builder from loading weights, or from spending seconds on initial ones."""
    taken = inspect.signature(inspect.unwrap(builder)).parameters
    arguments: dict[str, Any] = {key: None for key in ("weights", "weights_backbone") if key in taken}
    if builder in (models.googlenet, models.inception_v3):
        arguments["init_weights"] = False
    return arguments


def _image_inputs(models: ModuleType, name: str, builder: Any, request: InputRequest) -> InputMaker:
    """Return inputs by the task, which is the package that the model lives in."""
    task = builder.__module__.removeprefix("torchvision.models.").partition(".")[0]
    if task == "detection":
        image = _crop(models, name) if name.startswith("ssd") else _DETECTOR_IMAGE
        return ImageListInputs(image=image_spec(resized(image, request.size)))
    if task == "optical_flow":
        image = resized(_FLOW_IMAGE, request.size)
        return SpecInputs(specs=(image_spec(image), image_spec(image)), positional_names=("image1", "image2"))
    if task == "video":
        channels, *area = _crop(models, name)
        return _image((channels, _CLIP_FRAMES, *area), request)
    return _image(_crop(models, name), request)


def _image(size: tuple[int, ...], request: InputRequest) -> SpecInputs:
    return SpecInputs(specs=(image_spec(resized(size, request.size)),), positional_names=("x",))


def _crop(models: ModuleType, name: str) -> tuple[int, ...]:
    """Return the input size of the default weights; fixed values for ViT and SSD, whose weights have several sizes."""
    if name.startswith("vit_"):
        return (3, 224, 224)
    if name.startswith("ssdlite"):
        return (3, 320, 320)
    if name.startswith("ssd"):
        return (3, 300, 300)
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    crop = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None) or [224]
    return (3, *(crop if len(crop) == 2 else (crop[0], crop[0])))
