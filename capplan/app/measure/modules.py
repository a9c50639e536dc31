"""Time a measured batch by module, with the model's counts and the estimate beside."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from capplan.app.measure.theory import GpuTheory
from capplan.core.latency.breakdown import break_down
from capplan.core.latency.device import Unsupported
from capplan.core.measurement.module_times import ModulesOfBatch, module_times

if TYPE_CHECKING:
    from capplan.probe.measure.session import Session


def modules_of_batch(session: "Session", batch: int, *, theory: GpuTheory) -> ModulesOfBatch:
    """Time one batch by module; counts and estimates are missing where the model could not be traced.

    Args:
        session: the model on its device.
        batch: the batch size.
        theory: what the times are compared with.

    Raises:
        PointError: it ran out of memory or failed.
    """
    steps, hooked = session.time_modules(batch)
    estimated_s: Mapping[str, float] | None = None
    host_s = None
    if (known := theory.at(batch)) is not None:
        parts = break_down(known.step, gpu=known.gpu, batch=batch)
        if not isinstance(parts, Unsupported):
            estimated_s = {"" if module.path == "(model)" else module.path: module.time_s for module in parts.modules}
            host_s = parts.host_s
    return ModulesOfBatch(
        batch=batch,
        steps=steps,
        modules=module_times(hooked, theory.counts(batch), estimated_s),
        host_s=host_s,
    )
