"""The parts of questions that several verbs share: a model, its conditions, GPUs, prices, limits, a job."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Meta

from capplan.core.pipelines.types import Offload
from capplan.core.workload import (
    DEFAULT_UTILIZATION,
    Configuration,
    Framework,
    Host,
    Layout,
    Optimizer,
    Precision,
    Training,
    Workload,
)
from capplan.errors import UsageError
from capplan.verbs.statement.options import ANYWHERE, HERE, Door, Option, Topic
from capplan.verbs.statement.words import (
    ASSIGNMENTS,
    BATCHES,
    PLOT,
    SHAPE,
    TIME,
    TORCH_VERSION,
    WATTS,
    WHOLE_COUNT,
    assignment,
)  # fmt: skip

if TYPE_CHECKING:
    from capplan.app.gpu_choice import GpuFilters, PriceFilters
    from capplan.core.gpus.machines import LocalCurrency
    from capplan.core.plan.types import JobSize, Limits
    from capplan.core.power import PowerLaw
    from capplan.probe.inputs.grammar import ModelRequest
    from capplan.specs.prices import Prices

Text = str
Name = Annotated[str, Meta(min_length=1)]
Pattern = Annotated[str, Meta(min_length=1, max_length=256)]

DEFAULT_TORCH = Workload().torch_version
EVERYWHERE = ANYWHERE | Door.CONFIG
"""A field of any question, whose default a configuration file may set."""
ON_PAGE = EVERYWHERE | Door.PAGE
"""Such a field, which the form of the page shows, too."""
SWEPT = ANYWHERE | Door.SWEEP

MODEL_HELP = (
    "resnet50, timm:NAME, torchvision:NAME, ORG/NAME of the Hugging Face Hub, hf:config.json, hf:bert, FILE.py:Name, "
    "package.module:Name, "
    "a trace file, or a pipeline: diffusers:NAME, FILE.pipeline.yaml."
)
_TORCHAO = "torchao="
_Kind = TypeVar("_Kind")


def from_fields(kind: type[_Kind], question: Any, **stated: Any) -> _Kind:
    """Return a dataclass whose fields hold what the question's fields of the same names hold."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # only dataclasses are asked for
    return kind(**{name: getattr(question, name) for name in names if hasattr(question, name)} | stated)


def batch_sizes(help_: str, *, doors: Door = EVERYWHERE, shows_default: bool = True) -> Option:
    """Return how batches are written: a list, a span of powers of two, or words for what is found."""
    return Option(
        help=help_, flags=("--batch", "-b"), words=BATCHES, metavar="SIZES", topic=Topic.WORKLOAD,
        shows_default=shows_default, doors=doors, is_usual=True,
    )  # fmt: skip


def one_batch(help_: str, *, doors: Door = EVERYWHERE) -> Option:
    """Return how one batch is written."""
    return Option(help=help_, flags=("--batch", "-b"), topic=Topic.WORKLOAD, doors=doors, is_usual=True)


def picture_file(help_: str) -> Option:
    """Return how the file of a chart is written."""
    return Option(help=help_, metavar=PLOT, topic=Topic.ANSWER, doors=Door.COMMAND)


def in_answer(
    help_: str, *flags: str, doors: Door = ANYWHERE & ~Door.PYTHON, shows_default: bool = False, is_usual: bool = False
) -> Option:
    """Return how a field is written that decides what is shown of an answer, which Python holds whole."""
    return Option(
        help=help_, flags=flags, topic=Topic.ANSWER, shows_default=shows_default, doors=doors, is_usual=is_usual
    )


LoadTree = Annotated[
    dict[str, Any] | None,
    Option(help="What a LOAD.yaml holds.", flags=("--load",), doors=Door.HTTP, wire="load", is_usual=True),
]
ModelConfig = Annotated[
    dict[str, Any] | None,
    Option(help="The content of a transformers config.json, in the place of a model's name.", doors=Door.HTTP),
]
Everything = Annotated[
    bool, in_answer("Write every option, estimate and offer into JSON, not the leading options alone.", "--all")
]
Title = Annotated[Text | None, Option(help="Title of the report.", metavar="TEXT", topic=Topic.ANSWER)]
TORCH = Option(
    help="PyTorch version to answer for; it decides kernels.", flags=("--torch",), metavar="MAJOR.MINOR",
    topic=Topic.WORKLOAD, words=TORCH_VERSION, shows_default=True, doors=EVERYWHERE | Door.SWEEP,
)  # fmt: skip
LAYOUT = Option(
    help="Memory format of images: nhwc is channels_last.", topic=Topic.WORKLOAD, shows_default=True,
    doors=ON_PAGE | Door.SWEEP, label="Layout",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NoFields:
    """What is asked without any option."""


@dataclass(frozen=True, kw_only=True)
class InputFields:
    """A model's arguments and inputs, and how its layers are quantised."""

    TOPIC = Topic.MODEL

    arguments: Annotated[
        dict[str, Any],
        Option(
            help="Constructor or config argument; repeatable.", flags=("--arg",), metavar="KEY=VALUE",
            words=ASSIGNMENTS, doors=SWEPT,
        ),
    ] = field(default_factory=dict)  # fmt: skip
    inputs: Annotated[
        tuple[Text, ...],
        Meta(max_length=32),
        Option(
            is_usual=True,
            help="An input such as x=3x224x224 or ids=int64:Nx128; N is the batch; repeatable.", flags=("--input",),
            metavar="[NAME=][DTYPE:]DIMS", doors=SWEPT,
        ),
    ] = ()  # fmt: skip
    input_size: Annotated[
        str | None,
        Option(
            is_usual=True, help="Image size, such as 3x640x640.", metavar="CxHxW", words=SHAPE,
            doors=SWEPT | Door.PAGE, label="Image size", placeholder="3x224x224",
        ),
    ] = None  # fmt: skip
    seq_len: Annotated[
        int | None,
        Meta(ge=1),
        Option(
            is_usual=True, help="Tokens per sample, for text models.", doors=SWEPT | Door.PAGE,
            label="Tokens per sample", placeholder="default",
        ),
    ] = None  # fmt: skip
    inputs_from: Annotated[
        str | None,
        Option(
            help="Function of the batch size that returns the inputs.", metavar="FILE.py:FUNCTION",
            doors=HERE | Door.SWEEP,
        ),
    ] = None  # fmt: skip
    prepare: Annotated[
        tuple[str, ...],
        Option(
            help="Step before tracing: fuse, reparameterize, lora=16, merge_lora, drop_layers=2, torchao=NAME; "
            "repeatable.",
            metavar="NAME|FILE.py:FUNCTION", doors=HERE | Door.SWEEP,
        ),
    ] = ()  # fmt: skip
    freeze: Annotated[
        tuple[Pattern, ...],
        Meta(max_length=32),
        Option(
            help="Train without the parameters whose names match, such as 'backbone.*'; repeatable.",
            metavar="PATTERN", doors=SWEPT,
        ),
    ] = ()  # fmt: skip
    selected_share: Annotated[
        float | None,
        Option(
            help="Share of candidates that stay where the data decides: boxes after suppression, masks; 0.25 by "
            "default.",
            metavar="SHARE",
        ),
    ] = None  # fmt: skip
    as_cpu: Annotated[
        bool,
        Option(
            help="Run the model's code as on a machine without a CUDA device; by default torch.cuda and tensors answer "
            "as with one.",
        ),
    ] = False  # fmt: skip
    grad: Annotated[
        bool,
        Option(help="Run inference with gradients on, as models of forces do that differentiate in their forward."),
    ] = False
    new_tokens: Annotated[
        int | None,
        Meta(ge=1, le=4096),
        Option(
            help="Run the model's generate for N tokens: prefill of the input, then a step for each further token.",
            metavar="N", doors=SWEPT,
        ),
    ] = None  # fmt: skip
    weights: Annotated[
        Text | None,
        Option(
            help="Quantise the weights of linear layers; NAME is a configuration of torchao, such as int8_dynamic.",
            metavar="int8|int4|fp8|nvfp4|NAME", doors=SWEPT | Door.PAGE, label="Weights",
            placeholder="int8, int4, fp8 or nvfp4",
        ),
    ] = None  # fmt: skip
    activations: Annotated[
        Text | None,
        Option(
            help="Quantise their activations, too.", metavar="int8|fp8", doors=SWEPT | Door.PAGE,
            label="Activations", placeholder="int8 or fp8",
        ),
    ] = None  # fmt: skip

    def quantised_weights(self) -> str | None:
        """Return the format of quantised weights that `weights`, or the step torchao=NAME of `prepare`, asks for."""
        steps = [step.removeprefix(_TORCHAO) for step in self.prepare if step.startswith(_TORCHAO)]
        named = [*steps, *([] if self.weights is None else [self.weights])]
        if len(named) > 1:
            raise UsageError(f"the weights are quantised twice: {', '.join(named)}; name one.")
        return named[0] if named else None

    def default_precision(self) -> Precision:
        """Return the precision of what is not quantised: fp32, or the 16 bits that kernels of a format take."""
        weights = self.quantised_weights()
        if weights is None and self.activations is None:
            return Precision.FP32
        return Precision.FP16 if "int8" in (weights or self.activations or "").lower() else Precision.BF16

    def of(self, words: str) -> "ModelFields":
        """Return these fields for the model that words name."""
        return ModelFields(model=words, **{field.name: getattr(self, field.name) for field in fields(InputFields)})


@dataclass(frozen=True, kw_only=True)
class ModelFields(InputFields):
    """A model, its constructor's arguments, its inputs, and how its layers are quantised."""

    model: Annotated[
        Text,
        Option(
            help=MODEL_HELP,
            served="resnet50, timm:NAME, torchvision:NAME, hf:bert, or a pipeline as diffusers:NAME; no file is read.",
            metavar="MODEL", topic=Topic.MODEL, is_argument=True, completes="models", doors=SWEPT,
            label="Model",
        ),
    ] = ""  # fmt: skip
    config: ModelConfig = None

    def model_request(self) -> "ModelRequest":
        """Return the request for the model, whatever its words name."""
        from capplan.probe.inputs.grammar import ModelRequest

        return from_fields(
            ModelRequest,
            self,
            words=self.model,
            arg=tuple(assignment(name, value) for name, value in self.arguments.items()),
            prepare=tuple(step for step in self.prepare if not step.startswith(_TORCHAO)),
            weights=self.quantised_weights(),
        )


@dataclass(frozen=True, kw_only=True)
class PipelineItemFields:
    """What is said of a pipeline on one GPU: its item, and where weights wait."""

    TOPIC = Topic.PIPELINES

    settings: Annotated[
        dict[str, Any],
        Option(
            help="Set a parameter of a pipeline, such as steps=28 or height=768; repeatable.", flags=("--set",),
            metavar="NAME=NUMBER", words=ASSIGNMENTS, doors=SWEPT,
        ),
    ] = field(default_factory=dict)  # fmt: skip
    part_settings: Annotated[
        dict[str, Any],
        Option(
            help="State how a part of a pipeline runs: vae.precision=fp32, unet.attention=flash-3, ...; repeatable.",
            flags=("--part",), metavar="PART.KEY=VALUE", words=ASSIGNMENTS, doors=SWEPT,
        ),
    ] = field(default_factory=dict)  # fmt: skip
    offload: Annotated[
        Offload | None,
        Option(
            help="Where the weights of a pipeline's waiting parts are; the fastest that fits by default.",
            doors=SWEPT,
        ),
    ] = None  # fmt: skip
    allow_code: Annotated[
        bool, Option(help="Import models that a file names as Python code.", topic=Topic.MODEL, doors=HERE)
    ] = False


@dataclass(frozen=True, kw_only=True)
class PipelineFields(PipelineItemFields):
    """What is said of a pipeline: the same, and how GPUs share an item."""

    TOPIC = Topic.PIPELINES

    ulysses: Annotated[
        int,
        Meta(ge=1, le=64),
        Option(help="GPUs of a machine that share a pipeline's sequence by heads; times ⟨ring⟩."),
    ] = 1  # fmt: skip
    ring: Annotated[
        int,
        Meta(ge=1, le=64),
        Option(help="GPUs that share it in a ring of blocks; times ⟨ulysses⟩."),
    ] = 1  # fmt: skip

    @property
    def sharing_gpus(self) -> int:
        """Return how many GPUs make one batch of items together."""
        return self.ulysses * self.ring

    def refuse_pipeline_options(self, model: str) -> None:
        """Refuse options of pipelines beside a model."""
        if self.settings or self.part_settings or self.offload is not None or self.sharing_gpus > 1:
            raise UsageError(
                f"⟨set⟩, ⟨part⟩, ⟨offload⟩, ⟨ulysses⟩ and ⟨ring⟩ describe a pipeline, and {model} is a model: name a "
                "pipeline, such as diffusers:black-forest-labs/FLUX.1-dev or FILE.pipeline.yaml."
            )


@dataclass(frozen=True, kw_only=True)
class TrainingFields:
    """Whether a question is about training steps, and how a step is made up."""

    TOPIC = Topic.TRAINING

    train: Annotated[
        bool,
        Option(
            is_usual=True,
            help="Answer for training steps instead of inference.", topic=Topic.WORKLOAD, doors=ANYWHERE | Door.PAGE,
            label="Training steps",
        ),
    ] = False  # fmt: skip
    optimizer: Annotated[
        Optimizer,
        Option(help="Optimizer of a training step.", shows_default=True, doors=SWEPT | Door.PAGE, label="Optimizer"),
    ] = Optimizer.ADAMW  # fmt: skip
    checkpointing: Annotated[
        bool,
        Option(help="Recompute activations in the backward pass.", doors=SWEPT | Door.PAGE, label="Checkpointing"),
    ] = False  # fmt: skip
    accumulate: Annotated[
        int,
        Meta(ge=1, le=2**20),
        Option(help="Micro-batches per optimizer step.", shows_default=True, doors=SWEPT),
    ] = 1  # fmt: skip

    def training(self) -> Training | None:
        """Return the training step, or None for inference."""
        if self.train:
            return Training(optimizer=self.optimizer, checkpointing=self.checkpointing, accumulate=self.accumulate)
        if self.checkpointing or self.accumulate > 1:
            raise UsageError("⟨checkpointing⟩ and ⟨accumulate⟩ describe a training step; add ⟨train⟩.")
        return None


@dataclass(frozen=True, kw_only=True)
class RecordingFields:
    """The number formats and the memory format of a recording."""

    precision: Annotated[
        Precision | None,
        Option(
            is_usual=True,
            help="Number formats; by default the model's own, as PyTorch would run it.", topic=Topic.WORKLOAD,
            metavar="|".join(Precision), doors=ON_PAGE | Door.SWEEP, label="Precision", placeholder="the model's own",
        ),
    ] = None  # fmt: skip
    layout: Annotated[Layout, LAYOUT] = Layout.NCHW

    def configuration(self, default: Precision, *, training: Training | None) -> Configuration:
        """Return which recording answers."""
        precision = self.precision or default
        return Configuration(
            variant=precision.variant,
            layout=self.layout,
            training=training,
            half_dtype=precision.half_dtype or "bfloat16",
        )


@dataclass(frozen=True, kw_only=True)
class WorkloadFields(RecordingFields, TrainingFields):
    """The conditions under which a model runs."""

    framework: Annotated[
        Framework,
        Option(
            is_usual=True,
            help="How the graph is executed.", topic=Topic.WORKLOAD, shows_default=True, doors=ON_PAGE | Door.SWEEP,
            label="Framework",
        ),
    ] = Framework.EAGER  # fmt: skip
    torch_version: Annotated[tuple[int, int], TORCH] = DEFAULT_TORCH

    def workload(self, default: Precision = Precision.FP32) -> Workload:
        """Return the workload."""
        return Workload(
            precision=self.precision or default,
            framework=self.framework,
            layout=self.layout,
            training=self.training(),
            torch_version=self.torch_version,
        )


@dataclass(frozen=True, kw_only=True)
class HostFields:
    """The machine whose processor launches the kernels."""

    host: Annotated[
        Host | None,
        Option(
            help="The machine that launches kernels: one for all GPUs, by default a server, or for each card that of "
            "its own timings or its year.",
            topic=Topic.WORKLOAD, doors=ON_PAGE | Door.SWEEP, label="Host", placeholder="server",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TimedFields(HostFields, WorkloadFields):
    """The conditions under which a model runs, and the machine that launches it."""

    def workload(self, default: Precision = Precision.FP32) -> Workload:
        """Return the workload."""
        return replace(super().workload(default), host=self.host)


OwnSpecs = Annotated[
    tuple[Path, ...],
    Option(
        help="Own GPU specs, laid over the built-in ones.", metavar="DIR|FILE", topic=Topic.GPUS,
        doors=HERE | Door.CONFIG,
    ),
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SpecFields:
    """Own GPU specs alone."""

    specs: OwnSpecs = ()


@dataclass(frozen=True, kw_only=True)
class GpuNameFields:
    """The names of GPUs."""

    gpus: Annotated[
        tuple[Name, ...],
        Meta(max_length=400),
        Option(
            is_usual=True,
            help="A GPU such as l4 or 'RTX 4090', a family such as a100, or a list t4,l4; repeatable; all by default.",
            flags=("--gpu",), metavar="NAME", topic=Topic.GPUS, doors=ON_PAGE, completes="gpus", label="GPUs",
            placeholder="all; or l4,a100",
        ),
    ] = ()  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GpuFilterFields:
    """Conditions that GPUs must meet, and own specs."""

    vendors: Annotated[
        tuple[Name, ...],
        Option(
            help="NVIDIA, AMD, ...; repeatable.", flags=("--vendor",), metavar="NAME", topic=Topic.GPUS,
            doors=EVERYWHERE,
        ),
    ] = ()  # fmt: skip
    architectures: Annotated[
        tuple[Name, ...],
        Option(
            help="Hopper, ada-geforce, ...; repeatable.", flags=("--arch",), metavar="NAME", topic=Topic.GPUS,
            doors=EVERYWHERE,
        ),
    ] = ()  # fmt: skip
    min_memory: Annotated[
        Text | None,
        Option(
            help="At least this printed memory: 24GiB.", metavar="SIZE", topic=Topic.GPUS, doors=ON_PAGE,
            label="Least memory", placeholder="24GiB",
        ),
    ] = None  # fmt: skip
    where: Annotated[
        tuple[Name, ...],
        Option(
            help="'bf16 >= 300 TFLOP/s', 'segment = consumer', 'tdp <= 75 W and l2 > 4MiB'; repeatable.",
            metavar="CONDITION", topic=Topic.GPUS, doors=EVERYWHERE,
        ),
    ] = ()  # fmt: skip
    specs: OwnSpecs = ()

    def gpu_filters(self) -> "GpuFilters":
        """Return the conditions that the GPUs must meet."""
        from capplan.app.gpu_choice import GpuFilters

        return from_fields(GpuFilters, self)


@dataclass(frozen=True, kw_only=True)
class GpuFields(GpuNameFields, GpuFilterFields):
    """Which GPUs a question is about."""

    with_cpus: Annotated[
        bool,
        Option(help="Answer for the x86 CPUs of the database, too: is a GPU needed at all?"),
    ] = False

    @property
    def narrows(self) -> bool:
        """Return True if GPUs are named or filtered, so that not all of the database are meant."""
        return any((self.gpus, self.vendors, self.architectures, self.min_memory, self.where))


@dataclass(frozen=True, kw_only=True)
class OfferFields:
    """From whom and where GPUs may be rented."""

    providers: Annotated[
        tuple[Name, ...],
        Option(
            is_usual=True, help="Only GPUs that this provider rents, at its prices; repeatable.", flags=("--provider",),
            metavar="NAME", topic=Topic.PRICES, doors=ON_PAGE, label="Providers", placeholder="all; or aws,gcp",
        ),
    ] = ()  # fmt: skip
    regions: Annotated[
        tuple[Name, ...],
        Option(
            help="Only offers in this region, country (de) or area (eu); repeatable.",
            flags=("--region", "--country"), metavar="NAME", topic=Topic.PRICES, doors=EVERYWHERE,
        ),
    ] = ()  # fmt: skip

    def offered(self, prices: "Prices") -> "Prices":
        """Return the prices of the providers and regions asked for, and all purchases."""
        from capplan.app.gpu_choice import PriceFilters, offered

        return offered(prices, PriceFilters(providers=self.providers, regions=self.regions))


@dataclass(frozen=True, kw_only=True)
class CurrencyFields(OfferFields):
    """In which currency amounts stand beside US dollars."""

    currency: Annotated[
        Name | None,
        Option(
            help="Also write the cost in this currency, with VAT: EUR at a dated reference rate, or EUR=1.08 at your "
            "own price in USD. That of ⟨region⟩ by default.",
            metavar="CODE", topic=Topic.PRICES, doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip
    buyer: Annotated[
        Name | None,
        Option(
            help="Country in which your company is established, such as de: its VAT and currency count.",
            metavar="COUNTRY", topic=Topic.PRICES, doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip
    deducts_vat: Annotated[
        bool,
        Option(help="You deduct VAT: it is not a cost.", flags=("--vat-deductible",), topic=Topic.PRICES,
            doors=EVERYWHERE),
    ] = False  # fmt: skip

    def local_currency(self) -> "LocalCurrency | None":
        """Return the currency asked for, else the buyer's, else that of the regions; None for US dollars alone."""
        from capplan.specs.providers import load_providers

        providers = load_providers()
        buyer = None if self.buyer is None else providers.country(self.buyer)
        if self.currency is None and buyer is None and not self.regions:
            return None
        local = providers.local_currency(self.currency, regions=self.regions if buyer is None else (buyer.code,))
        if local is None:
            return None
        return replace(local, buyer=buyer.code if buyer else None, deducts_vat=self.deducts_vat)


@dataclass(frozen=True, kw_only=True)
class PriceFields(OfferFields):
    """Which prices count, and which GPUs they leave."""

    priced: Annotated[bool, Option(help="Only GPUs with an on-demand price.", topic=Topic.PRICES, doors=EVERYWHERE)] = (
        False
    )
    max_usd_per_hour: Annotated[
        float | None,
        Meta(ge=0.0, le=1e15),
        Option(
            is_usual=True,
            help="Only GPUs whose smallest machine is rented for at most this an hour.", flags=("--max-price",),
            metavar="USD", topic=Topic.PRICES, doors=ON_PAGE, label="Most USD per hour",
        ),
    ] = None  # fmt: skip

    def price_filters(self) -> "PriceFilters":
        """Return the filters of prices."""
        from capplan.app.gpu_choice import PriceFilters

        return from_fields(PriceFilters, self, only_priced=self.priced)


@dataclass(frozen=True, kw_only=True)
class UtilizationFields:
    """The share of usable memory that may be filled."""

    utilization_fraction: Annotated[
        float,
        Meta(ge=0.01, le=1.0),
        Option(
            help="Share of usable memory that may be filled.", flags=("--utilization",), topic=Topic.LIMITS,
            shows_default=True, doors=EVERYWHERE | Door.SWEEP,
        ),
    ] = DEFAULT_UTILIZATION  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LimitFields(UtilizationFields):
    """What an answer must keep: latency, throughput, and the share of memory that may be filled."""

    max_latency_s: Annotated[
        float | None,
        Meta(ge=0.0, le=1e15),
        Option(
            is_usual=True,
            help="Latency limit per batch, such as 50ms.", flags=("--max-latency",), metavar="TIME", words=TIME,
            topic=Topic.LIMITS, doors=ON_PAGE, label="Latency limit", placeholder="50ms",
        ),
    ] = None  # fmt: skip
    min_throughput_per_s: Annotated[
        float | None,
        Meta(ge=0.0, le=1e15),
        Option(
            help="Samples per second wanted.", flags=("--min-throughput",), metavar="SAMPLES/S", topic=Topic.LIMITS,
            doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip

    def limits(self, rate_per_s: float | None = None) -> "Limits":
        """Return the limits, with a load that several GPUs carry together. [samples/s]"""
        from capplan.core.plan.types import Limits

        return Limits(
            utilization_fraction=self.utilization_fraction,
            max_latency_s=self.max_latency_s,
            min_throughput_per_s=self.min_throughput_per_s,
            rate_per_s=rate_per_s,
        )


MOST_CARD_W = 5000.0
"""Largest power limit of one GPU that can be asked for, twice that of the largest announced one. [W]"""


@dataclass(frozen=True, kw_only=True)
class EnergyFields:
    """Whether power and energy are shown, and a power limit that is set on every card."""

    energy: Annotated[
        bool,
        Option(
            help="Show the power of the GPUs and the joules of a sample, or of an output token.", topic=Topic.ANSWER,
            doors=ON_PAGE | Door.SWEEP, label="Power and energy",
        ),
    ] = False  # fmt: skip
    power_limit_w: Annotated[
        float | None,
        Meta(gt=0.0, le=MOST_CARD_W),
        Option(
            help="A power limit that is set on each GPU (nvidia-smi -pl), such as 300W: the time and energy under it.",
            flags=("--power-limit",), metavar="POWER", words=WATTS, topic=Topic.WORKLOAD, doors=ON_PAGE | Door.SWEEP,
            label="Power limit", placeholder="300W",
        ),
    ] = None  # fmt: skip

    def power_law(self, *, needed: bool = False) -> "PowerLaw | None":
        """Return the law of power, with the power limit that is asked for; None where nothing asks for it."""
        return self.limited_law() if self.energy or self.power_limit_w is not None or needed else None

    def limited_law(self) -> "PowerLaw":
        """Return the law of power with the power limit that is asked for."""
        from capplan.specs.calibration import load_calibration
        from capplan.specs.fitted import load_power_law

        own = self.calibration if isinstance(self, CalibrationFields) else None
        cards = load_calibration(own).power if own else {}
        return replace(load_power_law(), cap_w=self.power_limit_w, cards=cards)


@dataclass(frozen=True, kw_only=True)
class LaunchFilesFields:
    """A folder for the files that start what is planned."""

    launch_files: Annotated[
        Path | None,
        Option(
            help="Write what starts it by SkyPilot, Docker Compose, Kubernetes, KServe, Slurm and Terraform.",
            metavar="FOLDER", doors=Door.COMMAND,
        ),
    ] = None  # fmt: skip

    def in_folder(self, files: Mapping[str, str]) -> dict[Path, bytes]:
        """Return the contents of files by their paths, none where no folder is named; an absolute name is a path."""
        from capplan.printable import printable

        if (folder := self.launch_files) is not None:
            with suppress(OSError):  # whoever writes into it says what is wrong
                folder.mkdir(exist_ok=True)
        asked = {Path(folder or ".") / name: text for name, text in files.items() if folder or Path(name).is_absolute()}
        return {path: printable(text).encode() for path, text in asked.items()}


@dataclass(frozen=True, kw_only=True)
class DrawFields(EnergyFields):
    """Energy, and the most that may be drawn."""

    max_power_draw_w: Annotated[
        float | None,
        Meta(gt=0.0, le=1e9),
        Option(
            help="Most mean power of all GPUs of an answer, without the host, such as 400W.",
            flags=("--max-power-draw",), metavar="POWER", words=WATTS, topic=Topic.LIMITS, doors=EVERYWHERE,
        ),
    ] = None  # fmt: skip

    def power_law(self, *, needed: bool = False) -> "PowerLaw | None":
        """Return the law of power, which a limit of the draw needs, too."""
        return EnergyFields.power_law(self, needed=needed or self.max_power_draw_w is not None)


@dataclass(frozen=True, kw_only=True)
class JobFields:
    """A finite amount of work."""

    samples: Annotated[
        int | None,
        Meta(ge=1, le=10**15),
        Option(
            help="Samples of a whole job, such as 1M: adds the GPU-hours it takes.", metavar="COUNT", words=WHOLE_COUNT,
            topic=Topic.LIMITS,
        ),
    ] = None  # fmt: skip
    epochs: Annotated[
        float,
        Meta(ge=0.0, le=1e9),
        Option(help="How often the job takes each of its samples.", topic=Topic.LIMITS, shows_default=True),
    ] = 1.0

    def job(self) -> "JobSize | None":
        """Return the job; None where none is stated."""
        from capplan.core.plan.types import JobSize

        if self.samples is None and self.epochs != 1.0:
            raise UsageError("⟨epochs⟩ counts passes over the samples of a job; add ⟨samples⟩.")
        return None if self.samples is None else JobSize(samples=self.samples, epochs=self.epochs)


@dataclass(frozen=True, kw_only=True)
class StrictFields:
    """Whether a model that could not be counted whole is refused."""

    strict: Annotated[
        bool, Option(help="Refuse a model with operators that could not be counted.", topic=Topic.LIMITS)
    ] = False


@dataclass(frozen=True, kw_only=True)
class CalibrationFields:
    """The calibration that times are estimated with."""

    calibration: Annotated[
        Path | None, Option(help="A calibration of your own; the shipped one by default.", doors=HERE)
    ] = None
