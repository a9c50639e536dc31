"""Calibrate the host at hand: what its calls into PyTorch cost, laid over a calibration."""

from dataclasses import replace
from datetime import date
from pathlib import Path

from capplan.app.feedback import SILENCE, Feedback
from capplan.core.latency.calibration import Calibration, HostCosts
from capplan.specs.calibration import load_calibration


def host_costs(*, feedback: Feedback = SILENCE) -> HostCosts:
    """Measure what calls into PyTorch cost on this host, GPU or not; a few seconds.

    Args:
        feedback: where progress is shown.
    """
    from capplan.probe.measure.host import measure_host

    with feedback.progress("measuring this host's calls into PyTorch"):
        return measure_host()


def host_calibration(costs: HostCosts, *, base: Path | None, made: date, command: str) -> Calibration:
    """Return a calibration whose eager steps wait for this host.

    Args:
        costs: what the host's calls cost.
        base: the calibration to lay them over; None for the shipped one.
        made: the date to keep in it.
        command: the command to keep in it.
    """
    found = load_calibration(base)
    source = f"{costs.cpu}, torch {costs.torch}, {made}"
    origin = found.origin
    if origin is not None:
        origin = replace(origin, made=made, command=command, sources=(*origin.sources, source))
    return replace(found, name=f"{found.name}, host as measured", host=costs, origin=origin)
