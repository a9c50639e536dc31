"""Types of a question: precision, mode, framework, layout, batch sizes, ways to time a step, the order of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from capplan.errors import UsageError

DEFAULT_UTILIZATION = 0.9
"""Share of usable memory that may be filled unless a request says otherwise, in every command."""

PRECISION_ALIASES: Mapping[str, str] = {
    "half": "fp16", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32", "single": "fp32",
    "amp": "amp-fp16", "float8": "fp8", "fp32_ieee": "fp32-ieee",
}  # fmt: skip
"""What people call number formats elsewhere, as torch's dtypes above all."""


class Precision(StrEnum):
    """Number formats as PyTorch would run them.

    `FP32` is PyTorch's default (TF32 convolutions, fp32 matrix products on Ampere and later),
    `TF32` allows TF32 in both, `FP32_IEEE` in neither. `FP16` and `BF16` convert the whole model;
    `AMP_*` leave weights in fp32 and run under autocast. `INT8` and `FP8` are those of inference engines: products in
    that format, the rest in fp16.
    """

    FP32 = "fp32"
    TF32 = "tf32"
    FP32_IEEE = "fp32-ieee"
    FP16 = "fp16"
    BF16 = "bf16"
    AMP_FP16 = "amp-fp16"
    AMP_BF16 = "amp-bf16"
    INT8 = "int8"
    FP8 = "fp8"

    @classmethod
    def _missing_(cls, value: object) -> "Precision | None":
        """Read torch's names, such as float16 and torch.bfloat16, in any case."""
        word = str(value).casefold().removeprefix("torch.")
        word = PRECISION_ALIASES.get(word, word)
        return next((each for each in cls if each.value == word), None)

    @property
    def needs_engine(self) -> bool:
        """Return True for formats that an inference engine calibrates; PyTorch quantises layers instead."""
        return self in (Precision.INT8, Precision.FP8)

    @property
    def variant(self) -> "Variant":
        """The recording that this precision is answered from."""
        if self in (Precision.FP16, Precision.BF16, Precision.INT8, Precision.FP8):
            return Variant.HALF
        return Variant.AMP if self in (Precision.AMP_FP16, Precision.AMP_BF16) else Variant.FULL

    @property
    def arithmetic(self) -> str:
        """The number format of products, as vendors name it: bf16 of `AMP_BF16`, fp32 of `FP32_IEEE`."""
        return self.value.removeprefix("amp-").removesuffix("-ieee")

    @property
    def half_dtype(self) -> str | None:
        """The 16-bit type that stands for "half" in a recording; None where there is none."""
        if self in (Precision.FP16, Precision.AMP_FP16, Precision.INT8, Precision.FP8):
            return "float16"
        return "bfloat16" if self in (Precision.BF16, Precision.AMP_BF16) else None


OWN_PRECISIONS: Mapping[str, Precision] = {"bfloat16": Precision.BF16, "float16": Precision.FP16}
"""The precision in which a model runs that is built in 16 bits, by its dtype."""


def precision_label(precision: Precision, dtype: str | None) -> str:
    """Return number formats in words: "bf16 (the model's own)" where a model is not built in fp32 and runs as it is."""
    if precision is not Precision.FP32 or dtype in ("float32", None):
        return precision.value
    own = OWN_PRECISIONS.get(dtype)
    return f"{own.value if own else dtype} (the model's own)"


class Variant(StrEnum):
    """The numeric variants that a trace records: the model's own dtypes, all 16-bit, autocast."""

    FULL = "full"
    HALF = "half"
    AMP = "amp"


class Mode(StrEnum):
    """Inference (under `torch.inference_mode`) or whole training steps."""

    INFERENCE = "inference"
    TRAINING = "training"


class Framework(StrEnum):
    """How the graph is executed."""

    EAGER = "eager"
    COMPILE = "compile"
    COMPILE_GRAPHS = "compile-graphs"
    TENSORRT = "tensorrt"
    ONNXRUNTIME = "onnxruntime"

    @property
    def is_engine(self) -> bool:
        """Return True for inference engines, which run a graph without PyTorch."""
        return self in (Framework.TENSORRT, Framework.ONNXRUNTIME)

    @property
    def product(self) -> str:
        """Return the software by the name that its maker gives it."""
        return {Framework.TENSORRT: "TensorRT", Framework.ONNXRUNTIME: "ONNX Runtime"}.get(self, "PyTorch")

    @property
    def called(self) -> str:
        """Return what executes the graph in a few words, for sentences on where it runs."""
        ways = {Framework.EAGER: "PyTorch's eager mode", Framework.COMPILE: "torch.compile"}
        return ways.get(self, self.product if self.is_engine else "torch.compile with CUDA graphs")

    @property
    def is_replayed(self) -> bool:
        """Return True where the device takes a step from a recorded graph, without a host's launches."""
        return self in (Framework.COMPILE_GRAPHS, Framework.TENSORRT)


ENGINES_NOT_ESTIMATED: Mapping[str, str] = {
    "openvino": "OpenVINO is not estimated: on CPUs eager PyTorch is (eager), on GPUs the engines tensorrt and "
    "onnxruntime.",
    **dict.fromkeys(
        ("vllm", "sglang", "trtllm", "tensorrt-llm", "llama.cpp"),
        "That engine serves language models: `capplan llm plan` and `capplan llm estimate` answer for it.",
    ),
}
"""Engines that people run and that no step of a model is estimated for, with what is answered instead."""


def known_words(words: type[StrEnum], name: str) -> str:
    """Return a sentence that lists an enumeration's words, after one on the engine that an unknown name is."""
    listed = f"Known: {', '.join(word.value for word in words)}."
    reason = ENGINES_NOT_ESTIMATED.get(name.casefold()) if words is Framework else None
    return f"{reason} {listed}" if reason else listed


class Host(StrEnum):
    """The machine that launches a GPU's kernels.

    `SERVER` and `DESKTOP` are one machine for all GPUs, of the last year that was timed. `CARD` is a machine for
    each card: of the year in which it came out, a desktop where players buy it. Timings are fitted and judged by it,
    because none names its host.
    """

    SERVER = "server"
    DESKTOP = "desktop"
    CARD = "card"

    @property
    def words(self) -> str:
        """The machine in a few words."""
        return "a host of each card's year" if self is Host.CARD else f"the processor of a {self.value}"


class Layout(StrEnum):
    """Memory format of image tensors."""

    NCHW = "nchw"
    NHWC = "nhwc"


class ModelSharding(StrEnum):
    """How several GPUs share a model: whole on each, or spread."""

    REPLICAS = "replicas"
    DDP = "ddp"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"
    FSDP = "fsdp"

    @property
    def spreads_optimizer(self) -> bool:
        """Return True if each GPU holds and updates its share of the optimizer's states alone."""
        return self not in (ModelSharding.REPLICAS, ModelSharding.DDP)


class Optimizer(StrEnum):
    """Optimizers whose steps a training recording can hold; foreach implementations, as on CUDA."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"
    ADAMW = "adamw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How a training step is made up."""

    optimizer: Optimizer = Optimizer.ADAMW
    checkpointing: bool = False
    accumulate: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Which of a trace's recordings: what changes the operators that run, GPU and batch apart.

    `training` is None for inference. `half_dtype` is the 16-bit type that a half or autocast recording runs in; shapes
    and bytes are the same in both types, so that a recording of either answers for the other.
    """

    variant: Variant = Variant.FULL
    layout: Layout = Layout.NCHW
    training: Training | None = None
    half_dtype: str = field(default="bfloat16", compare=False)

    @property
    def mode(self) -> Mode:
        """Inference, or training where a training step is described."""
        return Mode.INFERENCE if self.training is None else Mode.TRAINING

    def __str__(self) -> str:
        in_float16 = self.variant is not Variant.FULL and self.half_dtype == "float16"
        words = [f"{self.variant.value}-float16" if in_float16 else self.variant.value, self.layout.value]
        if self.training:
            words += ["training", self.training.optimizer.value]
            words += ["checkpointing"] * self.training.checkpointing
            words += [f"accumulate={self.training.accumulate}"] * (self.training.accumulate > 1)
        return "/".join(words)

    @property
    def words(self) -> str:
        """The configuration as people write it, such as "fp16 inference, nchw"."""
        half = "fp16" if self.half_dtype == "float16" else "bf16"
        kinds = {Variant.FULL: "fp32", Variant.HALF: half, Variant.AMP: f"amp-{half}"}
        training = ""
        if self.training is not None:
            training = f" with {self.training.optimizer.value}"
            training += ", checkpointing" * self.training.checkpointing
            training += f", accumulating {self.training.accumulate}" * (self.training.accumulate > 1)
        return f"{kinds[self.variant]} {self.mode.value}{training}, {self.layout.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A question's conditions, batch and GPU apart.

    `torch_version` is (major, minor): it decides kernels and is an input of every estimate. `gpu_count` GPUs of one
    machine train together, each with a batch of its own, and share weights, gradients and states as `sharding` says;
    by DDP each has all of them, and gradients are summed. `host` launches the kernels of every
    GPU; None is a server, or the host that the calibration measured.
    """

    precision: Precision = Precision.FP32
    framework: Framework = Framework.EAGER
    layout: Layout = Layout.NCHW
    training: Training | None = None
    torch_version: tuple[int, int] = (2, 11)
    gpu_count: int = 1
    sharding: ModelSharding = ModelSharding.DDP
    host: Host | None = None

    def __post_init__(self) -> None:
        if self.gpu_count == 1 and self.sharding is not ModelSharding.DDP:
            raise UsageError(
                f"⟨sharding⟩ {self.sharding.value} says how several GPUs train together: add ⟨train⟩ and ⟨gpus⟩ N."
            )
        if self.sharding is ModelSharding.REPLICAS:
            raise UsageError(
                "replicas that train apart are runs of one GPU each: leave ⟨gpus⟩ and ⟨sharding⟩ out, or take ddp, "
                "which sums their gradients."
            )
        if self.gpu_count > 1 and self.training is None:
            raise UsageError(
                f"{self.gpu_count} GPUs together are estimated in training alone: add ⟨train⟩, or ask for one GPU; in "
                "inference several GPUs multiply its rate."
            )
        if self.precision.needs_engine and not self.framework.is_engine:
            raise UsageError(
                f"⟨precision⟩ {self.precision.value} is a format of inference engines: add ⟨framework⟩ tensorrt or "
                f"onnxruntime, or quantise PyTorch's layers with ⟨weights⟩ {self.precision.value} ⟨activations⟩ "
                f"{self.precision.value}."
            )
        if self.framework.is_engine and self.training is not None:
            raise UsageError(f"⟨framework⟩ {self.framework.value} runs inference alone: drop ⟨train⟩.")

    @property
    def software(self) -> str:
        """Return what runs the model: a release of PyTorch, or an inference engine."""
        name = self.framework.product
        return name if self.framework.is_engine else "{} {}.{}".format(name, *self.torch_version)

    @property
    def release(self) -> str:
        """Return what runs the model, for headlines: torch with its release, or an inference engine."""
        return self.software.replace("PyTorch", "torch")

    @property
    def configuration(self) -> Configuration:
        """The recording that answers this workload."""
        return Configuration(
            variant=self.precision.variant,
            layout=self.layout,
            training=self.training,
            half_dtype=self.precision.half_dtype or "bfloat16",
        )


LARGEST_BATCH = 2**40
"""No batch above this is asked for or searched; sizes in bytes stay exact integers."""

_MOST_DIGITS = 30


class BatchChoice(StrEnum):
    """How the batch is chosen."""

    LISTED = "listed"
    AUTO = "auto"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Batch sizes asked for; `sizes` is empty unless they are listed."""

    choice: BatchChoice
    sizes: tuple[int, ...] = ()

    def on_gpu(self, *, largest: int, recommended: int | None) -> tuple[int, ...]:
        """Return the batches to judge on a GPU, by the largest that fits and the one that is recommended there."""
        if self.choice is BatchChoice.LISTED:
            return self.sizes
        return (largest,) if self.choice is BatchChoice.MAX else (recommended or 1,)


def parse_batches(text: str, *, what: str = "⟨batch⟩") -> Batches:
    """Read "8", "1,8,32", "1..1024" (powers of two), "auto" or "max"."""
    word = text.strip().lower()
    if word in (BatchChoice.AUTO, BatchChoice.MAX):
        return Batches(choice=BatchChoice(word))
    sizes = [size for piece in word.split(",") for size in _piece_sizes(piece.strip(), f"{what} {text!r}")]
    return Batches(choice=BatchChoice.LISTED, sizes=tuple(dict.fromkeys(sizes)))


def _piece_sizes(piece: str, where: str) -> list[int]:
    first, dots, last = piece.partition("..")
    low, high = _size(first, where), _size(last, where) if dots else None
    if high is None:
        return [low]
    if high < low:
        raise UsageError(f"{where}: {low}..{high} falls; write the smaller batch first.")
    doubled = [low]
    while doubled[-1] * 2 <= high:
        doubled.append(doubled[-1] * 2)
    return doubled if doubled[-1] == high else [*doubled, high]


def _size(digits: str, where: str) -> int:
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > _MOST_DIGITS:
        digits = digits if len(digits) <= _MOST_DIGITS else f"{digits[:_MOST_DIGITS]}..."
        raise UsageError(f"{where}: {digits!r} is not a batch; write 8, 1,8,32, 1..1024, auto or max.")
    size = int(digits)
    if not 1 <= size <= LARGEST_BATCH:
        raise UsageError(f"{where}: a batch lies between 1 and 2^40, not {size}.")
    return size


class SortKey(StrEnum):
    """Orders of the GPUs in a plan."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    MEMORY = "memory"
    COST = "cost"
    PRICE = "price"
    ENERGY = "energy"
    NAME = "name"


class RowOrder(StrEnum):
    """Orders of the rows of a comparison; `ASKED` is the order in which models, formats and GPUs were named."""

    ASKED = "asked"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    MEMORY = "memory"
    COST = "cost"
    ENERGY = "energy"


class TimingMethod(StrEnum):
    """How the ends of a repetition are found.

    `EVENT` records events in the device's queue and reads them once, after the last repetition; `SYNC` lets the
    host wait for the device around every repetition; `NAIVE` reads the host's clock without waiting, which is
    wrong wherever the device works behind a queue; `CLOCK` is the host's clock where there is no queue.
    """

    EVENT = "event"
    SYNC = "sync"
    NAIVE = "naive"
    CLOCK = "clock"


class BatchSearch(StrEnum):
    """How batches are tried: doubling to a failure and halving back, or one by one."""

    BINARY = "binary"
    SEQUENTIAL = "sequential"
