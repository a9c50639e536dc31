"""Count the work of measured diffusion runs for the fit of power: FLOPs and bytes of the denoiser's passes.

The counts are closed formulas over the denoisers' published shapes (`models.json`): parameters that every token
passes, attention over all tokens, and about thirty reads and writes of each token's activations a layer. Text encoders
and autoencoders are left out: they take a few percent of the operations. Work of a run is divided evenly among its
GPUs, each of which holds all weights (xDiT's sequence parallelism).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isnan
from pathlib import Path
from typing import Any

_ACTIVATION_PASSES = 30
_DEFAULT_PIXELS = 1024
_TEXT_TOKENS = {"SD3Transformer2DModel": 333, "CogVideoXTransformer3DModel": 226, "FluxTransformer2DModel": 512}
"""Tokens of the prompt that attend together with those of the image; other models attend to them apart."""


@dataclass(frozen=True, kw_only=True)
class Denoising:
    """FLOPs of one item's denoising, and bytes: of activations of an item, and of weights of the whole run."""

    flops: float
    activation_bytes: float
    weight_bytes: float


def read_models(path: Path) -> dict[str, Mapping[str, Any]]:
    """Read the shapes of the denoisers by Hugging Face id."""
    document: dict[str, Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return document


def denoising(model: Mapping[str, Any], *, height: float, width: float, frames: float, steps: float) -> Denoising:
    """Count the work of an image or a video.

    Args:
        model: The denoiser's entry of `models.json`.
        height: Pixels; NaN for the 1024 that the image models were run at.
        width: The same.
        frames: Frames of a video, NaN for an image.
        steps: Denoising steps.
    """
    config, kind, vae = model["denoiser_config"], model["denoiser_class"], model["vae"]
    params = model["denoiser_params"]
    patch = 2 if kind == "FluxTransformer2DModel" else config.get("patch_size", 1)
    patch = patch[1] if isinstance(patch, list) else patch
    rows, columns = (int(_DEFAULT_PIXELS if isnan(side) else side) // vae["scale"] // patch for side in (height, width))
    moments = 1 if isnan(frames) else (int(frames) - 1) // vae.get("temporal_scale", 1) + 1
    tokens = rows * columns * ceil(moments / (config.get("patch_size_t") or 1))
    layers = config["num_layers"] + config.get("num_single_layers", 0)
    hidden = config["num_attention_heads"] * config["attention_head_dim"]
    text = _TEXT_TOKENS.get(kind, 0)
    attention = 4.0 * layers * (tokens + text) ** 2 * hidden
    attention += 4.0 * len(config.get("dual_attention_layers", ())) * tokens**2 * hidden
    linear = 2.0 * params * tokens
    if kind == "SanaTransformer2DModel":
        attention = 0.0  # linear attention; its products are among the parameters' order
    elif kind == "WanTransformer3DModel":
        text_params = 2 * hidden * hidden * layers  # keys and values of 512 text tokens
        linear = 2.0 * ((params - text_params) * tokens + 512 * text_params)
    elif kind == "CogVideoXTransformer3DModel":
        linear = 2.0 * (params - layers * 2 * 6 * 512 * hidden) * tokens  # modulation acts once a sample
    elif kind == "SD3Transformer2DModel":
        # a half of the blocks is for text, and modulation (6·d² each) acts once a sample
        linear = 2.0 * (params - 12 * hidden * hidden * layers) * (0.55 * tokens + 0.45 * text)
    passes = model["forwards_per_step"] * steps
    return Denoising(
        flops=passes * (linear + attention),
        activation_bytes=passes * _ACTIVATION_PASSES * 2.0 * layers * hidden * tokens,
        weight_bytes=passes * 2.0 * params,
    )
