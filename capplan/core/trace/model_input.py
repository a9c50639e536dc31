"""Say in words what one sample of a model is: an image's size or a number of tokens, and where it comes from."""

from dataclasses import dataclass

from capplan.core.trace.types import InputTensor, Recording, Trace

_ASKED = ("--input ", "--input-size ", "--seq-len ", "--inputs-from ")
"""Options that state the inputs."""
_SOURCES = {
    "torchvision:": "torchvision's default",
    "timm:": "timm's default",
    ".onnx": "the file's",
    ".pt2": "the file's",
}
"""Where sizes come from that nobody asked for, by how the model's name begins or ends."""
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """The size of one sample, such as "3x224x224" or "128 tokens", and whose default that is; "" if asked for."""

    size: str
    source: str = ""

    @property
    def short(self) -> str:
        """The size, marked where it is a default, for a headline."""
        return f"{self.size} (default)" if self.source else self.size

    def __str__(self) -> str:
        return f"{self.size}, {self.source}" if self.source else self.size


def model_input(trace: Trace, recording: Recording) -> ModelInput:
    """Return what one sample of a trace is.

    Args:
        trace: the model with its inputs.
        recording: the recording that answers; one that holds at a single batch has that batch in its shapes.
    """
    sizes = list(dict.fromkeys(_sample(tensor, recording.exact_batch) for tensor in trace.inputs))
    shown = [size for size in sizes if size][:_MOST_SHOWN]
    more = len([size for size in sizes if size]) - len(shown)
    size = " + ".join(shown) + (f" + {more} more" if more else "")
    return ModelInput(size=size, source=_source(trace, size) if size else "")


def _sample(tensor: InputTensor, exact_batch: int | None) -> str:
    """Return the shape of one sample of an input: the first dimension that is the batch is left out."""
    dims = list(tensor.shape)
    batch = next(
        (
            index
            for index, dim in enumerate(dims)
            if (dim.constant, dim.per_sample) == (0, 1) or (exact_batch == dim.constant and not dim.per_sample)
        ),
        None,
    )
    if batch is not None:
        dims.pop(batch)
    sizes = [str(dim.constant) if not dim.per_sample else f"{dim.at(1)}" for dim in dims]
    if len(sizes) == 1 and tensor.dtype in ("int64", "int32"):
        return f"{sizes[0]} tokens"
    return "x".join(sizes)


def _source(trace: Trace, size: str) -> str:
    if any(option in f"{trace.target} " for option in _ASKED):
        return ""
    name = trace.target.split(" ")[0]
    if name.startswith("hf:"):
        return "capplan's default" if size.endswith(" tokens") else "the config's and capplan's defaults"
    return next((source for part, source in _SOURCES.items() if name.startswith(part) or name.endswith(part)), "")
