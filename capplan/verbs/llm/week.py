"""The load of a week in questions about language models: a file, a day that was observed, or requests of a day."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.llm.fields import ASKED, LoadFileFields
from capplan.verbs.statement.options import HERE, Option

if TYPE_CHECKING:
    from capplan.core.scaling.load import WeekLoad

OFFICE_DAY = (1, 1, 1, 1, 1, 1, 2, 4, 8, 10, 10, 9, 7, 9, 10, 10, 9, 7, 5, 4, 3, 2, 2, 1)
"""The shape of a day that is taken where none is stated: nights a tenth of the hours of work. Assumed."""


@dataclass(frozen=True, kw_only=True)
class StatedWeekFields:
    """A load that changes over a week: a file, or requests of a day."""

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
class WeekFields(LoadFileFields, StatedWeekFields):
    """A load that changes over a week, which the load file may state, too."""

    def is_week_file(self) -> bool:
        """Return True if the load file holds the load of a week, and no options."""
        from capplan.specs.week import is_week

        return self.load_file is not None and is_week(self.load_file)

    def lengths_file(self) -> Path | None:
        """Return the load file that states options, such as lengths; None for none."""
        return None if self.is_week_file() else self.load_file

    def week_load(self) -> "WeekLoad":
        """Return the load of each hour of a week."""
        from capplan.core.scaling.load import WeekLoad
        from capplan.specs.week import observed_hours, read_week

        if self.states_week:
            return super().week_load()
        if self.load_file is not None and self.is_week_file():
            return read_week(self.load_file)
        if (day := None if self.load_file is None else observed_hours(self.load_file, "daily_per_s", 24)) is not None:
            return WeekLoad(hourly_per_s=day * 7)
        raise UsageError(
            "state the load of a week by one of ⟨week⟩ (a file), ⟨requests-per-day⟩, and ⟨load⟩ with a day that "
            "`capplan load` observed."
        )
