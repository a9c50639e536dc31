"""Read a load that changes over a week: a day or a week of rates, or their shape with a number of requests."""

from pathlib import Path

from capplan.core.scaling.load import HOURS_PER_WEEK, Burst, WeekLoad, week_of
from capplan.core.serving.load import DAYS_PER_WEEK, HOURS_PER_DAY
from capplan.specs.strict_yaml import Checker, Tree, read_yaml
from capplan.specs.values import ValueReader
from capplan.units import SECONDS, parse_quantity

_KEYS = ("day", "week", "requests_per_day", "days_per_week", "bursts")
_BURST = ("hour", "lasts", "times")


def is_week(path: Path) -> bool:
    """Return True if a file holds keys of a week's load alone."""
    return set(read_yaml(path)) <= set(_KEYS)


def read_week(path: Path) -> WeekLoad:
    """Read a load file.

    Raises:
        SpecError: The file is missing, not strict YAML, or holds unknown, missing or wrong values.
    """
    reader = _WeekReader(str(path), str(path))
    return reader.read(read_yaml(path))


def observed_hours(path: Path, key: str, hours: int) -> tuple[float, ...] | None:
    """Return the mean rate of each hour of a day or week that a file of `capplan load` has; None without it. [1/s]

    Raises:
        SpecError: the file is refused.
    """
    observed = read_yaml(path).get("observed", {})
    given = observed.get(key) if isinstance(observed, dict) else None
    if given is None:
        return None
    is_day = isinstance(given, list) and len(given) == hours and all(type(rate) in (int, float) for rate in given)
    if not is_day or min(given) < 0 or not sum(given) > 0:
        checker = Checker(str(path), str(path))
        checker.refuse(f"observed.{key}", f"must be {hours} rates of at least 0, one above it")
        checker.finish({})
    return tuple(float(rate) for rate in given)


class _WeekReader(ValueReader):
    """Reads the keys of a load that changes over a week."""

    def read(self, tree: Tree) -> WeekLoad:
        for key in tree:
            if key not in _KEYS:
                self.refuse(key, f"is not a key of a week's load; its keys are {', '.join(_KEYS)}")
        hourly = self._hourly(tree)
        bursts = self._bursts(tree.get("bursts", []))
        self.finish({})
        return WeekLoad(hourly_per_s=hourly, bursts=bursts)

    def _hourly(self, tree: Tree) -> tuple[float, ...]:
        """Return the rates of 168 hours. [1/s]"""
        stated = [key for key in ("day", "week") if key in tree]
        if len(stated) != 1:
            self.refuse("day", "state one of day (24 numbers, one an hour) and week (168 numbers)")
            return ()
        key = stated[0]
        hours = self._numbers(key, tree[key], HOURS_PER_DAY if key == "day" else HOURS_PER_WEEK)
        days = tree.get("days_per_week", DAYS_PER_WEEK)
        if not isinstance(days, int) or not 1 <= days <= DAYS_PER_WEEK or (key == "week" and "days_per_week" in tree):
            self.refuse("days_per_week", f"must be a whole number from 1 to 7 beside day, not {days!r}")
        if not hours or self.problems:
            return ()
        total = tree.get("requests_per_day")
        if total is None:
            return hours if key == "week" else (*hours * days, *(0.0,) * (HOURS_PER_DAY * (DAYS_PER_WEEK - days)))
        requests = self.positive("requests_per_day", self.number("requests_per_day", total))
        if requests is None:
            return ()
        if key == "day":
            return week_of(hours, requests_per_day=requests, days=days)
        factor = requests * DAYS_PER_WEEK / sum(hours) / SECONDS["h"]
        return tuple(hour * factor for hour in hours)

    def _numbers(self, where: str, given: object, count: int) -> tuple[float, ...]:
        if not isinstance(given, list) or len(given) != count:
            self.refuse(where, f"must be a list of {count} numbers, one an hour")
            return ()
        found = [self.number(f"{where}[{index}]", value) for index, value in enumerate(given)]
        numbers = tuple(value for value in found if value is not None)
        if any(value < 0 for value in numbers) or not any(numbers):
            self.refuse(where, "must be numbers of at least 0, of which one is above 0")
            return ()
        return numbers

    def _bursts(self, given: object) -> tuple[Burst, ...]:
        if not isinstance(given, list):
            self.refuse("bursts", "must be a list, such as - {hour: 34.5, lasts: 10 min, times: 5}")
            return ()
        bursts = []
        for index, entry in enumerate(given):
            where = f"bursts[{index}]"
            if not isinstance(entry, dict) or set(entry) != set(_BURST):
                self.refuse(where, "must have hour (of the week), lasts and times, such as 34.5, 10 min and 5")
                continue
            hour, times = self.number(f"{where}.hour", entry["hour"]), self.number(f"{where}.times", entry["times"])
            lasts = parse_quantity(str(entry["lasts"]), SECONDS, what=f"{self.file}: {where}.lasts")
            if hour is None or times is None or not 0 <= hour < HOURS_PER_WEEK or times <= 0 or lasts <= 0:
                self.refuse(where, "needs an hour from 0 to 168, and a time and a factor above 0")
                continue
            bursts.append(Burst(hour=hour, lasts_s=lasts, times=times))
        return tuple(bursts)
