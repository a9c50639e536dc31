"""Read the rules of autoscalers."""

from collections.abc import Mapping
from dataclasses import dataclass

from capplan.core.scaling.policy import ScalingPolicy, Signal
from capplan.specs.values import YamlRecordReader


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


class _PresetReader(YamlRecordReader):
    shipped = "scalers.yaml"
    what = "rules of autoscalers"
    version = 1


def load_presets() -> Mapping[str, Preset]:
    """Read the shipped rules of autoscalers.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    return _PresetReader.load(Presets).scalers
