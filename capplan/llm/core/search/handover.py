"""The command that starts one replica of a deployment."""

from math import ceil, exp, log1p, sqrt

from capplan.core.engine_names import find_engine
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.launch import Launch, Setting, launch
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.quantisation import half_note
from capplan.llm.core.search.search import Search

_ROUNDING = 256
_TAIL = 3.09
"""Standard deviations of a normal distribution below which 99.9 % lie."""


def launch_of(fit: DeploymentFit, search: Search) -> Launch:
    """Return the command that starts one replica of a deployment."""
    model, load, engine = search.model, search.question.load, find_engine(fit.engine)
    longest = model.architecture.max_positions
    wanted = ceil(longest_request(load) / _ROUNDING) * _ROUNDING
    budget = search.service(search.find(search.words_of(fit))).scheduling.token_budget
    return launch(
        Setting(
            engine=engine,
            model=model.hf_id or model.architecture.name,
            sharding=fit.sharding,
            weights=fit.weights,
            is_own_format=model.own_quantisation.format.name == fit.weights,
            kv=fit.kv,
            max_len=min(wanted, longest or wanted),
            max_sequences=fit.batch_limit,
            token_budget=int(budget),
            memory_fraction=search.question.utilization_fraction or search.memory.support.facts(engine, None).fraction,
            prefix_fraction=load.prefix_fraction,
            speculation=load.speculation,
            adapters=search.question.adapters,
            is_half=half_note(search.find_gpu(fit.gpu), fit.weights, fit.kv) is not None,
        )
    )


def longest_request(load: TokenLoad) -> float:
    """Return the tokens of a request that 99.9 % of the requests stay below, prompt and answer together."""
    parts = ((load.input_len, load.input_cv), (load.output_len, load.output_cv))
    return sum(mean * (_log_normal_tail(cv) if cv else 1.0 + load.spread) for mean, cv in parts)


def _log_normal_tail(cv: float) -> float:
    deviation = sqrt(log1p(cv * cv))
    return exp(_TAIL * deviation - deviation * deviation / 2.0)
