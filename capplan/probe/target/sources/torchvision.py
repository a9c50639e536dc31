"""torchvision: models by name, inputs from their weights' transforms or their task."""

from types import ModuleType
from typing import Any

from capplan.errors import UnknownNameError
from capplan.probe.foreign.compiled_libraries import import_torchvision
from capplan.probe.foreign.libraries import call_with_arguments
from capplan.probe.inputs.common import asked_inputs, image_spec, refuse_seq_len, resized
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.inputs.tensors import ImageListInputs, InputMaker, SpecInputs
from capplan.probe.target.types import Target
from capplan.probe.target.words import full_words, source_sha256, versions_of

_DETECTOR_IMAGE = (3, 800, 800)
_FLOW_IMAGE = (3, 520, 960)
_CLIP_FRAMES = 16
"""Frames of a clip: what torchvision's own GFLOPs of its video models were counted at."""


def torchvision_names() -> frozenset[str]:
    """Name every model that torchvision registers."""
    return frozenset(import_torchvision().models.list_models())


def torchvision_target(name: str, request: InputRequest) -> Target:
    """Find a torchvision model; no weights are loaded, for its backbone neither.

    Raises:
        UsageError: an unknown name.
    """
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
        inputs=asked_inputs(request) or _inputs(models, name, builder, request),
        versions=versions_of("torch", "torchvision"),
        source_sha256=source_sha256(builder),
    )


def _without_weights(models: ModuleType, builder: Any) -> dict[str, Any]:
    """Return arguments that keep a builder from loading weights, or from spending seconds on initial ones."""
    import inspect

    taken = inspect.signature(inspect.unwrap(builder)).parameters
    arguments: dict[str, Any] = {key: None for key in ("weights", "weights_backbone") if key in taken}
    if builder in (models.googlenet, models.inception_v3):
        arguments["init_weights"] = False
    return arguments


def _inputs(models: ModuleType, name: str, builder: Any, request: InputRequest) -> InputMaker:
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
