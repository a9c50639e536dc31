"""The questions that the service answers, as msgspec types: what they hold is checked when they are decoded.

The fields are those of the Python verbs (`capplan.plan`, `capplan.memory`, ...). Lengths are bounded, so that no
request can ask for unbounded work.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Words = Annotated[str, Meta(max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Names = Annotated[list[Name], Meta(max_length=200)]
Count = Annotated[int, Meta(ge=1, le=10**15)]
Batch = Annotated[int, Meta(ge=1, le=2**40)]
Batches = Annotated[list[Batch], Meta(min_length=1, max_length=64)] | Words
Positive = Annotated[float, Meta(ge=0.0, le=1e15)]
Share = Annotated[float, Meta(ge=0.01, le=1.0)]
Config = Annotated[dict[str, Any], Meta(description="The content of a transformers config.json.")]
ModelWords = Annotated[
    str,
    Meta(
        max_length=200,
        description=(
            "resnet50, torchvision:NAME, timm:NAME, hf:ARCHITECTURE, or trace:ID for a trace that was uploaded. "
            "Left out where `config` is given."
        ),
        examples=["torchvision:resnet50"],
    ),
]


class Training(Struct, kw_only=True, forbid_unknown_fields=True):
    """A training step."""

    optimizer: Words = "adamw"
    checkpointing: bool = False
    accumulate: Annotated[int, Meta(ge=1, le=10**6)] = 1


class ModelPart(Struct, kw_only=True, forbid_unknown_fields=True):
    """A model, its constructor's arguments and its inputs."""

    model: ModelWords | None = None
    config: Config | None = None
    arguments: dict[Name, Any] = {}
    inputs: Annotated[list[Words], Meta(max_length=32)] = []
    input_size: Annotated[list[Count], Meta(max_length=8)] | Words | None = None
    seq_len: Annotated[int, Meta(ge=1, le=10**7)] | None = None
    weights: Words | None = None
    activations: Words | None = None


class WorkloadPart(ModelPart, kw_only=True, forbid_unknown_fields=True):
    """A model and the conditions under which it runs."""

    precision: Words | None = None
    framework: Words = "eager"
    layout: Words = "nchw"
    training: Training | bool | None = None
    torch_version: Words = "2.11"


class GpuPart(WorkloadPart, kw_only=True, forbid_unknown_fields=True):
    """A model, its conditions, and GPUs."""

    gpus: Names | None = None
    where: Names = []
    vendors: Names = []
    architectures: Names = []
    min_memory: Words | None = None


class GpusQuestion(Struct, kw_only=True, forbid_unknown_fields=True):
    """The GPUs of the database that pass filters."""

    where: Names = []
    vendors: Names = []
    architectures: Names = []
    min_memory: Words | None = None
    sort: Words = "id"


class GpuQuestion(Struct, kw_only=True, forbid_unknown_fields=True):
    """Every value of one GPU, with its source."""

    gpu: Name


class PricesQuestion(Struct, kw_only=True, forbid_unknown_fields=True):
    """What GPUs cost to rent and to buy."""

    gpus: Names = []
    providers: Names = []
    regions: Names = []
    terms: Names = []
    tiers: Names = []
    max_age_days: Annotated[int, Meta(ge=0, le=10**6)] | None = None
    old: bool = False
    history: bool = False


class TraceQuestion(WorkloadPart, kw_only=True, forbid_unknown_fields=True):
    """Trace a model: a small file of facts from which questions can be answered."""

    exact_batch: Batch | None = None


Spelling = Literal["json", "table", "csv", "md", "html", "pdf", "xlsx"]
