"""Turn what a load file of language-model serving states into the question that the search answers."""

from collections.abc import Sequence

from capplan.llm.answer.rents import searched_gpus
from capplan.llm.core.fleet.rented import RentedGpu
from capplan.llm.core.search.search import DEFAULT_ENGINES, PlanQuestion
from capplan.llm.read.load_file import ServingLoadFile
from capplan.specs import Gpus


def question_of(
    model: str,
    asked: ServingLoadFile,
    *,
    gpus: Gpus,
    rents: dict[str, tuple[RentedGpu, ...]],
    named: Sequence[str] = (),
) -> PlanQuestion:
    """Return the question of one model under the load of a file.

    Args:
        model: The words that name the model.
        asked: What the file states; what it leaves out takes the defaults of `capplan llm plan`.
        gpus: The database.
        rents: The on-demand offers of GPUs, by id.
        named: GPUs to consider instead of the file's.

    Raises:
        UnknownNameError: A GPU is not known.
    """
    names = named or asked.gpus
    return PlanQuestion(
        model=model,
        load=asked.load,
        limits=asked.limits,
        certainty_fraction=asked.certainty_fraction,
        gpus=tuple(gpus.find(name).id for name in names) if names else searched_gpus(gpus, rents),
        engines=asked.engines or DEFAULT_ENGINES,
        weights=asked.weights or ("",),
        kv=asked.kv,
        choice=asked.choice,
        batch_limits=asked.batch_limits or (0,),
        redundancy=asked.redundancy,
        rents=rents,
        adapters=asked.adapters,
        sampling=asked.sampling,
        utilization_fraction=asked.utilization_fraction,
    )
