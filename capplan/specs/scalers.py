"""Read the rules of autoscalers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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

    def elasticity(self, **stated: Any) -> Elasticity:
        """Return a fleet that scales by these rules, with what is stated of it."""
        return Elasticity(name=self.title, policy=self.policy, signal=self.signal, **stated)


def load_presets() -> Mapping[str, Preset]:
    """Read the shipped rules of autoscalers."""
    return RecordFile(kind=Preset, shipped="scalers.yaml", what="rules of autoscalers").load_by_name("scalers")
