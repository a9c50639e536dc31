"""Is a point that a measurement file holds an answer to what is asked now? What differs is named."""

from collections.abc import Iterable
from dataclasses import dataclass

from capplan.core.measurement import Failure, FailureKind, Measurement, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a file holds for a question: its answer, or else in what its nearest point differs."""

    point: Point | None
    differences: tuple[str, ...] = ()


def find_answer(points: Iterable[Point], question: Failure) -> Kept:
    """Look among a file's points for one that answers a question; of several the last.

    A measurement answers if model, conditions, device, software and timing rules are the same. So does a failure to
    find memory, under the same limit; other failures are tried again.
    """
    nearest: tuple[str, ...] | None = None
    for point in reversed(list(points)):
        is_settled = isinstance(point, Measurement) or point.kind is FailureKind.OUT_OF_MEMORY
        if not is_settled or not _is_same_point(point, question):
            continue
        differences = _differences(point, question)
        if not differences:
            return Kept(point=point)
        nearest = differences if nearest is None or len(differences) < len(nearest) else nearest
    return Kept(point=None, differences=nearest or ())


def _is_same_point(kept: Point, asked: Failure) -> bool:
    """Do both name the same model, input and conditions?"""
    return (kept.model.words, kept.model.input_size, kept.workload) == (
        asked.model.words,
        asked.model.input_size,
        asked.workload,
    )


def _differences(kept: Point, asked: Failure) -> tuple[str, ...]:
    before, now = kept.device, asked.device
    pairs: dict[str, tuple[object, object]] = {
        "device": ((before.name, before.kind), (now.name, now.kind)),
        "torch": (before.torch, now.torch),
        "driver": ((before.driver, before.cuda, before.cudnn), (now.driver, now.cuda, now.cudnn)),
        "power limit": (before.power_limit_w, now.power_limit_w),
        "threads": (before.threads, now.threads),
        "model source": (kept.model.source_sha256, asked.model.source_sha256),
        "library versions": (dict(kept.model.versions), dict(asked.model.versions)),
        "warm-up, repetitions or method": (kept.rules, asked.rules),
    }
    if isinstance(kept, Failure):
        pairs["memory limit"] = (kept.limit, asked.limit)
    return tuple(name for name, (first, second) in pairs.items() if first != second)
