"""What a pipeline is: parts with a model, how often each runs for an item, and the parameters of an item."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from capplan.core.named_code import code_refusal, names_code
from capplan.core.ops.attention import AttentionBackend
from capplan.core.pipelines.expression import Number, evaluate, filled
from capplan.core.workload import Framework, Precision
from capplan.errors import UsageError, nearest_names

LARGEST_RUNS = 10**7
"""Most runs of a part for one batch of items."""
BATCH_NAME = "batch"
"""The parameter that holds how many items are made at once."""


class Offload(StrEnum):
    """Where the weights of parts are that do not run.

    `NONE` keeps all on the GPU. `MODEL` moves a part there when its turn comes and back after it
    (`enable_model_cpu_offload`). `SEQUENTIAL` moves each layer for every pass (`enable_sequential_cpu_offload`).
    `STREAMED` does so, too, but copies the next layer while one computes (`enable_group_offload` with
    `offload_type="leaf_level", use_stream=True`).
    """

    NONE = "none"
    MODEL = "model"
    STREAMED = "streamed"
    SEQUENTIAL = "sequential"


ON_GPU, ON_STREAM, ON_ANOTHER = "gpu", "stream", "another"
"""Places where a part runs; any other is the id of a CPU."""


class PartKind(StrEnum):
    """What a part does, by which a calibration of pipelines corrects it; `OTHER` is corrected by none."""

    TEXT_ENCODER = "text-encoder"
    DENOISER = "denoiser"
    DECODER = "decoder"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One model of a pipeline. Texts are expressions over the pipeline's parameters.

    Attributes:
        arguments: constructor or config arguments.
        inputs: inputs in the grammar of `--input`, with expressions in braces; empty where the model knows its own.
        prepare: steps before it is traced, as `--prepare` takes them; `decode={tokens}` holds an expression, too.
        times: how often it runs for a batch of items.
        samples: how many samples of its own a run takes for each item; may name `batch`, so that `1 / batch` is one
            sample a run.
        precision: its number formats; None for the pipeline's.
        framework: how it runs; None for the pipeline's.
        weights: the number format that its linear layers are quantised to.
        weights_of: the part whose weights it runs with; empty for its own.
        attention: the attention kernel that it asks for by name; None for the question's, else what PyTorch chooses.
        offload: where its weights wait; None for the pipeline's.
        on: where it runs: `gpu`; `stream`, beside it on the same GPU; `another`, a GPU of the same kind; or a CPU's id.
        after: the parts that must be over before it starts; None for the part before it.
        tokens: the lengths of the sequence that several GPUs share; empty for a part that each GPU runs whole.
        quantises: True if an option that quantises weights means this part.
    """

    name: str
    model: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    times: str = "1"
    samples: str = "1"
    kind: PartKind = PartKind.OTHER
    precision: Precision | None = None
    framework: Framework | None = None
    weights: str | None = None
    weights_of: str = ""
    attention: AttentionBackend | None = None
    offload: Offload | None = None
    on: str = ON_GPU
    after: tuple[str, ...] | None = None
    tokens: tuple[str, ...] = ()
    quantises: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Parts that together make an item.

    Attributes:
        item: what it makes, in the singular: image, video, clip.
        parts: in the order in which they run.
        parameters: numbers of an item by name, such as height and steps, which a question may set.
        derived: expressions over the parameters and those before them, by name.
        host_s: an expression for how long the CPU prepares an item before the parts run.
        item_seconds: an expression for how many seconds of sound or film an item is; None where it has no length.
        precision: the number formats of parts that state none; None for the models' own.
        offload: where weights wait; None leaves it to the question.
    """

    name: str
    item: str
    parts: tuple[Part, ...]
    parameters: Mapping[str, Number] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    item_seconds: str | None = None
    host_s: str = "0"
    precision: Precision | None = None
    offload: Offload | None = None
    notes: tuple[str, ...] = ()

    @property
    def code_part(self) -> Part | None:
        """The first part whose model or preparation names code; None where none does."""
        return next((part for part in self.parts if names_code(part.model, prepare=part.prepare)), None)

    def refuse_code(self, words: str) -> None:
        """Refuse a pipeline with a part that names code."""
        if (part := self.code_part) is not None:
            raise UsageError(f"{words}: {code_refusal(f'the part {part.name[:120]!r}')}.")

    def with_settings(self, settings: Mapping[str, Number]) -> "Pipeline":
        for name in settings:
            if name not in self.parameters:
                meant = nearest_names(name, self.parameters) or sorted(self.parameters)
                raise UsageError(f"{self.name} has no parameter {name!r} to set; it has {', '.join(meant) or 'none'}.")
        return replace(self, parameters={**self.parameters, **settings})

    def values(self, batch: int) -> Mapping[str, Number]:
        """Return the parameters, what is derived from them, and the batch."""
        values: dict[str, Number] = {**self.parameters, BATCH_NAME: batch}
        for name, text in self.derived.items():
            values[name] = evaluate(text, values, where=f"{self.name}: {name}")
        return values

    @property
    def overlaps(self) -> bool:
        """Return True if parts run elsewhere than one after the other on one GPU, so that batches of items overlap."""
        return any(part.on != ON_GPU for part in self.parts)

    def waits_for(self, part: Part) -> tuple[str, ...]:
        """Return the parts that must be over before a part starts."""
        if part.after is not None:
            return part.after
        place = self.parts.index(part)
        return (self.parts[place - 1].name,) if place else ()

    def disorder(self) -> str:
        """Return why the parts cannot run as they are ordered and placed; empty where they can."""
        places: dict[str, str] = {}
        for part in self.parts:
            for name in part.after or ():
                if name not in places:
                    return f"{part.name}.after: {name!r} is not a part before it"
            if part.weights_of and places.get(part.weights_of, part.on) != part.on:
                return f"{part.name}.on: it has the weights of {part.weights_of}, and must run where that runs"
            places[part.name] = part.on
        if self.parts and ON_GPU not in places.values():
            return f"no part runs on the GPU: leave one of {', '.join(places)} without `on`"
        return ""

    def filled(self, part: Part) -> Part:
        """Return a part whose inputs and steps have the parameters' values in the place of expressions."""
        values, where = self.values(1), f"{self.name}: {part.name}"
        return replace(
            part,
            inputs=tuple(filled(text, values, where=f"{where}: inputs") for text in part.inputs),
            prepare=tuple(filled(text, values, where=f"{where}: prepare") for text in part.prepare),
        )

    def runs(self, part: Part, batch: int) -> "Runs":
        """Return how often a part runs for a batch of items, and how many samples a run takes."""
        values, where = self.values(batch), f"{self.name}: {part.name}"
        times = evaluate(part.times, values, where=f"{where}: times")
        samples = round(batch * evaluate(part.samples, values, where=f"{where}: samples"), 9)  # 49 · (1 / 49) is not 1
        if not 0 <= times <= LARGEST_RUNS:
            raise UsageError(f"{where}: times is {times:g}; a part runs from 0 to {LARGEST_RUNS:,} times.")
        if samples < 1 or samples != int(samples):
            raise UsageError(f"{where}: {samples:g} samples a run at batch {batch}; a whole number from 1 is needed.")
        return Runs(times=times, batch=int(samples))

    def host_time_s(self, batch: int) -> float:
        """Return how long the CPU prepares a batch of items, one after the other. [s]"""
        return batch * float(evaluate(self.host_s, self.values(1), where=f"{self.name}: host_s"))

    def seconds_of_item(self) -> float | None:
        """Return how long an item plays; None where it has no length. [s]"""
        if self.item_seconds is None:
            return None
        seconds = float(evaluate(self.item_seconds, self.values(1), where=f"{self.name}: item_seconds"))
        if seconds <= 0:
            raise UsageError(f"{self.name}: item_seconds is {seconds:g}; an item plays for more than 0 seconds.")
        return seconds

    def sequence_lengths(self, part: Part) -> tuple[int, ...]:
        """Return the lengths of the sequence that several GPUs share in a part."""
        values = self.values(1)
        return tuple(int(evaluate(text, values, where=f"{self.name}: tokens of {part.name}")) for text in part.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How often a part runs for a batch of items, and the batch of a run, in its own samples."""

    times: Number
    batch: int
