"""A sweep as its file states it: models, GPUs, workloads and loads, before names and globs are looked up."""

from dataclasses import dataclass, replace

from capplan.core.quantisation.schemes import Scheme, find_scheme
from capplan.core.workload import DEFAULT_UTILIZATION, BatchChoice, Batches, Workload

Value = str | int | float | bool | None
SERVING = "serving"
"""The mode of a served language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The workload, its batches, and the share of usable memory that may be filled.

    `weights` and `activations` are the number formats that linear layers are quantised to; None leaves them as the
    precision says. `energy` asks for power and energy; `power_limit_w` is set on every GPU, None leaves them their own,
    and it asks for energy, too. [W]
    """

    workload: Workload
    batches: Batches
    utilization_fraction: float
    weights: str | None = None
    activations: str | None = None
    energy: bool = False
    power_limit_w: float | None = None

    @property
    def scheme(self) -> Scheme | None:
        """Return how linear layers are quantised; None where they are not."""
        return find_scheme(self.weights, self.activations)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The batches of a row each; None where each GPU has its own."""
        return self.batches.sizes or (None,)

    def asked(self) -> dict[str, Value]:
        workload = self.workload
        training = workload.training
        return {
            "precision": workload.precision.value,
            "framework": workload.framework.value,
            "layout": workload.layout.value,
            "mode": workload.configuration.mode.value,
            "optimizer": training.optimizer.value if training else None,
            "checkpointing": training.checkpointing if training else None,
            "accumulate": training.accumulate if training else None,
            "torch_version": "{}.{}".format(*workload.torch_version),
            "host": workload.host.value if workload.host else None,
            "utilization_fraction": self.utilization_fraction,
            "gpus": 1,
            "weights": self.weights,
            "activations": self.activations,
            "power_limit_w": self.power_limit_w,
        }

    def joined(self, other: "AnyConditions") -> "Conditions | None":
        """Return equal conditions with the batches of both; None where these cannot be joined."""
        if not isinstance(other, Conditions):
            return None
        one, two = self.batches, other.batches
        if one == two:
            return self
        if one.choice is not BatchChoice.LISTED or two.choice is not BatchChoice.LISTED:
            return None
        sizes = tuple(sorted({*one.sizes, *two.sizes}))
        return replace(self, batches=Batches(choice=BatchChoice.LISTED, sizes=sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingConditions:
    """A language model served by one replica of `tp` GPUs: clients at a time, and mean lengths. [tokens]

    The fields are those of the question of `llm estimate`; `weights` and `kv` are None for the checkpoint's formats.
    """

    concurrency: tuple[int, ...]
    input_len: int
    output_len: int
    engine: str
    tp: int
    weights: str | None
    kv: str | None
    energy: bool
    power_limit_w: float | None

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The clients of a row each."""
        return self.concurrency

    def asked(self) -> dict[str, Value]:
        names = ("input_len", "output_len", "weights", "kv", "power_limit_w")
        stated = {name: getattr(self, name) for name in names}
        return {"precision": self.weights, "framework": self.engine, "mode": SERVING, "gpus": self.tp, **stated}

    def joined(self, other: "AnyConditions") -> "ServingConditions | None":
        """Return equal conditions with the clients of both; None where the other are not of serving."""
        if not isinstance(other, ServingConditions):
            return None
        return replace(self, concurrency=tuple(sorted({*self.concurrency, *other.concurrency})))


AnyConditions = Conditions | ServingConditions


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineEntry:
    """What an entry of `models` states of a pipeline: values of its parameters, of its parts, where weights wait."""

    settings: tuple[tuple[str, int | float], ...] = ()
    part_settings: tuple[tuple[str, str | int | float], ...] = ()
    offload: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """Return the words of a command line that state the same."""
        stated = [("--set", setting) for setting in self.settings] + [
            ("--part", setting) for setting in self.part_settings
        ]
        words = [word for option, (name, value) in stated for word in (option, f"{name}={value}")]
        return (*words, *(("--offload", self.offload) if self.offload else ()))


NO_OPTIONS = PipelineEntry()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One entry of `models`: a name, a glob, a trace file or a folder of traces, with the options of a model."""

    words: str
    arg: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    input_size: str | None = None
    seq_len: int | None = None
    inputs_from: str | None = None
    prepare: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    new_tokens: int | None = None
    pipeline: PipelineEntry = NO_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEntry:
    """One entry of `gpus`: names of GPUs and families, or of all GPUs those that pass filters."""

    names: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    min_memory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The content of a sweep's file."""

    models: tuple[ModelEntry, ...]
    gpus: tuple[GpuEntry, ...]
    workloads: tuple[AnyConditions, ...]


_DEFAULT_TORCH = Workload().torch_version


def workload_label(conditions: AnyConditions) -> str:
    """Return words that name the conditions, batches apart: the partition of their rows, safe as a folder's name."""
    if isinstance(conditions, ServingConditions):
        words = [SERVING, conditions.engine, f"tp{conditions.tp}"]
        words += [f"in{conditions.input_len}", f"out{conditions.output_len}"]
        words += [f"weights_{conditions.weights}"] * bool(conditions.weights)
        words += [f"kv_{conditions.kv}"] * bool(conditions.kv)
        return "-".join([*words, *_energy_words(conditions)])
    workload = conditions.workload
    words = [workload.precision.value, workload.framework.value, workload.layout.value, workload.configuration.mode]
    if training := workload.training:
        words += [training.optimizer.value]
        words += ["checkpointing"] * training.checkpointing
        words += [f"accumulate{training.accumulate}"] * (training.accumulate > 1)
    if workload.torch_version != _DEFAULT_TORCH:
        words.append("torch{}.{}".format(*workload.torch_version))
    words += [f"host_{workload.host}"] * (workload.host is not None)
    if conditions.utilization_fraction != DEFAULT_UTILIZATION:
        words.append(f"fill{conditions.utilization_fraction:g}")
    words += [f"weights_{conditions.weights}"] * bool(conditions.weights)
    words += [f"activations_{conditions.activations}"] * bool(conditions.activations)
    return "-".join([*words, *_energy_words(conditions)])


def _energy_words(conditions: AnyConditions) -> list[str]:
    if conditions.power_limit_w is not None:
        return [f"limit{conditions.power_limit_w:g}w"]
    return ["energy"] if conditions.energy else []


def definition_to_json(definition: Definition) -> dict[str, object]:
    """Return a sweep's definition as plain values, as the manifest keeps it."""
    return {
        "models": [_without_empty(entry) for entry in definition.models],
        "gpus": [_without_empty(entry) for entry in definition.gpus],
        "workloads": [
            {"workload": workload_label(workload), "batch": list(workload.sizes), **workload.asked()}
            for workload in definition.workloads
        ],
    }


def _without_empty(entry: ModelEntry | GpuEntry) -> dict[str, object]:
    values = {name: getattr(entry, name) for name in type(entry).__dataclass_fields__ if name != "pipeline"}
    if isinstance(entry, ModelEntry) and entry.pipeline.options:
        values["pipeline"] = entry.pipeline.options
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value}
