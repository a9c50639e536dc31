"""The command that starts one replica of a deployment."""

from math import ceil, exp, log1p, sqrt

from capplan.core.engine_names import find_engine
from capplan.core.gpus.machines import host_architecture
from capplan.llm.core.deployment import ServingDeployment
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.launch import EngineForms, Launch, Setting, launch
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import half_note
from capplan.llm.core.search.search import Search

_ROUNDING = 256
_TAIL = 3.09
"""Standard deviations of a normal distribution below which 99.9 % lie."""
CHAT_TAIL = 4.61
"""How many times the mean 99.9 % of real chats stay below, prompt and answer together: the 19,366 conversations of
Azure's trace of November 2023 (github.com/Azure/AzurePublicDataset at b469a11, read 2026-11-27), counted by
`benchmarks/chat_lengths.py`."""


def launch_of(fit: DeploymentFit, search: Search, forms: EngineForms) -> Launch:
    model, load, engine = search.model, search.question.load, find_engine(fit.engine)
    deployment = search.find(search.words_of(fit))
    own = model.own_quantisation.format.name == fit.weights
    stored = None if own else search.checkpoint(fit.weights)
    most, rotary = model.architecture.max_positions, model.architecture.rotary
    is_stated = bool(load.input_cv or load.output_cv or search.question.states_spread)
    tail = longest_request(load, is_stated=is_stated)
    if search.question.own_gpus is not None and not is_stated:  # whoever sits at the machine may use all that fits
        tail, is_stated = max(tail, float(most or tail)), True
    max_len, why = _longest_served(deployment, tail, is_stated=is_stated, most=most)
    gpu = search.find_gpu(fit.gpu)
    return launch(
        Setting(
            engine=engine,
            model=stored or _repository(model),
            sharding=fit.sharding,
            weights=fit.weights,
            is_own_format=own or stored is not None,
            kv=fit.kv,
            max_len=max_len,
            length_why=why,
            assumes_length=not is_stated,
            planned_len=min(max_len, ceil(load.cached_len * (1.0 + load.spread))),
            max_sequences=fit.batch_limit,
            token_budget=int(search.service(deployment).scheduling.token_budget),
            memory_fraction=search.question.utilization_fraction or search.memory.support.facts(engine, None).fraction,
            prefix_fraction=load.prefix_fraction,
            speculation=load.speculation,
            draft_checkpoint=_repository(search.draft_model) if search.draft_model else "",
            draft_head=search.draft_model.architecture.draft_head if search.draft_model else None,
            adapters=search.question.adapters,
            is_half=half_note(gpu, fit.weights, fit.kv) is not None,
            servers=fit.servers_per_replica,
            has_own_head=model.architecture.draft_layers > 0,
            own_code=model.architecture.own_code,
            rotary=rotary if rotary is not None and rotary.factor is not None else None,
            host=host_architecture(gpu),
        ),
        forms,
    )


def _repository(model: LanguageModel) -> str:
    return model.hf_id or model.architecture.name


def _longest_served(
    deployment: ServingDeployment, tail: float, *, is_stated: bool, most: int | None
) -> tuple[int, str]:
    """Return the tokens at which requests are cut off, and why: the longest of a load, of the model, or that fit."""
    wanted = ceil(tail / _ROUNDING) * _ROUNDING
    assumed = f"99.9 % of chats are shorter than {CHAT_TAIL:g} × their mean (Azure, 2023)"
    why = "99.9 % of requests of the stated lengths are shorter" if is_stated else assumed
    found = (wanted, why)
    if most is not None and most < wanted:
        found = (most, "the longest sequence that the model handles")
    if deployment.sequences_that_fit(found[0]) < 1:
        # The longest sequence of which one fits in memory, in whole rounds. [tokens]
        low, high = 1, found[0] // _ROUNDING
        while low < high:
            middle = (low + high + 1) // 2
            fits = deployment.sequences_that_fit(middle * _ROUNDING) >= 1
            low, high = (middle, high) if fits else (low, middle - 1)
        fitting_len = low * _ROUNDING
        found = (
            fitting_len,
            "the longest sequence that fits in memory; longer ones are refused",
        )
    return found


def longest_request(load: TokenLoad, *, is_stated: bool) -> float:
    """Return the tokens of a request that 99.9 % of the requests stay below, prompt and answer together.

    Where nothing is stated of how lengths vary, they vary as those of real chats do.
    """
    if not is_stated:
        return (load.input_len + load.output_len) * CHAT_TAIL
    parts = ((load.input_len, load.input_cv), (load.output_len, load.output_cv))
    deviations = [(mean, sqrt(log1p(cv * cv))) for mean, cv in parts]
    return sum(mean * (exp(_TAIL * sd - sd * sd / 2.0) if sd else 1.0 + load.spread) for mean, sd in deviations)
