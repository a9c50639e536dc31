"""A language model as it was found: its architecture, how its checkpoint stores it, and where that was read."""

from dataclasses import dataclass

from capplan.core.weights import find_weight_format
from capplan.llm.core.architecture import Architecture
from capplan.llm.core.quantisation import Quantisation, default_quantisation


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """The facts of one model.

    `dtype` is the format of what its checkpoint does not quantise. `quantisation` is the checkpoint's own, None for
    a plain one. `declares_fp8_cache` says that the checkpoint holds scales for an fp8 KV cache. `exact_bytes` is the
    sum over a file's header of all tensors that are served, None where sizes follow from the configuration alone.
    `missing_files` counts the files that its index names and its folder lacks.
    `source` says where the facts were read, `check` against what they were checked.
    """

    architecture: Architecture
    dtype: str
    quantisation: Quantisation | None
    source: str
    declares_fp8_cache: bool = False
    exact_bytes: int | None = None
    missing_files: int = 0
    check: str | None = None
    hf_id: str | None = None

    @property
    def own_quantisation(self) -> Quantisation:
        """Return how the checkpoint stores its weights."""
        return self.quantisation or default_quantisation(self.architecture, find_weight_format(self.dtype))

    def stored_as(self, weights: str | None) -> Quantisation:
        """Return how weights are stored in a format, with the checkpoint's own roles if the format is its own.

        Block-scaled fp8 is what fp8 means for a model whose checkpoint is in it.

        Args:
            weights: Name of the format, None for the checkpoint's own.

        Raises:
            UnknownNameError: There is no such format.
        """
        own = self.own_quantisation
        if weights is None:
            return own
        wanted = find_weight_format(weights)
        same = {wanted.name, own.format.name} <= {"fp8", "fp8_block"} or wanted == own.format
        return own if same else default_quantisation(self.architecture, wanted)
