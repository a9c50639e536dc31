"""Turn the images of a request into tokens, and into the time of the image encoder."""

from capplan.errors import UsageError
from capplan.llm.core.deployment import ServingDeployment
from capplan.llm.core.fleet.token_load import Images, TokenLoad
from capplan.llm.core.image_tokens import image_tokens
from capplan.llm.core.model import LanguageModel
from capplan.llm.core.timing.constants import Constants
from capplan.llm.core.timing.kernel_classes import KernelClass
from capplan.llm.core.timing.weight_kernels import Arithmetic
from capplan.llm.core.timing.work import CLASSES


def images_of(model: LanguageModel, *, count: int, size: tuple[int, int] | None, tokens: int | None) -> Images | None:
    """Return the images of a request; None for none.

    Args:
        model: The model.
        count: Images of a request.
        size: Their width and height. [pixels]
        tokens: Tokens of each, where the user states them.

    Raises:
        UsageError: The model has no image encoder, or one whose tokens are not known and not stated.
    """
    if count == 0:
        return None
    architecture = model.architecture
    if architecture.vision is None:
        note = f" ({architecture.vision_note})" if architecture.vision_note else ""
        raise UsageError(f"{architecture.name} has no image encoder that is counted{note}; leave --images out.")
    found = image_tokens(architecture.vision.kind, size or (1024, 1024))
    if tokens is None and found is None:
        raise UsageError(f"how many tokens {architecture.name} makes of an image is not known; state --image-tokens.")
    counted, patches = found or (tokens or 0, 4 * (tokens or 0))
    return Images(count=count, tokens=float(tokens or counted), patches=float(patches))


def encoder_s(deployment: ServingDeployment, constants: Constants, load: TokenLoad) -> float:
    """Return the time that the image encoder takes for a request. [s]

    2 FLOPs per parameter and patch at the share of the 16-bit peak that matrix products reach, and attention between
    the patches of an image at the share that prefill attention reaches. Every GPU of a replica runs the whole encoder,
    as engines do by default.

    Args:
        deployment: The deployment.
        constants: Efficiencies.
        load: The load, with its images.
    """
    vision = deployment.model.architecture.vision
    if load.images is None or vision is None:
        return 0.0
    reached = constants.kernel("compute_fraction")
    products = 2.0 * vision.parameters * load.images.patches / float(reached[CLASSES.index(KernelClass.GEMM_16)])
    attention = vision.attention_flops(load.images.patches) / float(reached[CLASSES.index(KernelClass.PREFILL)])
    return load.images.count * (products + attention) / deployment.machine.peaks_flops_per_s[Arithmetic.HALF]
