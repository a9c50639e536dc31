"""The load of a week in questions about language models: a file, a day that was observed, or requests of a day."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.errors import UsageError
from capplan.verbs.llm.fields import LoadFileFields
from capplan.verbs.llm.ways import StatedWeekFields

if TYPE_CHECKING:
    from capplan.core.scaling.load import WeekLoad


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
