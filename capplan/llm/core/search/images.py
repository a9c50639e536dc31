"""Turn the images of a request into tokens, and into the time of the image encoder."""

from collections.abc import Callable, Mapping
from math import ceil

from capplan.core.engine_names import Engine, find_engine
from capplan.errors import UsageError
from capplan.llm.core.deployment import ServingDeployment
from capplan.llm.core.fleet.token_load import Images, TokenLoad
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.timing.calibration import KernelClass
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.step_time import collectives, collectives_s
from capplan.llm.core.timing.work import CLASSES, Arithmetic, Kernels, Load

_CUTTING = frozenset({Engine.VLLM, Engine.SGLANG})
"""Engines that are known to cut image encoders by tensor parallelism."""


def images_of(model: LanguageModel, *, count: int, size: tuple[int, int] | None, tokens: int | None) -> Images | None:
    """Return the images of a request; None for none.

    Args:
        size: Their width and height. [pixels]
    """
    if count == 0:
        return None
    architecture = model.architecture
    if architecture.vision is None:
        note = f" ({architecture.vision_note})" if architecture.vision_note else ""
        raise UsageError(f"{architecture.name} has no image encoder that is counted{note}; leave ⟨images⟩ out.")
    found = image_tokens(architecture.vision.kind, size or (1024, 1024))
    if tokens is None and found is None:
        raise UsageError(f"how many tokens {architecture.name} makes of an image is not known; state ⟨image-tokens⟩.")
    counted, patches = found or (tokens or 0, 4 * (tokens or 0))
    return Images(count=count, tokens=float(tokens or counted), patches=float(patches))


def encoder_s(deployment: ServingDeployment, constants: Constants, load: TokenLoad) -> float:
    """Return the time that the image encoder takes for a request. [s]

    2 FLOPs per parameter and patch at the share of the 16-bit peak that matrix products reach, and attention between
    the patches of an image at the share that prefill attention reaches. vLLM and SGLang cut the encoder among the GPUs
    of tensor parallelism by default (`mm_encoder_tp_mode` "weights" of vLLM 0.33, `mm_enable_dp_encoder` off in SGLang
    0.5.23), with two all-reduces a layer. In other engines its time is that of the whole encoder on one GPU.
    """
    vision = deployment.model.architecture.vision
    if load.images is None or vision is None:
        return 0.0
    reached = constants.kernel("compute_fraction")
    tensor = deployment.words.sharding.tensor if find_engine(deployment.words.engine) in _CUTTING else 1
    products = 2.0 * vision.parameters * load.images.patches / float(reached[CLASSES.index(KernelClass.GEMM_16)])
    attention = vision.attention_flops(load.images.patches) / float(reached[CLASSES.index(KernelClass.PREFILL)])
    computed_s = (products + attention) / deployment.machine.peaks_flops_per_s[Arithmetic.HALF] / tensor
    encoder = Kernels(
        products=(),
        experts=(),
        attentions=(),
        states=(),
        hidden=vision.hidden_dim,
        layers=vision.layers,
        tensor_parallel=tensor,
        pipeline_parallel=1,
        data_parallel=1,
        exchanged_layers=0.0,
    )
    patches = Load.of(prefilled=load.images.count * load.images.patches)
    reduced_s = collectives_s(collectives(encoder, patches, machine=deployment.machine), constants)
    return load.images.count * computed_s + float(reduced_s[0])


_Size = tuple[int, int]


def _merged(pixels: int) -> Callable[[_Size], tuple[int, int]]:
    """Return a count for encoders whose two by two patches become one token of so many pixels in a square."""

    def count(size: _Size) -> tuple[int, int]:
        tokens = max(1, round(size[0] / pixels)) * max(1, round(size[1] / pixels))
        return tokens, 4 * tokens

    return count


def _fixed(tokens: int, patches: int) -> Callable[[_Size], tuple[int, int]]:
    """Return a count for encoders that scale every image to one size."""
    return lambda _: (tokens, patches)


def _tiles(size: _Size) -> tuple[int, int]:
    """Count Llama 4's tiles of 336 pixels, at most 16 and one of the whole image if there are several.

    A tile has 24 × 24 patches of 14 pixels, which a pixel shuffle turns into 144 tokens.
    """
    tiles = min(16, ceil(size[0] / 336) * ceil(size[1] / 336))
    tiles += 1 if tiles > 1 else 0
    return 144 * tiles, 576 * tiles


_COUNTS: Mapping[str, Callable[[_Size], tuple[int, int]]] = {
    "qwen2_vl": _merged(28),
    "qwen2_5_vl": _merged(28),
    "qwen3_vl": _merged(32),
    "qwen3_vl_moe": _merged(32),
    "qwen3_5": _merged(32),
    "qwen3_5_moe": _merged(32),
    "qwen4_exp": _merged(32),
    "mistral3": _merged(28),
    "gemma3": _fixed(256, 4096),
    "llava": _fixed(576, 576),
    "llama4": _tiles,
}
"""By the kind of the model's configuration: patches of 14 or 16 pixels merged two by two (Qwen-VL, Pixtral), images of
896 × 896 pixels pooled to 256 tokens (Gemma 3), 336 × 336 pixels as 576 tokens (LLaVA), and tiles (Llama 4)."""


def image_tokens(kind: str, size: tuple[int, int]) -> tuple[int, int] | None:
    """Return tokens and patches of an image; None for an encoder that is not known.

    Args:
        size: Width and height. [pixels]
    """
    count = _COUNTS.get(kind)
    return None if count is None else count(size)
