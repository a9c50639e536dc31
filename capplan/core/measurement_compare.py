"""Two runs of the same questions: do they differ beyond the noise of each?"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.measurement import Measurement
from capplan.core.statistics import Confidence, median_ratio


class Verdict(StrEnum):
    """What the second run is against the first."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference beyond noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One question answered by both runs. `ratio` is the second median over the first, with its 95 % interval."""

    first: Measurement
    second: Measurement
    ratio: Confidence

    @property
    def verdict(self) -> Verdict:
        """A difference is told only where the whole interval lies on one side of 1."""
        if self.ratio.high < 1:
            return Verdict.FASTER
        return Verdict.SLOWER if self.ratio.low > 1 else Verdict.SAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """All questions of two runs: those both answered, and those only one did."""

    pairs: tuple[Comparison, ...]
    only_first: tuple[Measurement, ...]
    only_second: tuple[Measurement, ...]


def compare_runs(first: Iterable[Measurement], second: Iterable[Measurement]) -> Pairing:
    """Pair the measurements of two runs by model, input size and workload; of repeated ones the last counts.

    Device and versions may differ: they are what is compared.
    """
    before = {_key(each): each for each in first}
    after = {_key(each): each for each in second}
    pairs = (
        Comparison(
            first=before[key],
            second=after[key],
            ratio=median_ratio(after[key].samples_s, before[key].samples_s),
        )
        for key in before
        if key in after
    )
    return Pairing(
        pairs=tuple(pairs),
        only_first=tuple(each for key, each in before.items() if key not in after),
        only_second=tuple(each for key, each in after.items() if key not in before),
    )


def _key(point: Measurement) -> tuple[object, ...]:
    return point.model.words, point.model.input_size, point.workload
