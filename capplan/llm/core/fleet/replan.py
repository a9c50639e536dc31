"""What runs beside what its load needs: the GPUs that are saved, the risk, and the change of the launch files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff

from capplan.llm.core.fleet.deployment_plan import DeploymentFit

RUNNING = re.compile(r"\s*(\d{1,6})\s*[x×*]\s*(\S(?:(?!\s+at\s).)*?)(?:\s+at\s+(\d{1,6}(?:\.\d{1,6})?)(?:\s*USD)?)?\s*")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, kw_only=True)
class Replan:
    """GPUs that run, and the smallest fleet of the same GPUs that carries the load; None where none does.

    `usd_per_gpu_hour` is what one costs now, where it is stated. `narrow` is that fleet with fp8 weights, where they
    were not planned. `weekly_per_s` are the rates of the hours of a
    week, from Monday 0 h UTC, as they were observed. `files_now` and `files_then` are the launch files of both.
    """

    gpus: int
    gpu: str
    fit: DeploymentFit | None
    narrow: DeploymentFit | None
    certainty_fraction: float
    weekly_per_s: tuple[float, ...] = ()
    files_now: Mapping[str, str]
    files_then: Mapping[str, str]
    usd_per_gpu_hour: float | None = None

    @property
    def usd_per_hour_saved(self) -> float | None:
        """Return what the fleet costs less an hour: by its own price, else whole machines by the offer planned with."""
        fit = self.fit
        if fit is not None and self.usd_per_gpu_hour is not None:
            return (self.gpus - fit.gpus) * self.usd_per_gpu_hour
        if fit is None or fit.rent is None or fit.usd_per_hour is None:
            return None
        now = fit.rent.machines_for(self.gpus, together=min(fit.sharding.gpus, fit.rent.instance_gpus))
        return None if now is None else now * fit.rent.usd_per_machine_hour - fit.usd_per_hour

    @property
    def sentences(self) -> list[str]:
        fit = self.fit
        peak = max(range(len(self.weekly_per_s)), key=self.weekly_per_s.__getitem__, default=None)
        when = "" if peak is None else f"; peak {_DAYS[peak // 24]} {peak % 24} h UTC"
        if fit is None:
            return [f"you run {self.gpus} × {self.gpu}; no fleet of these GPUs carries the load{when}"]
        fp8 = "" if self.narrow is None else f"; with fp8 {self.narrow.gpus}"
        said = [
            f"you run {self.gpus} × {self.gpu}; the load needs {fit.gpus} at {self.certainty_fraction:.0%}{when}{fp8}"
        ]
        if saved := self.usd_per_hour_saved:
            price = "the price of the plan" if self.usd_per_gpu_hour is None else "your price"
            said.append(f"{abs(saved):,.2f} USD an hour {'less' if saved > 0 else 'more'}, at {price}")
        most = fit.max_rate_per_s * fit.replicas / fit.rate_per_s
        left = fit.max_rate_per_s * (fit.replicas - 1) / fit.rate_per_s
        return [
            *said,
            f"{fit.words} carry {most:.2f} × the load within the limits, and {left:.0%} of it while one is down",
        ]

    @property
    def change(self) -> str:
        """Return the launch files' change as a unified diff, from the fleet that runs to the one that is planned."""
        return "".join(
            line
            for name, then in self.files_then.items()
            for line in unified_diff(
                self.files_now.get(name, "").splitlines(keepends=True), then.splitlines(keepends=True),
                f"now/{name}", f"then/{name}", n=0,
            )
        )  # fmt: skip
