"""Hand a deployment over: the launch command of one replica, from what was planned."""

from math import ceil, exp, log1p, sqrt

from capplan.core.serving_engines import find_engine
from capplan.llm.answer.deployments import Deployments
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.half import half_note
from capplan.llm.core.handover.launch import Launch, Setting, launch
from capplan.llm.core.timing.engine_rules import SCHEDULING

_ROUNDING = 256
_TAIL = 3.09
"""Standard deviations of a normal distribution below which 99.9 % lie."""


def launch_of(fit: DeploymentFit, load: TokenLoad, *, model: str, deployments: Deployments) -> Launch:
    """Return the command that starts one replica of a deployment.

    Args:
        fit: The deployment.
        load: The load that it was planned for.
        model: The model in the user's words.
        deployments: Where models and engines' rules are found.
    """
    found, engine = deployments.model(model), find_engine(fit.engine)
    longest = found.architecture.max_positions
    wanted = ceil(longest_request(load) / _ROUNDING) * _ROUNDING
    budget = SCHEDULING[fit.engine].token_budget
    return launch(
        Setting(
            engine=engine,
            model=found.hf_id or found.architecture.name,
            sharding=fit.sharding,
            weights=fit.weights,
            is_own_format=found.own_quantisation.format.name == fit.weights,
            kv=fit.kv,
            max_len=min(wanted, longest or wanted),
            max_sequences=fit.batch_limit,
            token_budget=int(budget),
            memory_fraction=deployments.memory.find(engine, None).fraction,
            prefix_fraction=load.prefix_fraction,
            speculation=load.speculation,
            is_half=half_note(deployments.gpus.find(fit.gpu), fit.weights, fit.kv) is not None,
        )
    )


def longest_request(load: TokenLoad) -> float:
    """Return the tokens of a request that 99.9 % of the requests stay below, prompt and answer together.

    Args:
        load: The load.
    """
    parts = ((load.input_len, load.input_cv), (load.output_len, load.output_cv))
    return sum(mean * (_log_normal_tail(cv) if cv else 1.0 + load.spread) for mean, cv in parts)


def _log_normal_tail(cv: float) -> float:
    deviation = sqrt(log1p(cv * cv))
    return exp(_TAIL * deviation - deviation * deviation / 2.0)
