"""What a reader waits for, which holds where a load of text states no limits."""

from dataclasses import replace

from capplan.llm.core.fleet.deployment_plan import DeploymentPlan
from capplan.llm.core.fleet.limits import DEFAULT_CERTAINTY, PATIENCE
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.search import SearchSpace
from capplan.llm.core.serving.asked import ServingTask
from capplan.llm.core.simulation.load_answer import LatencyLimits


def is_read_by_people(load: TokenLoad, limits: LatencyLimits) -> bool:
    """Return True if a load is a stream of requests for text without limits, which is held to a reader's patience."""
    is_stream = load.rate_per_s is not None and load.job is None
    return is_stream and load.task == ServingTask.GENERATE and not limits.are_set


def with_patience(question: SearchSpace, *, certainty_fraction: float | None) -> SearchSpace:
    """Return a search with the limits and the certainty that hold where they are not stated."""
    if not is_read_by_people(question.load, question.limits):
        return replace(question, certainty_fraction=certainty_fraction or DEFAULT_CERTAINTY)
    patience = replace(PATIENCE, statistic=question.limits.statistic)
    return replace(question, limits=patience, certainty_fraction=certainty_fraction or 0.5)


def with_patience_note(plan: DeploymentPlan, stated: LatencyLimits, *, words: str) -> DeploymentPlan:
    """Return a plan that says first that a reader's patience was held, where it was."""
    return replace(plan, notes=(words, *plan.notes)) if is_read_by_people(plan.load, stated) else plan
