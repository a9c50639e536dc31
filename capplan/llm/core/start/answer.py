"""Answer how long a replica takes to start, part by part, each with its interval and where it is from."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp

from capplan.core.numbers import NORMAL_90, Interval
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import Quantisation
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.start.law import StartLaw, StartPart, StartSize, WakeLaw
from capplan.llm.core.weights import EngineLayout, stage_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPart:
    """The time of one part, what kind of figure it is, and its source. [s]"""

    part: StartPart
    time_s: Interval
    kind: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What stands around an engine that starts.

    `storage_bytes_per_s` is the rate at which the weights arrive, None where they lie in host memory. A new machine is
    there after `provision_s`, and then pulls `image_bytes` at `image_bytes_per_s`; None where the machine stands and
    has the image. `is_eager` leaves out the compiler and the graphs; an engine that wakes by `wake` has them already.
    """

    storage_bytes_per_s: float | None = None
    provision_s: Interval | None = None
    image_bytes: float = 0.0
    image_bytes_per_s: Interval | None = None
    is_eager: bool = False
    wake: WakeLaw | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAnswer:
    """The parts of a start in their order.

    `spread` is the standard deviation of the logarithm of a whole start ÷ what is expected of it.
    """

    model: str
    gpu: str
    engine: str
    gpus: int
    size: StartSize
    parts: tuple[TimedPart, ...]
    spread: float
    notes: tuple[str, ...] = ()

    @property
    def engine_s(self) -> float:
        """Return the expected time from the engine's first process to its first answer. [s]"""
        return sum(part.time_s.expected for part in self.parts if part.part not in _OUTSIDE)

    @property
    def whole_s(self) -> Interval:
        """Return the time of the whole start: the engine's by its own spread, that of machine and image added. [s]"""
        # The time of the machine and its image, and of an engine that wakes. [s]
        outside_s = sum(
            (part.time_s for part in self.parts if part.part in _OUTSIDE), start=Interval(low=0, expected=0, high=0)
        )
        return outside_s + Interval.around(self.engine_s, exp(NORMAL_90 * self.spread))


_OUTSIDE = frozenset({StartPart.PROVISIONING, StartPart.IMAGE, StartPart.WAKE})
_LOGS = "public start-up logs"


def weight_bytes_of(model: LanguageModel, quantisation: Quantisation) -> float:
    """Return the bytes of a model's weights, of the file's header where they are known and the format is its own."""
    if model.exact_bytes is not None and quantisation == model.own_quantisation:
        return float(model.exact_bytes)
    layout = EngineLayout()
    return stage_weights(model.architecture, quantisation=quantisation, sharding=Sharding(), layout=layout).total


def start_parts(law: StartLaw, size: StartSize, around: Surroundings) -> tuple[TimedPart, ...]:
    """Return the parts of a start.

    Engines map the file and copy what they read, so that reading and copying overlap: storage takes bytes ÷ rate, and
    the GPU only what copying takes longer.
    """
    left_out = {StartPart.COMPILE, StartPart.CAPTURE} if around.is_eager else set()
    parts = list(_machine_parts(around))
    if around.wake is not None:
        woken_s = around.wake.time_s(size.weight_bytes)
        return (*parts, TimedPart(part=StartPart.WAKE, time_s=woken_s, kind="bytes ÷ rate", source=around.wake.source))
    times = law.times_s(size)
    for part in (StartPart.PROCESS, StartPart.LOAD, StartPart.COMPILE, StartPart.WARM_UP, StartPart.CAPTURE):
        time_s = times[part]
        if part in left_out or time_s == 0.0:  # an engine has no such part
            continue
        if part is StartPart.LOAD and around.storage_bytes_per_s is not None:
            reading_s = size.weight_bytes / around.storage_bytes_per_s
            exact, kind, source = Interval.exact(reading_s), "bytes ÷ rate", "the rate you state"
            parts.append(TimedPart(part=StartPart.STORAGE, time_s=exact, kind=kind, source=source))
            if (time_s := time_s - reading_s) <= 0:
                continue
        parts.append(TimedPart(part=part, time_s=law.around(part, time_s), kind="estimate", source=_LOGS))
    return tuple(parts)


def _machine_parts(around: Surroundings) -> Iterator[TimedPart]:
    """Yield the times of a new machine and its image; none where the machine stands."""
    if around.provision_s is not None:
        source = "the time you state"
        yield TimedPart(part=StartPart.PROVISIONING, time_s=around.provision_s, kind="stated", source=source)
    if around.image_bytes and around.image_bytes_per_s is not None:
        pulled = around.image_bytes / around.image_bytes_per_s
        source = "published pulls of such images"
        yield TimedPart(part=StartPart.IMAGE, time_s=pulled, kind="bytes ÷ rate", source=source)
