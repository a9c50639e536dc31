"""Turn a measured serving run into the case that predicts it."""

from capplan.llm.core.deployment import ServingDeployment
from capplan.llm.core.serving.asked import MOST_CLIENTS
from capplan.llm.core.serving.cases import Case
from capplan.llm.core.serving.runs import MeasuredRun


def case_of_run(run: MeasuredRun, deployment: ServingDeployment) -> Case:
    """Return what a run asked of its deployment.

    Where no request of the run's length fits by the defaults, memory sets no limit: the run did take place, so that
    its settings must have left more room.
    """
    capacity = deployment.sequences_that_fit(run.input_len + run.output_len)
    return Case(
        kernels=deployment.kernels,
        machine=deployment.machine,
        engine=deployment.engine,
        demand=run.demand(capacity=capacity if capacity >= 1 else MOST_CLIENTS),
        serving=run.serving,
        clients=run.clients or 1.0,
        rate_per_s=run.rate_per_s or 0.0,
        replicas=run.replicas,
    )
