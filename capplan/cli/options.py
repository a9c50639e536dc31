"""The options that several commands share, and their words turned into types."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.completion import complete_gpus, complete_models
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format
from capplan.core.workload import DEFAULT_UTILIZATION, Framework, Layout, Optimizer, Precision, Training, Workload
from capplan.errors import UnknownNameError, UsageError
from capplan.units import SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.app.gpus.choice import GpuRequest
    from capplan.app.gpus.priced import PriceFilters
    from capplan.core.plan.order import SortKey
    from capplan.core.plan.types import Job, Limits
    from capplan.probe.inputs.request import ModelRequest

_MODEL_HELP = (
    "resnet50, timm:NAME, torchvision:NAME, hf:config.json, hf:bert, FILE.py:Name, package.module:Name, "
    "or a trace file."
)
Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL",
        help=_MODEL_HELP,
        show_default=False,
        autocompletion=complete_models,
    ),
]
OptionalModels = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODEL...]",
        help=f"{_MODEL_HELP} None where the load file lists services.",
        show_default=False,
        autocompletion=complete_models,
    ),
]
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
        "--gpu",
        metavar="NAME",
        help="A GPU such as l4 or 'RTX 4090', a family such as a100, or a list t4,l4; repeatable; all by default.",
        show_default=False,
        autocompletion=complete_gpus,
    ),
]
SpecFolders = Annotated[
    list[Path] | None,
    typer.Option("--specs", metavar="DIR|FILE", help="Own GPU specs, laid over the built-in ones.", show_default=False),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a model with operators that could not be counted.")]

MaxLatency = Annotated[
    str | None, typer.Option(metavar="TIME", help="Latency limit per batch, such as 50ms.", show_default=False)
]
Utilization = Annotated[float, typer.Option(min=0.01, max=1.0, help="Share of usable memory that may be filled.")]

DEFAULT_TORCH = "2.11"
SORT_KEYS = ("throughput", "latency", "memory", "cost", "name")
_TORCHAO = "torchao="


def parse_torch_version(text: str) -> tuple[int, int]:
    """Read "2.11" or "2.11.0+cu130" as (2, 11).

    Raises:
        UsageError: it is not a version.
    """
    pieces = text.split("+", maxsplit=1)[0].split(".")
    if len(pieces) < 2 or not all(piece.isascii() and piece.isdecimal() and len(piece) < 5 for piece in pieces[:2]):
        raise UsageError(f"--torch {text!r} is not a PyTorch version; write MAJOR.MINOR, such as {DEFAULT_TORCH}.")
    return int(pieces[0]), int(pieces[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options that state a model's arguments and inputs."""

    arg: ModelArguments = None
    input_: Inputs = None
    input_size: InputSize = None
    seq_len: SequenceLength = None
    inputs_from: InputsFrom = None
    prepare: Prepare = None
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
class WorkloadOptions:
    """The conditions under which a command answers."""

    precision: PrecisionOption = None
    framework: FrameworkOption = Framework.EAGER
    layout: LayoutOption = Layout.NCHW
    torch_version: TorchVersion = DEFAULT_TORCH
    train: Train = False
    optimizer: OptimizerOption = Optimizer.ADAMW
    checkpointing: Checkpointing = False
    accumulate: Accumulate = 1

    @property
    def is_default(self) -> bool:
        """Return True if neither a precision nor training was asked for."""
        return self.precision is None and not self.train

    def workload(self, model: ModelOptions | None = None) -> Workload:
        """Return the workload.

        Args:
            model: the model's options; one with quantised weights runs in 16 bits where no precision is named.

        Raises:
            UsageError: a value breaks its grammar, or options contradict each other.
        """
        return Workload(
            precision=self.precision or (Precision.FP32 if model is None else model.default_precision()),
            framework=self.framework,
            layout=self.layout,
            training=TrainingOptions(
                train=self.train,
                optimizer=self.optimizer,
                checkpointing=self.checkpointing,
                accumulate=self.accumulate,
            ).training(),
            torch_version=parse_torch_version(self.torch_version),
        )


Vendors = Annotated[
    list[str] | None,
    typer.Option("--vendor", metavar="NAME", help="NVIDIA, AMD, ...; repeatable.", show_default=False),
]
Architectures = Annotated[
    list[str] | None,
    typer.Option("--arch", metavar="NAME", help="Hopper, ada-geforce, ...; repeatable.", show_default=False),
]
MinMemory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="At least this printed memory: 24GiB.", show_default=False)
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="'bf16 >= 300 TFLOP/s', 'segment = consumer', 'tdp <= 75 W and l2 > 4MiB'; repeatable.",
        show_default=False,
    ),
]


WithCpus = Annotated[
    bool, typer.Option("--with-cpus", help="Answer for the x86 CPUs of the database, too: is a GPU needed at all?")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """Which GPUs a command answers for."""

    gpu: GpuNames = None
    vendor: Vendors = None
    arch: Architectures = None
    min_memory: MinMemory = None
    where: Where = None
    specs: SpecFolders = None
    with_cpus: WithCpus = False

    @property
    def narrows(self) -> bool:
        """Return True if GPUs are named or filtered, so that not all of the database are meant."""
        return any((self.gpu, self.vendor, self.arch, self.min_memory, self.where))

    def request(self) -> "GpuRequest":
        """Return the request for these GPUs."""
        from capplan.app.gpus.choice import GpuFilters, GpuRequest

        filters = GpuFilters(
            where=tuple(self.where or ()),
            vendors=tuple(self.vendor or ()),
            architectures=tuple(self.arch or ()),
            min_memory=self.min_memory,
        )
        return GpuRequest(
            ids=tuple(self.gpu or ()),
            with_cpus=self.with_cpus,
            filters=filters,
            overlays=tuple(self.specs or ()),
        )


Providers = Annotated[
    list[str] | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        help="Only GPUs that this provider rents, at its prices; repeatable.",
        show_default=False,
    ),
]
OnlyPriced = Annotated[bool, typer.Option("--priced", help="Only GPUs with an on-demand price.")]
MaxPrice = Annotated[
    float | None,
    typer.Option(min=0, metavar="USD", help="Only GPUs up to this price per hour.", show_default=False),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOptions:
    """Which prices count, and which GPUs they leave."""

    provider: Providers = None
    priced: OnlyPriced = False
    max_price: MaxPrice = None

    def filters(self) -> "PriceFilters":
        """Return the filters of prices."""
        from capplan.app.gpus.priced import PriceFilters

        return PriceFilters(
            providers=tuple(self.provider or ()), only_priced=self.priced, max_usd_per_hour=self.max_price
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """What an answer must keep: latency, throughput, and the share of memory that may be filled."""

    max_latency: MaxLatency = None
    min_throughput: Annotated[
        float | None,
        typer.Option(min=0, max=1e15, metavar="SAMPLES/S", help="Samples per second wanted.", show_default=False),
    ] = None
    utilization: Utilization = DEFAULT_UTILIZATION

    def limits(self) -> "Limits":
        """Return the limits.

        Raises:
            UsageError: the latency is not a time.
        """
        from capplan.core.plan.types import Limits

        return Limits(
            utilization_fraction=self.utilization,
            max_latency_s=parse_quantity(self.max_latency, SECONDS, what="--max-latency") if self.max_latency else None,
            min_throughput_per_s=self.min_throughput,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """A finite amount of work."""

    samples: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**15, help="Samples of a whole job: adds the GPU-hours it takes.", show_default=False
        ),
    ] = None
    epochs: Annotated[float, typer.Option(min=0, max=1e9, help="How often the job takes each of its samples.")] = 1.0

    def job(self) -> "Job | None":
        """Return the job; None where none is stated."""
        from capplan.core.plan.types import Job

        return None if self.samples is None else Job(samples=self.samples, epochs=self.epochs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentOptions:
    """How much of the answer is shown, and in which order."""

    everything: Annotated[
        bool, typer.Option("--all", help="Show every GPU, with all columns and notes, not the short answer.")
    ] = False
    top: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Show the first N GPUs in order of --sort.", show_default=False),
    ] = None
    sort: Annotated[str, typer.Option(help=f"Rank by {', '.join(SORT_KEYS)}; memory puts the smallest GPU first.")] = (
        "throughput"
    )

    def sort_key(self) -> "SortKey":
        """Return what ranks the GPUs.

        Raises:
            UnknownNameError: there is no such key.
        """
        from capplan.core.plan.order import SortKey

        if self.sort not in SORT_KEYS:
            raise UnknownNameError("sort key", self.sort, SORT_KEYS, hint=f"Known: {', '.join(SORT_KEYS)}.")
        return SortKey(self.sort)


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
