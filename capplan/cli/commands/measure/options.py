"""The options of `capplan measure`, and the request that they make."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.output import command_line
from capplan.core.batches import parse_batches
from capplan.core.workload import Framework, Layout, Precision
from capplan.errors import UnknownNameError, UsageError
from capplan.units import BYTES, SECONDS, parse_quantity

if TYPE_CHECKING:
    from capplan.app.measure.request import Curve, MeasureRequest
    from capplan.probe.inputs.request import ModelRequest
    from capplan.probe.measure.point import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """How, where and at which batches a model is measured, and what the measurement is compared with."""

    device: Annotated[
        str | None, typer.Option(help="cuda:0, xpu, mps, cpu; by default the first accelerator.", show_default=False)
    ] = None
    batch: Annotated[
        str,
        typer.Option(
            "--batch",
            "-b",
            help="8, 1,8,32, 1..1024 (powers of two), auto (double until it stops paying), or max (find the largest).",
        ),
    ] = "1"
    precision: options.PrecisionOption = None
    framework: options.FrameworkOption = Framework.EAGER
    layout: options.LayoutOption = Layout.NCHW
    warmup: Annotated[
        int | None, typer.Option(min=1, help="Warm-up runs; by default until stable.", show_default=False)
    ] = None
    repetitions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Repetitions; by default 50 or more until the median is known to 1 %.", show_default=False
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Longest time to repeat one point: 10s by default, and no limit with --repetitions alone.",
            show_default=False,
        ),
    ] = None
    flush_l2: Annotated[bool, typer.Option("--flush-l2", help="Displace the L2 cache before each repetition.")] = False
    autotune: Annotated[bool, typer.Option("--autotune", help="Let cuDNN time its algorithms first.")] = False
    search: Annotated[str, typer.Option(metavar="binary|sequential", help="How --batch max searches.")] = "binary"
    max_batch: Annotated[int, typer.Option(min=1, help="Cap of --batch auto and max.")] = 65536
    reserve: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of the available memory that --batch max leaves free.")
    ] = 0.05
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Allocate at most this, such as 4GiB.", show_default=False)
    ] = None
    isolate: Annotated[bool, typer.Option("--isolate", help="Measure each point in a process of its own.")] = False
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="End an isolated point after this.", show_default=False)
    ] = None
    gpu: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The device's GPU spec, if its name is unknown.", show_default=False),
    ] = None
    specs: options.SpecFolders = None
    calibration: Annotated[Path | None, typer.Option(help="Own calibration for the estimates.", show_default=False)] = (
        None
    )
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Profile each batch into this folder: operators, Chrome trace.", show_default=False
        ),
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Skip what the measurement file already holds.")] = False

    def rules(self) -> "Rules":
        """Return the rules of timing.

        Raises:
            UsageError: the budget is not a time above zero.
        """
        from capplan.probe.measure.point import Rules
        from capplan.probe.measure.timing import StopRule, WarmUpRule

        return Rules(
            warm_up=WarmUpRule(runs=self.warmup),
            stop=StopRule(
                repetitions=self.repetitions,
                budget_s=None if self.budget is None else _above_zero(self.budget, SECONDS, what="--budget"),
            ),
            flush_l2=self.flush_l2,
            autotune=self.autotune,
        )

    def curve(self) -> "Curve":
        """Return the batches and how the largest is searched.

        Raises:
            UsageError: the batches break their grammar, or there is no such search.
        """
        from capplan.app.measure.request import Curve
        from capplan.core.measurement.batch_search import Search

        if self.search not in list(Search):
            raise UnknownNameError("search", self.search, list(Search), hint=f"Known: {', '.join(Search)}.")
        return Curve(batches=parse_batches(self.batch), search=Search(self.search), at_most=self.max_batch)

    def request(self, model: "ModelRequest", *, lines: Path | None) -> "MeasureRequest":
        """Return the request to measure a model.

        Args:
            model: the model.
            lines: the measurement file that points are appended to.

        Raises:
            UsageError: a value breaks its grammar.
        """
        from capplan.app.measure.request import MeasureRequest, TheoryRequest

        limit = self.memory_limit
        return MeasureRequest(
            model=model,
            curve=self.curve(),
            rules=self.rules(),
            precision=self.precision or Precision.FP32,
            framework=self.framework,
            layout=self.layout,
            device=self.device,
            allowed_bytes=int(_above_zero(limit, BYTES, what="--memory-limit")) if limit else None,
            reserve_fraction=self.reserve,
            theory=TheoryRequest(gpu=self.gpu, overlays=tuple(self.specs or ()), calibration=self.calibration),
            is_isolated=self.isolate,
            timeout_s=_above_zero(self.timeout, SECONDS, what="--timeout") if self.timeout else None,
            lines=lines,
            resumes=self.resume,
            profile=self.profile,
            command=command_line(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InsteadOptions:
    """What the command does instead of measuring a model's points."""

    methods: Annotated[
        str | None,
        typer.Option(metavar="naive,sync,event", help="Put timing methods side by side.", show_default=False),
    ] = None
    pipeline: Annotated[
        str | None,
        typer.Option(metavar="FILE.py:FUNCTION", help="Time a pipeline's stages instead.", show_default=False),
    ] = None
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A B", help="Compare two measurement files instead.", show_default=False),
    ] = None
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show a measurement file instead, in any --format.", show_default=False),
    ] = None


def _above_zero(words: str, units: Mapping[str, float], *, what: str) -> float:
    value = parse_quantity(words, units, what=what)
    if value <= 0:
        raise UsageError(f"{what} {words!r} must be above zero.")
    return value
