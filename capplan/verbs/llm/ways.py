"""Four ways to serve the load of a week, as questions about any model ask for them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.statement.fields import picture_file
from capplan.verbs.statement.options import ASKED, HERE, Door, Option, Topic
from capplan.verbs.statement.words import RATE, SIZE, TIME_LIMIT

if TYPE_CHECKING:
    from capplan.core.scaling.answer import ServingWays, WayCost
    from capplan.core.scaling.load import WeekLoad
    from capplan.core.scaling.ways import ReplicaOnGpu
    from capplan.llm.core.start.answer import Surroundings


OFFICE_DAY = (1, 1, 1, 1, 1, 1, 2, 4, 8, 10, 10, 9, 7, 9, 10, 10, 9, 7, 5, 4, 3, 2, 2, 1)
"""The shape of a day that is taken where none is stated: nights a tenth of the hours of work. Assumed."""


@dataclass(frozen=True, kw_only=True)
class StatedWeekFields:
    """A load that changes over a week: a file, or requests of a day."""

    TOPIC = Topic.WEEK

    week_file: Annotated[
        Path | None,
        Option(
            help="WEEK.yaml: day (24 numbers) or week (168), requests_per_day, days_per_week, bursts.",
            flags=("--week",), metavar="FILE", doors=HERE,
        ),
    ] = None  # fmt: skip
    requests_per_day: Annotated[
        float | None,
        Meta(gt=0, le=1e12),
        Option(
            help="Requests of a day in use, spread as an office uses them, instead of ⟨week⟩.", metavar="N", doors=ASKED
        ),
    ] = None
    days_in_use: Annotated[
        int,
        Meta(ge=1, le=7),
        Option(help="Days of a week with load, beside ⟨requests-per-day⟩.", shows_default=True, doors=ASKED),
    ] = 7

    @property
    def states_week(self) -> bool:
        """Return True if a load of a week is stated."""
        return self.week_file is not None or self.requests_per_day is not None

    def week_load(self) -> "WeekLoad":
        """Return the load of each hour of a week."""
        from capplan.core.scaling.load import WeekLoad, week_of
        from capplan.specs.week import read_week

        if self.week_file is not None and self.requests_per_day is None:
            return read_week(self.week_file)
        if self.week_file is None and self.requests_per_day is not None:
            hourly = week_of(OFFICE_DAY, requests_per_day=self.requests_per_day, days=self.days_in_use)
            return WeekLoad(hourly_per_s=hourly)
        raise UsageError("state the load of a week by one of ⟨week⟩ (a file) and ⟨requests-per-day⟩.")


@dataclass(frozen=True, kw_only=True)
class MachineStartFields:
    """Where the weights of a replica that starts come from, and whether its machine is new."""

    TOPIC = Topic.START

    storage_bytes_per_s: Annotated[
        float | None,
        Meta(gt=0, le=1e15),
        Option(
            help="Rate at which the weights arrive, such as 2GB/s; from host memory by default.", flags=("--storage",),
            metavar="RATE", words=RATE, doors=ASKED,
        ),
    ] = None  # fmt: skip
    provision_s: Annotated[
        float | None,
        Meta(le=1e6),
        Option(
            help="Time until a new machine is there: 90s; the machine stands and holds the image by default.",
            flags=("--provision",), metavar="TIME", words=TIME_LIMIT, doors=ASKED,
        ),
    ] = None  # fmt: skip
    image_bytes: Annotated[
        float | None,
        Meta(ge=0, le=1e15),
        Option(
            help="Image that a new machine pulls, 0 for none; 10 GB by default.", flags=("--image",), metavar="SIZE",
            words=SIZE, doors=ASKED,
        ),
    ] = None  # fmt: skip
    pull_bytes_per_s: Annotated[
        float | None,
        Meta(gt=0, le=1e15),
        Option(
            help="Rate at which a new machine pulls the image.", flags=("--pull",), metavar="RATE", words=RATE,
            doors=ASKED,
        ),
    ] = None  # fmt: skip

    @property
    def states_start(self) -> bool:
        """Return True if anything is stated of how a replica starts."""
        return any(getattr(self, field.name) != field.default for field in fields(MachineStartFields))

    def surroundings(self, *, is_eager: bool = False) -> "Surroundings":
        """Return what stands around the engine that starts."""
        from capplan.core.numbers import Interval
        from capplan.llm.core.start.answer import Surroundings
        from capplan.llm.read.start_calibration import load_machine_facts

        if self.provision_s is None:
            if self.image_bytes is not None or self.pull_bytes_per_s is not None:
                raise UsageError("⟨image⟩ and ⟨pull⟩ are of a new machine; add ⟨provision⟩, such as 90s.")
            return Surroundings(storage_bytes_per_s=self.storage_bytes_per_s, is_eager=is_eager)
        facts = load_machine_facts()
        stated = self.pull_bytes_per_s
        return Surroundings(
            storage_bytes_per_s=self.storage_bytes_per_s,
            provision_s=Interval.exact(self.provision_s),
            image_bytes=facts.image_bytes if self.image_bytes is None else self.image_bytes,
            image_bytes_per_s=facts.image_bytes_per_s if stated is None else Interval.exact(stated),
            is_eager=is_eager,
        )


@dataclass(frozen=True, kw_only=True)
class WaysFields(StatedWeekFields, MachineStartFields):
    """Four ways to serve the load of a week."""

    TOPIC = Topic.WEEK

    compare_ways: Annotated[
        bool,
        Option(
            help="Compare a fleet that stands, one that scales, GPUs by the second and an API over a week: ⟨week⟩ or "
            "⟨requests-per-day⟩, or a ⟨rate⟩ that stays.",
            doors=Door.COMMAND | Door.PYTHON | Door.HTTP,
        ),
    ] = False  # fmt: skip

    plot: Annotated[Path | None, picture_file("Plot the cost of a month over the load, by way.")] = None

    def stated_week(self, rate_per_s: float | None) -> "WeekLoad | None":
        """Return the load of a week that ways are compared for; None where they are not asked for.

        Args:
            rate_per_s: The rate that comes all week where no other load of a week is stated. [1/s]
        """
        from capplan.core.scaling.load import HOURS_PER_WEEK, WeekLoad

        if not self.compare_ways and (self.states_week or self.states_start or self.plot is not None):
            raise UsageError("the load of a week, how a replica starts and a chart are for ⟨compare-ways⟩; add it.")
        if self.compare_ways and rate_per_s is not None and not self.states_week:
            return WeekLoad(hourly_per_s=(rate_per_s,) * HOURS_PER_WEEK)
        return self.week_load() if self.compare_ways else None


def compared_ways(
    question: MachineStartFields, replicas: "Sequence[ReplicaOnGpu]", week: "WeekLoad",
    *, api: "WayCost", notes: tuple[str, ...], certainty: float | None = None,
) -> "ServingWays":  # fmt: skip
    """Return the ways to serve the load of a week, by the rules of KEDA where a fleet scales."""
    from capplan.core.scaling.ways import compare_ways
    from capplan.specs.scalers import load_presets
    from capplan.specs.shipped import load_serverless

    scaled = load_presets()["keda"].elasticity(certainty=certainty or 0.9)
    found = [*notes]
    if question.provision_s is None:
        found.append("Machines are there at once and hold the image; ⟨provision⟩ counts new ones.")
    if question.storage_bytes_per_s is None:
        found.append("Weights lie in host memory; ⟨storage⟩ states from where they come otherwise.")
    found.append("What an API's requests see is not known; offers by the second are those that the public pages state.")
    compared = compare_ways(replicas, week, asked=scaled, serverless=load_serverless(), api=api)
    return replace(compared, notes=tuple(found))
