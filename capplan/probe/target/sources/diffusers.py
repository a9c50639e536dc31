"""diffusers: denoisers and autoencoders from their configurations, never from a checkpoint."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from capplan.errors import UnknownNameError, UsageError
from capplan.probe.diffusers_index import PREFIX, find_component
from capplan.probe.foreign.libraries import call_with_arguments, import_library, import_torchvision
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec, ModelInputs, nested
from capplan.probe.inputs.tensors import Device, InputMaker, asked_inputs, make_tensor, named_tensors
from capplan.probe.target.sources.transformers import import_transformers, target_of_config
from capplan.probe.target.types import Target, full_words, source_sha256, versions_of

_SHARED = ("img_ids", "txt_ids", "image_rotary_emb")
"""Inputs that are the same for all samples, so that diffusers' pipelines pass them without the batch."""
_LISTED = ("x", "cap_feats")
"""Inputs that are a list with a tensor for each sample."""
_SIZES = ("img_shapes",)
"""Inputs that are the sizes of each sample's images instead of a tensor."""
_FIXED: Mapping[str, Mapping[str, Any]] = {
    "PixArtTransformer2DModel": {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}
}
"""Arguments that a pipeline passes to a denoiser although they hold no tensor."""


def diffusers_target(words: str, request: InputRequest) -> Target:
    """Find a component of a diffusers pipeline: `NAME/transformer`, `FOLDER/vae.decode`, or `CLASS` with arguments."""
    config, class_name, method = find_component(words)
    full = full_words(f"{PREFIX}{words}", request)
    if class_name is None:
        return target_of_config(full, dict(config), request, name=words.replace("/", "."))
    import_transformers()
    diffusers = import_library("diffusers")
    import_torchvision()
    names = dir(diffusers)
    model_class = getattr(diffusers, class_name, None) if class_name in names else None
    if not (inspect.isclass(model_class) and issubclass(model_class, torch.nn.Module)):
        known = [known for known in names if known.endswith(("Model", "DModel")) or known.startswith("Autoencoder")]
        raise UnknownNameError("class of diffusers", class_name, known)
    inputs: InputMaker | None = asked_inputs(request)
    if inputs is None:
        raise UsageError(
            f"{full} needs its inputs: ⟨input⟩ hidden_states=16x128x128 and so on; `capplan plan {PREFIX}NAME` with "
            "the name of a pipeline states them by itself."
        )
    if request.inputs:
        inputs = PipelineInputs(specs=request.inputs, fixed=_FIXED.get(class_name, {}))
    return Target(
        name=words,
        words=full,
        library="diffusers",
        builder=lambda: _built(full, model_class, config, dict(request.arguments), method),
        inputs=inputs,
        versions=versions_of("torch", "diffusers", "transformers"),
        source_sha256=source_sha256(model_class),
        notes=(_CROPPED_NOTE,) if class_name in _CROPPED else (),
    )


_CROPPED: Mapping[str, tuple[str, ...]] = {
    "HunyuanVideoTransformer3DModel": ("transformer_blocks", "single_transformer_blocks")
}
"""Denoisers whose blocks take a mask of the prompt's padding in diffusers. Their publisher's code and xDiT crop the
prompt instead, so that flash attention serves, which takes no mask."""
_CROPPED_NOTE = "prompts are cropped to their tokens, as its publisher and xDiT do: attention takes no mask."


class _WithoutMask:
    """An attention processor that is given no mask."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def __call__(
        self,
        attn: Any,
        hidden_states: Any,
        encoder_hidden_states: Any = None,
        attention_mask: Any = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        """Run the processor without the mask."""
        del attention_mask
        return self.processor(attn, hidden_states, encoder_hidden_states, None, image_rotary_emb)


class _Method(torch.nn.Module):
    """A module whose forward is another method of a module, such as an autoencoder's decode."""

    def __init__(self, module: torch.nn.Module, method: str) -> None:
        super().__init__()
        self.module, self.method = module, method

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.module, self.method)(*args, **kwargs)


def _built(
    words: str, model_class: Any, config: Mapping[str, Any], arguments: Mapping[str, Any], method: str
) -> torch.nn.Module:
    """Build a class of a configuration, of which later releases' keys are left out, and of the user's arguments."""
    known = inspect.signature(model_class.__init__).parameters
    taken = {name: value for name, value in config.items() if name in known}
    made = call_with_arguments(words, model_class, {**taken, **arguments})
    if model_class.__name__ in _CROPPED:
        for name, block in made.named_modules():
            if name.endswith(".attn") and name.split(".")[0] in _CROPPED[model_class.__name__]:
                block.processor = _WithoutMask(block.processor)
    if method and not callable(getattr(made, method, None)):
        raise UsageError(f"{words}: {model_class.__name__} has no method {method!r}.")
    if not method:
        return made
    named: type[_Method] = type(model_class.__name__, (_Method,), {})  # answers show the class of the module
    return named(made, method)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineInputs:
    """The arguments of one call as a diffusers pipeline makes them."""

    specs: tuple[InputSpec, ...]
    fixed: Mapping[str, Any]

    def __call__(self, batch: int, device: Device) -> ModelInputs:
        """Make the tensors, those of names such as `added_cond_kwargs.time_ids` as items of what holds them."""
        made = nested((spec.name or "", _made(spec, batch, device)) for spec in self.specs)
        kwargs = {
            name: {**self.fixed.get(name, {}), **given} if name in self.fixed else given
            for name, given in {**self.fixed, **made}.items()
        }
        return ModelInputs(kwargs=kwargs, names=tuple(name for name, _ in named_tensors((), kwargs)))


def _made(spec: InputSpec, batch: int, device: Device) -> Any:
    name = str(spec.name)
    own = tuple(dim for dim in spec.shape if dim != BATCH)
    if name in _SIZES:
        return [[tuple(dim.constant for dim in own)]] * batch
    if name.partition("[")[0] in _SHARED:
        spec = replace(spec, shape=own)
    tensor = make_tensor(spec, batch=batch, device=device)
    return list(tensor) if name in _LISTED else tensor
