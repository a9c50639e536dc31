"""torchvision and timm: models by name, inputs from their weights' transforms and configs."""

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from capplan.errors import UnknownNameError, UsageError
from capplan.probe.foreign.libraries import call_with_arguments, import_library, import_torchvision
from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.inputs.tensors import (
    InputMaker,
    SpecInputs,
    asked_inputs,
    image_list_inputs,
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
    # Refuse an unknown pretrained tag, which timm itself notices when it builds the model.
    architecture, dot, tag = name.partition(".")
    known = timm.models.get_arch_pretrained_cfgs(architecture) if dot else {}
    if dot and name not in known and tag not in known:
        hint = f"timm has {', '.join(sorted(known))}." if known else f"{architecture} has no tags."
        raise UnknownNameError("timm model", name, known, hint=hint)
    words = full_words(f"timm:{name}", request)
    refuse_seq_len(words, request)
    arguments = {**_image_size(timm, name, request), **dict(request.arguments)}
    return Target(
        name=name,
        words=words,
        library="timm",
        builder=lambda: call_with_arguments(words, lambda **given: timm.create_model(name, **given), arguments),
        inputs=asked_inputs(request, positional_names=("x",)) or _inputs(timm, name, request),
        versions=versions_of("torch", "timm"),
        source_sha256=source_sha256(timm.model_entrypoint(name)),
    )


def _image_size(timm: ModuleType, name: str, request: InputRequest) -> dict[str, Any]:
    """Return the argument that builds a model for the images asked for, where it takes those of its size alone."""
    config = timm.models.get_pretrained_cfg(name)
    said = {key for key, _ in request.arguments} & {"img_size", "dynamic_img_size"}
    if request.size is None or said or config is None or not config.fixed_input_size:
        return {}
    area = tuple(request.size[-2:])
    return {} if area == tuple(config.input_size[-2:]) else {"img_size": area}


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
    return frozenset(import_torchvision().models.list_models())


def torchvision_target(name: str, request: InputRequest) -> Target:
    """Find a torchvision model; no weights are loaded, for its backbone neither."""
    models = import_torchvision().models
    if name not in models.list_models():
        raise UnknownNameError("torchvision model", name, models.list_models())
    builder = models.get_model_builder(name)
    words = full_words(f"torchvision:{name}", request)
    refuse_seq_len(words, request)
    given = dict(request.arguments)
    arguments = {**_as_published(models, name, builder, given), **given}
    is_detector = _task(builder) == "detection"

    def build() -> torch.nn.Module:
        with _nothing_loaded(models):
            model = call_with_arguments(words, builder, arguments)
        if is_detector:
            model.register_forward_pre_hook(_with_targets, with_kwargs=True)
        return model

    return Target(
        name=name,
        words=words,
        library="torchvision",
        builder=build,
        inputs=asked_inputs(request) or _image_inputs(models, name, builder, request),
        versions=versions_of("torch", "torchvision"),
        source_sha256=source_sha256(builder),
        notes=(_PUBLISHED_NOTE,) if arguments.get("weights_backbone") or arguments.get("weights") else (),
    )


_PUBLISHED_NOTE = (
    "built as with its published weights, of which none are loaded: a detector's backbone has frozen batch norms and "
    "trains its last stages; ⟨arg⟩ weights=None and weights_backbone=None build what trains from scratch"
)
_CHANGES_WEIGHTS = frozenset({"num_classes", "aux_loss", "aux_logits", "transform_input"})
"""Arguments that torchvision refuses beside weights of a whole model."""


def _as_published(models: ModuleType, name: str, builder: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that make the network that people run, and keep its builder from spending seconds on weights.

    Where a builder takes weights of a backbone, and for GoogLeNet, torchvision builds another network without weights:
    frozen batch norms and fewer trained stages of detectors, auxiliary heads of segmentation and of GoogLeNet.
    """
    taken = inspect.signature(inspect.unwrap(builder)).parameters
    arguments: dict[str, Any] = {key: None for key in ("weights", "weights_backbone") if key in taken}
    float_name = name.removeprefix("quantized_")
    if float_name in ("googlenet", "inception_v3"):
        arguments["init_weights"] = False
    depends = "weights_backbone" in taken or float_name == "googlenet"
    if not depends or not {"weights", "weights_backbone"}.isdisjoint(given):
        return arguments
    if _CHANGES_WEIGHTS.isdisjoint(given):
        return {**arguments, "weights": models.get_model_weights(name if given.get("quantize") else float_name).DEFAULT}
    return {
        **arguments,
        **({"weights_backbone": taken["weights_backbone"].default} if "weights_backbone" in taken else {}),
    }


_NOTHING: dict[str, Any] = {}
"""Stands for the weights that torchvision would fetch."""


@contextlib.contextmanager
def _nothing_loaded(models: ModuleType) -> Iterator[None]:
    """Let builders ask for published weights, and fetch and load none."""
    load = torch.nn.Module.load_state_dict

    def load_state_dict(module: torch.nn.Module, state: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        return None if state is _NOTHING else load(module, state, *args, **kwargs)

    with (
        mock.patch.object(models.WeightsEnum, "get_state_dict", return_value=_NOTHING),
        mock.patch.object(torch.nn.Module, "load_state_dict", load_state_dict),
    ):
        yield


_BOXES = 8
"""Objects in an image of a training step: COCO has 7.3 of them (Lin et al., 2014, figure 5)."""


def _with_targets(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Add the targets that a detector cannot train without: some boxes in every image."""
    if not module.training or len(args) != 1 or "targets" in kwargs:
        return args, kwargs
    return (*args, [_target(module, image) for image in args[0]]), kwargs


def _target(module: torch.nn.Module, image: torch.Tensor) -> dict[str, torch.Tensor]:
    height, width = image.shape[-2:]
    device = image.device
    boxes = torch.tensor([[0.0, 0.0, width / 2, height / 2]] * _BOXES, device=device)
    target = {"boxes": boxes, "labels": torch.ones(_BOXES, dtype=torch.int64, device=device)}
    heads = getattr(module, "roi_heads", None)
    if getattr(heads, "mask_predictor", None) is not None:
        target["masks"] = torch.ones(_BOXES, height, width, dtype=torch.uint8, device=device)
    if (points := getattr(heads, "keypoint_predictor", None)) is not None:
        target["keypoints"] = torch.ones(_BOXES, points.kps_score_lowres.out_channels, 3, device=device)
    return target


def _task(builder: Any) -> str:
    """Return the task of a model, which is the package that it lives in."""
    return str(builder.__module__.removeprefix("torchvision.models.").partition(".")[0])


def _image_inputs(models: ModuleType, name: str, builder: Any, request: InputRequest) -> InputMaker:
    """Return inputs by the task, which is the package that the model lives in."""
    task = _task(builder)
    if task == "detection":
        image = _crop(models, name) if name.startswith("ssd") else _DETECTOR_IMAGE
        return partial(image_list_inputs, image_spec(resized(image, request.size)))
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
