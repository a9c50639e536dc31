"""Summarise many people's microbenchmarks of GPUs into one rate per GPU and kind."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from capplan.core.gpus.spec import MeasuredRate, Microbenchmark, Quality, Regime


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrobenchRow:
    """One published result: what was run on which GPU, and by whom. [FLOP/s, bytes/s, s or Hz by kind]

    `source` is the repository or page, so that many rows of one script count once. `dtype` is the number format of
    matrix products.
    """

    gpu: str
    kind: Microbenchmark
    value: float
    quality: Quality
    regime: Regime
    source: str
    dtype: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedRate:
    """A summarised rate and the sources that it rests on."""

    rate: MeasuredRate
    sources: tuple[str, ...]


def summarise(rows: Iterable[MicrobenchRow]) -> dict[str, dict[Microbenchmark, SourcedRate]]:
    """Summarise rows by GPU and kind: the median over sources of each source's median.

    Rows of quality C are upper bounds and are left out. Sustained runs are used where there are any, bursts otherwise.
    """
    groups: dict[tuple[str, Microbenchmark], list[MicrobenchRow]] = defaultdict(list)
    for row in rows:
        if row.quality is not Quality.C:
            groups[row.gpu, row.kind].append(row)
    found: dict[str, dict[Microbenchmark, SourcedRate]] = {}
    for gpu in sorted({gpu for gpu, _ in groups}):
        found[gpu] = {kind: _summary(groups[gpu, kind]) for kind in Microbenchmark if (gpu, kind) in groups}
    return found


def _summary(rows: list[MicrobenchRow]) -> SourcedRate:
    sustained = [row for row in rows if row.regime is Regime.SUSTAINED]
    chosen = sustained or rows
    by_source: dict[str, list[MicrobenchRow]] = defaultdict(list)
    for row in chosen:
        by_source[row.source].append(row)
    value = median(median(row.value for row in members) for members in by_source.values())
    best = min(row.quality for row in chosen)
    rate = MeasuredRate(value=value, quality=best, regime=Regime.SUSTAINED if sustained else Regime.BURST)
    return SourcedRate(rate=rate, sources=tuple(sorted(by_source)))


Summaries = Mapping[str, Mapping[Microbenchmark, SourcedRate]]
