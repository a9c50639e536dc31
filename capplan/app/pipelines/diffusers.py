"""Find the pipeline that words name, and make one of the components of a diffusers pipeline."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capplan.core.pipelines.expression import Number
from capplan.core.pipelines.types import Part, PartKind, Pipeline
from capplan.core.workload import Precision
from capplan.errors import UsageError
from capplan.files import is_file
from capplan.probe.diffusers_index import PREFIX, DiffusersIndex, find_index, is_known
from capplan.probe.target.hub_names import is_pipeline
from capplan.specs.denoisers import Denoiser, load_denoisers
from capplan.specs.pipeline_file import KNOWN_PREFIX, SUFFIXES, known_file, known_names, read_pipeline

_SDXL_CONDITIONS = ("added_cond_kwargs.text_embeds=Nx1280", "added_cond_kwargs.time_ids=Nx6")


def diffusers_pipeline(words: str) -> Pipeline:
    index = find_index(words)
    name = index.denoiser
    config = index.components[name]
    table = load_denoisers().denoisers
    known = table.get(str(config.get("_class_name")))
    if known is None:
        raise UsageError(
            f"{PREFIX}{index.name}: the inputs of {config.get('_class_name')} are not known; known are "
            f"{', '.join(table)}. Describe the pipeline in a file, with the inputs of its parts."
        )
    encoders = [component for component in index.components if component.startswith("text_encoder")]
    tokens = {
        encoder: index.text_tokens.get(encoder, length)
        for encoder, length in zip(encoders, known.text_tokens, strict=False)
    }
    templates = (*known.template_tokens, *(0 for _ in encoders))
    guidance = index.guidance or known.guidance
    parameters: dict[str, Number] = {**known.parameters, **index.parameters}
    parameters |= {f"{encoder}_tokens": length for encoder, length in tokens.items()}
    parameters |= {"passes": 1 if guidance == "distilled" else 2}
    numbers = {key: value for key, value in config.items() if type(value) in (int, float)}
    main = encoders[0] if index.pipeline.startswith("HunyuanVideo") else encoders[-1]
    vae = _autoencoder(index)
    parameters |= vae.parameters
    derived = {
        "text": f"{main}_tokens",
        "vae_scale": str(vae.scale),
        "patch": str(_largest(config.get("patch_size", 1))),
        "patch_t": str(_first(config)),
        **vae.derived,
        **{key: repr(value) for key, value in numbers.items() if key not in ("patch_size", "patch_size_t")},
    }
    if known.tokens:
        derived["image_tokens"] = known.tokens[0]
    return Pipeline(
        name=f"{PREFIX}{index.name}",
        item="video" if "frames" in parameters else "image",
        parts=(
            *(_text_encoder(index, *named) for named in zip(encoders, templates, strict=False)),
            *_denoisers(index, known, encoders, is_together=guidance == "together"),
            vae.part,
        ),
        parameters=parameters,
        derived=derived,
        precision=Precision.FP16 if name == "unet" else Precision.BF16,
    )


def _denoisers(index: DiffusersIndex, known: Denoiser, encoders: list[str], *, is_together: bool) -> Iterator[Part]:
    """Yield the denoiser; or two of the same size that share the steps, the second for those with less noise."""
    name = index.denoiser
    steps = {name: "steps"}
    if f"{name}_2" in index.components:  # how they share the steps changes no time
        steps = {name: "(steps - steps // 2)", f"{name}_2": "(steps // 2)"}
    for denoiser, count in steps.items():
        yield Part(
            name=denoiser,
            model=f"{PREFIX}{index.name}/{denoiser}",
            inputs=_denoiser_inputs(known, index.components[name], index.options),
            times=count if is_together else f"{count} * passes",
            samples="passes" if is_together else "1",
            kind=PartKind.DENOISER,
            after=tuple(encoders),
            tokens=("image_tokens", known.joint) if known.tokens else (),
            quantises=True,
        )


def _largest(value: Any) -> int:
    return int(max(value)) if isinstance(value, list | tuple) else int(value)


def _first(config: Mapping[str, Any]) -> int:
    """Return how many frames of latents one token covers."""
    patch = config.get("patch_size", 1)
    return int(patch[0]) if isinstance(patch, list) else int(config.get("patch_size_t") or 1)


def _denoiser_inputs(known: Denoiser, config: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the inputs of a denoiser, without those that its configuration turns off."""
    left_out = {"guidance": not config.get("guidance_embeds", False)}
    left_out["image_rotary_emb[0]"] = left_out["image_rotary_emb[1]"] = config.get(
        "_class_name"
    ) == "CogVideoXTransformer3DModel" and not config.get("use_rotary_positional_embeddings", False)
    left_out["style"] = left_out["image_meta_size"] = not config.get("use_style_cond_and_image_meta_size", True)
    inputs = tuple(words for words in known.inputs if not left_out.get(words.partition("=")[0], False))
    if options.get("expand_timesteps"):  # Wan 2.2's small model: every token has a step of its own
        inputs = tuple(words + "x{image_tokens}" * words.startswith("timestep=") for words in inputs)
    return inputs + (_SDXL_CONDITIONS if config.get("addition_embed_type") == "text_time" else ())


def _text_encoder(index: DiffusersIndex, name: str, template: int) -> Part:
    return Part(
        name=name,
        model=f"{PREFIX}{index.name}/{name}",
        inputs=(
            f"input_ids=int64:Nx{{{name}_tokens + {template}}}",
            f"attention_mask=int64:Nx{{{name}_tokens + {template}}}",
        ),
        times="passes",
        kind=PartKind.TEXT_ENCODER,
        after=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Autoencoder:
    part: Part
    scale: int
    derived: Mapping[str, str]
    parameters: Mapping[str, Number]


def _autoencoder(index: DiffusersIndex) -> _Autoencoder:
    """Return the part that makes pixels of latents, once for each item, or tile by tile."""
    config = index.components.get("vae")
    if config is None:
        raise UsageError(f"{PREFIX}{index.name} has no vae, so that the size of its latents is not known.")
    kind = str(config.get("_class_name"))
    autoencoders = load_denoisers().autoencoders
    tiles = autoencoders.get(kind)
    if tiles is None:
        raise UsageError(f"{PREFIX}{index.name}: {kind} is not known; known are {', '.join(autoencoders)}.")
    scale = int(config.get("scale_factor_spatial") or tiles.scale or 0)
    blocks = config.get("encoder_block_out_channels") or config.get("block_out_channels") or [0] * 4
    scale = scale or 2 ** (len(blocks) - 1)
    size = tiles.size * (tiles.scale or scale) // scale or int(config.get("sample_size", 512)) // scale
    stride = tiles.stride * (tiles.scale or scale) // scale or size * 3 // 4
    derived = {
        "latent_height": "height // vae_scale",
        "latent_width": "width // vae_scale",
        "tile_height": f"min(latent_height, {size}) if vae_tiling else latent_height",
        "tile_width": f"min(latent_width, {size}) if vae_tiling else latent_width",
    }
    tiled = [f"ceil(latent_{side} / {stride})" for side in ("height", "width")]
    shape = ["N", str(config.get("latent_channels", 16)), *["1"] * tiles.is_one_frame]
    needed = f"max(latent_height, latent_width) > {size}"
    if tiles.temporal > 1:
        derived["latent_frames"] = f"(frames - 1) // {tiles.temporal} + 1"
        derived["tile_frames"] = f"min(latent_frames, {tiles.frames}) if vae_tiling else latent_frames"
        shape.append("{tile_frames}" if tiles.frames else "{latent_frames}")
        if tiles.frames:
            tiled.append(f"ceil(latent_frames / {tiles.frame_stride})")
    derived["tiles"] = f"({' * '.join(tiled)} if {needed} else 1) if vae_tiling else 1"
    part = Part(
        name="vae",
        model=f"{PREFIX}{index.name}/vae.decode",
        inputs=("z=" + "x".join([*shape, "{tile_height}", "{tile_width}"]),),
        times="tiles * (batch if vae_slicing else 1)",
        samples="1 / batch if vae_slicing else 1",
        kind=PartKind.DECODER,
    )
    switches = {"vae_tiling": int(tiles.is_tiled), "vae_slicing": int(tiles.is_sliced)}
    return _Autoencoder(part=part, scale=scale, derived=derived, parameters=switches)


def names_pipeline(words: str) -> bool:
    """Return True if words name a whole pipeline; a component or a class of diffusers is a model like any other."""
    if words.endswith(SUFFIXES) or words.startswith(KNOWN_PREFIX):
        return True
    if not words.startswith(PREFIX):
        return is_pipeline(words)
    rest = words.removeprefix(PREFIX)
    if is_known(rest):
        return True
    named = rest.partition(".")[0]
    is_class = "/" not in rest and named.isidentifier() and named[:1].isupper()
    return not is_class and not is_known(rest.rpartition("/")[0])


def find_pipeline(words: str) -> Pipeline:
    if words.startswith(PREFIX):
        return diffusers_pipeline(words.removeprefix(PREFIX))
    if words.startswith(KNOWN_PREFIX):
        return read_pipeline(known_file(words.removeprefix(KNOWN_PREFIX)))
    if is_pipeline(words):
        return diffusers_pipeline(words.removeprefix("hf:"))
    if not is_file(words):
        raise UsageError(f"there is no pipeline file {words}; {KNOWN_PREFIX}NAME are {', '.join(known_names())}.")
    return read_pipeline(Path(words))
