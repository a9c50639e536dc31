"""The charts of the report on LLM serving as SVG: front, times over load, and memory by GPU."""

from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan, load_front
from capplan.llm.core.fleet.serving_report import ServingReport
from capplan.report.charts.picture import vector
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.text.llm.plan import shared_words
from capplan.report.text.llm.simulation import simulation_chart

_MOST_CURVES = 5


def front_svg(plan: DeploymentPlan) -> str:
    """Draw output tokens per second per GPU against per user, for the best deployments and the front of all."""
    shown: dict[tuple[str, str], DeploymentFit] = {}
    for fit in plan.fits:
        shown.setdefault((fit.gpu, fit.weights), fit)
    series = [
        Series(label=f"{fit.gpu}, {shared_words(fit.sharding)}, {fit.weights}", points=_curve(fit))
        for fit in list(shown.values())[:_MOST_CURVES]
    ]
    best = [(point.per_user, point.per_gpu) for point in load_front(plan.fits)]
    drawn = series_chart(
        [*series, Series(label="front of all deployments", points=best, has_dots=False)],
        title="Throughput of a GPU against speed for a user",
        axes=Axes(x_title="output tokens per second and user", y_title="output tokens per second and GPU"),
    )
    return vector(drawn)


def _curve(fit: DeploymentFit) -> list[tuple[float, float]]:
    each = fit.sharding.gpus
    return [(1 / point.tpot_s, point.rate_per_s * fit.output_len / each) for point in fit.curve]


def times_svg(report: ServingReport) -> str | None:
    """Draw TTFT and TPOT with their limits over the load of one replica; None where nothing fits."""
    return vector(simulation_chart(report.simulation)) if report.simulation is not None else None
