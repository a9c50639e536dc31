"""Groups of options of `capplan sweep`, and what they ask for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.units import BYTES, SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.app.sweep.request import Limits, MeasuringRules


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """Where the work is done, and what one model may take of a machine."""

    workers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Processes on this machine; one a core by default.", show_default=False),
    ] = None
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="auto|ADDRESS", help="Run on this Ray cluster instead of this machine alone.", show_default=False
        ),
    ] = None
    time_limit: Annotated[
        str, typer.Option(metavar="TIME", help="Time that one model may take to trace, such as 90s.")
    ] = "10min"
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of one process, such as 8GiB; by default an even share of the machine's.",
            show_default=False,
        ),
    ] = None

    def limits(self) -> "Limits":
        """Return the limits on one model.

        Raises:
            UsageError: one of them is not a time or a size above 0.
        """
        from capplan.app.sweep.request import Limits

        memory = self.memory_limit
        return Limits(
            time_s=parse_quantity(self.time_limit, SECONDS, what="--time-limit"),
            memory_bytes=int(parse_quantity(memory, BYTES, what="--memory-limit")) if memory else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringOptions:
    """Whether points are measured beside the theory, and for how long."""

    measure: Annotated[
        bool,
        typer.Option("--measure", help="Time every point that fits on the devices at hand (of the cluster), too."),
    ] = False
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time of the repetitions of one measured point.")] = "10s"

    def rules(self) -> "MeasuringRules":
        """Return how points are measured.

        Raises:
            UsageError: the budget is not a time above 0.
        """
        from capplan.app.sweep.request import MeasuringRules

        return MeasuringRules(budget_s=parse_quantity(self.budget, SECONDS, what="--budget"))
