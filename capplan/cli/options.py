"""The options that several commands share, and their words turned into types."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.completion import complete_models
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format
from capplan.core.workload import Framework, Layout, Optimizer, Precision, Training
from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.probe.inputs.request import ModelRequest

_MODEL_HELP = (
    "resnet50, timm:NAME, torchvision:NAME, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, "
    "or a trace file."
)
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=_MODEL_HELP,
        show_default=False,
        autocompletion=complete_models,
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
        help="Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; repeatable.",
        show_default=False,
    ),
]
Freeze = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Train without the parameters whose names match, such as 'backbone.*'; repeatable.",
        show_default=False,
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="int8|int4|fp8|nvfp4|NAME",
        help="Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.",
        show_default=False,
    ),
]
Activations = Annotated[
    str | None,
    typer.Option(metavar="int8|fp8", help="Quantise their activations, too.", show_default=False),
]
SelectedShare = Annotated[
    float | None,
    typer.Option(
        "--selected-share",
        metavar="SHARE",
        help="Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by default.",
        show_default=False,
    ),
]
PrecisionOption = Annotated[
    Precision | None,
    typer.Option(help="Number formats; by default the model's own, as PyTorch would run it.", show_default=False),
]
FrameworkOption = Annotated[Framework, typer.Option(help="How the graph is executed.")]
LayoutOption = Annotated[Layout, typer.Option(help="Memory format of images: nhwc is channels_last.")]
Train = Annotated[bool, typer.Option("--train", help="Answer for training steps instead of inference.")]
OptimizerOption = Annotated[Optimizer, typer.Option(help="Optimizer of a training step.")]
Checkpointing = Annotated[bool, typer.Option("--checkpointing", help="Recompute activations in the backward pass.")]
Accumulate = Annotated[int, typer.Option(min=1, help="Micro-batches per optimizer step.")]
SpecFolders = Annotated[
    list[Path] | None,
    typer.Option("--specs", metavar="DIR|FILE", help="Own GPU specs, laid over the built-in ones.", show_default=False),
]


DEFAULT_TORCH = "2.11"
_TORCHAO = "torchao="


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options that state a model's arguments and inputs."""

    arg: ModelArguments = None
    input_: Inputs = None
    input_size: InputSize = None
    seq_len: SequenceLength = None
    inputs_from: InputsFrom = None
    prepare: Prepare = None
    freeze: Freeze = None
    selected_share: SelectedShare = None
    weights: Weights = None
    activations: Activations = None

    def _weights(self) -> str | None:
        """Return the quantisation that --weights or --prepare torchao=NAME asks for.

        Raises:
            UsageError: both do, or several.
        """
        asked = [each.removeprefix(_TORCHAO) for each in self.prepare or () if each.startswith(_TORCHAO)]
        named = [*asked, *([] if self.weights is None else [self.weights])]
        if len(named) > 1:
            raise UsageError(f"the weights are quantised twice: {', '.join(named)}; name one.")
        return named[0] if named else None

    def default_precision(self) -> Precision:
        """Return the precision of what is not quantised: fp32, or the 16 bits that kernels of a format take."""
        weights = self._weights()
        if weights is None and self.activations is None:
            return Precision.FP32
        return Precision.FP16 if "int8" in (weights or self.activations or "").lower() else Precision.BF16

    def request(self, words: str) -> "ModelRequest":
        """Return the request for the model that words name."""
        from capplan.probe.inputs.request import ModelRequest

        return ModelRequest(
            words=words,
            arg=tuple(self.arg or ()),
            inputs=tuple(self.input_ or ()),
            input_size=self.input_size,
            seq_len=self.seq_len,
            inputs_from=self.inputs_from,
            prepare=tuple(each for each in self.prepare or () if not each.startswith(_TORCHAO)),
            freeze=tuple(self.freeze or ()),
            selected_share=self.selected_share,
            weights=self._weights(),
            activations=self.activations,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """Whether a command answers for training steps, and how a step is made up."""

    train: Train = False
    optimizer: OptimizerOption = Optimizer.ADAMW
    checkpointing: Checkpointing = False
    accumulate: Accumulate = 1

    def training(self) -> Training | None:
        """Return the training step, or None for inference.

        Raises:
            UsageError: options of a training step without `--train`.
        """
        if self.train:
            return Training(optimizer=self.optimizer, checkpointing=self.checkpointing, accumulate=self.accumulate)
        if self.checkpointing or self.accumulate > 1:
            raise UsageError("--checkpointing and --accumulate describe a training step; add --train.")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """How an answer is written, and where to."""

    format_: FormatOption = None
    json_: JsonOption = False
    output: OutputOption = None

    def format(self) -> Format:
        """Return the format to write: an explicit one, else the output file's extension, else a table.

        Raises:
            UsageError: contradictory or unknown formats, or an output folder that does not exist.
        """
        return resolve_format(self.format_, json_flag=self.json_, output=self.output)

    def emit(self, content: str) -> None:
        """Write the answer to stdout, or whole or not at all into the output file.

        Raises:
            UsageError: it cannot be written.
        """
        emit(content, output=self.output)
