"""Where a measured step's time went, by class of kernel and by module, beside where the estimate puts it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capplan.core.latency.classes import kernel_class
from capplan.core.ops.catalogue import recorded_name
from capplan.core.ops.module_tree import ModuleNode
from capplan.core.trace.types import Kernel, Recording

UNMATCHED = "(not in the trace)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledOperator:
    """One operator call as a profiler saw it, with what ran inside it.

    `name` is without library and trailing underscore; `shapes` are those of its tensors; `time_s` is what the device
    spent for it (the host, on a CPU), inner operators included, `inner` these.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    time_s: float
    inner: tuple["ProfiledOperator", ...] = ()


class _Compared:
    __slots__ = ()
    measured_s: float
    estimated_s: float | None

    @property
    def error_fraction(self) -> float | None:
        """Return how far the estimate is above or below the measurement; None without an estimate or a measurement."""
        if self.estimated_s is None or self.measured_s <= 0:
            return None
        return self.estimated_s / self.measured_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTime(_Compared):
    """One class of kernels of a profiled step, measured and estimated. [s]"""

    label: str
    calls: float
    measured_s: float
    estimated_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledBatch:
    """A profiled batch by class of kernel.

    The costliest class comes first; there are none where the model could not be traced.
    """

    batch: int
    classes: tuple[ClassTime, ...]


def times_by_class(
    operators: Iterable[ProfiledOperator],
    recording: Recording,
    *,
    batch: int,
    steps: int,
    estimated_s: Mapping[str, float] | None,
) -> tuple[ClassTime, ...]:
    """Match a profiler's operators to a recording's kernels, by name and shapes, and add their times up by class.

    The outermost operator that the recording knows counts, with all that ran inside it; time outside of any is
    reported as not in the trace.
    """
    matcher = _Matcher(recording, batch)
    spent: dict[str, list[float]] = {}
    for operator in operators:
        for label, time_s in matcher.shares(operator):
            row = spent.setdefault(label, [0.0, 0.0])
            row[0] += label != UNMATCHED
            row[1] += time_s
    for label in estimated_s or ():
        spent.setdefault(label, [0.0, 0.0])
    rows = (
        ClassTime(
            label=label,
            calls=calls / steps,
            measured_s=time_s / steps,
            estimated_s=None if estimated_s is None or label == UNMATCHED else estimated_s.get(label, 0.0),
        )
        for label, (calls, time_s) in spent.items()
    )
    return tuple(sorted(rows, key=lambda row: -row.measured_s))


class _Matcher:
    """Finds the kernel that a profiled operator is."""

    def __init__(self, recording: Recording, batch: int) -> None:
        self._by_name: dict[str, list[tuple[tuple[tuple[int, ...], ...], Kernel]]] = {}
        for kernel in recording.kernels:
            shapes = tuple(operand.shape_at(batch) for operand in kernel.inputs)
            self._by_name.setdefault(kernel.name, []).append((shapes, kernel))

    def shares(self, operator: ProfiledOperator) -> list[tuple[str, float]]:
        """Return the classes that an operator's time belongs to."""
        if (kernel := self._kernel(operator)) is not None:
            return [(kernel_class(kernel), operator.time_s)]
        inner = [share for child in operator.inner for share in self.shares(child)]
        own_s = operator.time_s - sum(child.time_s for child in operator.inner)
        return [*inner, (UNMATCHED, own_s)] if own_s > 0 else inner

    def _kernel(self, operator: ProfiledOperator) -> Kernel | None:
        also = recorded_name(operator.name)
        for name in (f"aten.{operator.name}", f"aten.{also}", f"capplan.{also}"):
            if (candidates := self._by_name.get(name)) is not None:
                # The candidate of the same shapes; else the one of the same first shape, else the first.
                wanted = tuple(shape for shape in operator.shapes if shape)
                for shapes, kernel in candidates:
                    known = tuple(shape for shape in shapes if shape)
                    common = min(len(known), len(wanted))
                    if common and known[:common] == wanted[:common]:
                        return kernel
                firsts = (kernel for shapes, kernel in candidates if wanted and shapes[:1] == wanted[:1])
                return next(firsts, candidates[0][1])
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedModule:
    """The calls of one module in a step, all below it included: the median over some steps. [s]"""

    path: str
    kind: str
    calls: int
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTime(_Compared):
    """One module of a step with all below it, measured by hooks. [s]

    `macs` are multiply-accumulates, None where the model could not be traced. `estimated_s` is the time of its kernels
    on the device alone.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulesOfBatch:
    """A batch by module, in the order of the model.

    `host_s` is what the estimate has the host take for a step, None without an estimate. [s]
    """

    batch: int
    steps: int
    host_s: float | None = None
    modules: tuple[ModuleTime, ...]


def module_times(
    hooked: Sequence[HookedModule], counted: Sequence[ModuleNode], estimated_s: Mapping[str, float] | None
) -> tuple[ModuleTime, ...]:
    """Set measured times beside counts and estimates."""
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
