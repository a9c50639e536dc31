"""Read the rules of autoscalers."""

from collections.abc import Mapping
from dataclasses import dataclass

from capplan.core.numbers import Interval
from capplan.core.scaling.fleet import Elasticity
from capplan.core.scaling.policy import ScalingPolicy, Signal
from capplan.specs.values import RecordFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """An autoscaler as its documentation describes it, and the signal that it is usually given."""

    title: str
    signal: Signal
    policy: ScalingPolicy
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Presets:
    """All autoscalers by name."""

    scalers: Mapping[str, Preset]


_PRESETS = RecordFile(kind=Presets, shipped="scalers.yaml", what="rules of autoscalers")


def load_presets() -> Mapping[str, Preset]:
    """Read the shipped rules of autoscalers."""
    return _PRESETS.load().scalers


def keda(*, certainty: float) -> Elasticity:
    """Return a fleet that scales by the rules of KEDA, which lets it sleep; its start is not known yet."""
    preset = load_presets()["keda"]
    return Elasticity(
        name=preset.title,
        policy=preset.policy,
        signal=preset.signal,
        start_s=Interval.exact(0.0),
        certainty=certainty,
    )
