"""Where a measured step's time went, by module of the model, beside what the estimate expects of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capplan.core.ops.module_tree import ModuleNode


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedModule:
    """The calls of one module in a step, all below it included: the median over some steps. [s]"""

    path: str
    kind: str
    calls: int
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTime:
    """One module with all below it in a step: measured, and, where the model was traced, counted and estimated. [s]

    `macs` are multiply-accumulates. `estimated_s` is the time of its kernels on the device alone.
    """

    path: str
    kind: str
    calls: int
    measured_s: float
    macs: int | None
    estimated_s: float | None

    @property
    def depth(self) -> int:
        """Return 0 for the model itself, 1 for the modules that it holds, and so on."""
        return self.path.count(".") + 1 if self.path else 0

    @property
    def flops_per_s(self) -> float | None:
        """Return the rate that was reached, two FLOPs per multiply-accumulate; None without products. [FLOP/s]"""
        return 2 * self.macs / self.measured_s if self.macs and self.measured_s > 0 else None

    @property
    def error_fraction(self) -> float | None:
        """Return how far the estimate is above or below the measurement; None without an estimate or a measurement."""
        if self.estimated_s is None or self.measured_s <= 0:
            return None
        return self.estimated_s / self.measured_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulesOfBatch:
    """One batch's time by module, in the order of the model, the model itself first.

    `host_s` is what the estimate has the host take for a step, None without an estimate. [s]
    """

    batch: int
    steps: int
    modules: tuple[ModuleTime, ...]
    host_s: float | None = None


def module_times(
    hooked: Sequence[HookedModule], counted: Sequence[ModuleNode], estimated_s: Mapping[str, float] | None
) -> tuple[ModuleTime, ...]:
    """Set measured times beside counts and estimates.

    Args:
        hooked: what hooks saw, in the order in which modules were called.
        counted: the counts of every module with all below it; empty where the model could not be traced.
        estimated_s: the device's time for what each module launches itself, by path; None without an estimate. [s]
    """
    macs = {node.path: node.macs for node in counted}
    return tuple(
        ModuleTime(
            path=module.path,
            kind=module.kind,
            calls=module.calls,
            measured_s=module.time_s,
            macs=macs.get(module.path, 0) if counted else None,
            estimated_s=None if estimated_s is None else _with_all_below(module.path, estimated_s),
        )
        for module in hooked
    )


def _with_all_below(path: str, own_s: Mapping[str, float]) -> float:
    return sum(time_s for other, time_s in own_s.items() if not path or other == path or other.startswith(f"{path}."))
