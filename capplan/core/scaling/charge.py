"""What replicas that come and go cost: whole machines, from their order to their return, at least a shortest time."""

from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """How a machine is charged: by the hour, for as many replicas as it holds, and for a shortest time. [USD/h, s]"""

    usd_per_machine_hour: float
    replicas_per_machine: int = 1
    machines_per_replica: int = 1
    minimum_s: float = 0.0

    def machines(self, replicas: int) -> int:
        return -(-replicas // self.replicas_per_machine) * self.machines_per_replica


def charged_usd(replicas: IntArray, tick_s: float, charge: Charge) -> float:
    """Return what a history of replicas costs: the machine that came last goes first, as a stack does. [USD]"""
    machines = -(-replicas // charge.replicas_per_machine) * charge.machines_per_replica
    plain_s = float(machines.sum()) * tick_s
    if not charge.minimum_s:
        return plain_s / 3600.0 * charge.usd_per_machine_hour
    added_s = 0.0
    for level in range(1, int(machines.max(initial=0)) + 1):
        runs = np.diff(np.concatenate(([0], (machines >= level).astype(int), [0])))
        lasted = (np.flatnonzero(runs < 0) - np.flatnonzero(runs > 0)) * tick_s
        added_s += float(np.maximum(charge.minimum_s - lasted, 0.0).sum())
    return (plain_s + added_s) / 3600.0 * charge.usd_per_machine_hour
