"""The options that several commands share, and their words turned into types."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.core.workload import Framework, Layout, Optimizer, Precision, Training, Workload
from capplan.errors import UsageError

_MODEL_HELP = (
    "resnet50, timm:NAME, torchvision:NAME, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, "
    "or a trace file."
)
Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help=_MODEL_HELP,
        show_default=False,
    ),
]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=_MODEL_HELP,
        show_default=False,
    ),
]
ModelArguments = Annotated[
    list[str] | None,
    typer.Option("--arg", metavar="KEY=VALUE", help="Constructor or config argument; repeatable.", show_default=False),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=][DTYPE:]DIMS",
        help="An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.",
        show_default=False,
    ),
]
InputSize = Annotated[
    str | None, typer.Option(metavar="CxHxW", help="Image size, such as 3x640x640.", show_default=False)
]
SequenceLength = Annotated[
    int | None, typer.Option("--seq-len", min=1, help="Tokens per sample, for text models.", show_default=False)
]
InputsFrom = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION", help="Function of the batch size that returns the inputs.", show_default=False
    ),
]
Prepare = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|FILE.py:FUNCTION",
        help="Step applied to the model before tracing, such as reparameterize; repeatable.",
        show_default=False,
    ),
]
BatchOption = Annotated[
    str, typer.Option("--batch", "-b", help="8, 1,8,32, 1..1024 (powers of two), auto (the recommended batch), or max.")
]
PrecisionOption = Annotated[
    Precision | None,
    typer.Option(help="Number formats; by default the model's own, as PyTorch would run it.", show_default=False),
]
FrameworkOption = Annotated[Framework, typer.Option(help="How the graph is executed.")]
LayoutOption = Annotated[Layout, typer.Option(help="Memory format of images: nhwc is channels_last.")]
TorchVersion = Annotated[
    str, typer.Option("--torch", metavar="MAJOR.MINOR", help="PyTorch version to answer for; it decides kernels.")
]
Train = Annotated[bool, typer.Option("--train", help="Answer for training steps instead of inference.")]
OptimizerOption = Annotated[Optimizer, typer.Option(help="Optimizer of a training step.")]
Checkpointing = Annotated[bool, typer.Option("--checkpointing", help="Recompute activations in the backward pass.")]
Accumulate = Annotated[int, typer.Option(min=1, help="Micro-batches per optimizer step.")]
GpuNames = Annotated[
    list[str] | None,
    typer.Option(
        "--gpu", metavar="ID", help="Exact id or alias of a GPU; repeatable; all by default.", show_default=False
    ),
]
SpecFolders = Annotated[
    list[Path] | None,
    typer.Option("--specs", metavar="DIR|FILE", help="Own GPU specs, laid over the built-in ones.", show_default=False),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a model with operators that could not be counted.")]

DEFAULT_TORCH = "2.11"


def parse_torch_version(text: str) -> tuple[int, int]:
    """Read "2.11" or "2.11.0+cu130" as (2, 11).

    Raises:
        UsageError: it is no version.
    """
    pieces = text.split("+", maxsplit=1)[0].split(".")
    if len(pieces) < 2 or not all(piece.isdecimal() for piece in pieces[:2]):
        raise UsageError(f"--torch {text!r} is no PyTorch version; write MAJOR.MINOR, such as {DEFAULT_TORCH}.")
    return int(pieces[0]), int(pieces[1])


def make_training(*, train: bool, optimizer: Optimizer, checkpointing: bool, accumulate: int) -> Training | None:
    """Describe a training step, or None for inference.

    Raises:
        UsageError: options of a training step without `--train`.
    """
    if train:
        return Training(optimizer=optimizer, checkpointing=checkpointing, accumulate=accumulate)
    if checkpointing or accumulate > 1:
        raise UsageError("--checkpointing and --accumulate describe a training step; add --train.")
    return None


def make_workload(
    *, precision: Precision, framework: Framework, layout: Layout, torch_version: str, training: Training | None
) -> Workload:
    """Gather the conditions of a question."""
    return Workload(
        precision=precision,
        framework=framework,
        layout=layout,
        training=training,
        torch_version=parse_torch_version(torch_version),
    )
