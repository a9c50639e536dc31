"""What may be asked of a sweep's results."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from capplan.verbs.statement.options import Door, Option


def _field(help_: str) -> Option:
    return Option(help=help_, doors=Door.HTTP)


@dataclass(frozen=True, kw_only=True)
class ResultsQuestion:
    """Canned questions to the results of a sweep, for models, GPUs and workloads whose names hold some letters."""

    ask: Annotated[
        Literal["cheapest", "fastest", "quickest", "fits", "failures"], _field("Which canned question is asked.")
    ] = "cheapest"
    model: Annotated[str, Meta(max_length=100), _field("Letters of models' names.")] = ""
    gpu: Annotated[str, Meta(max_length=100), _field("Letters of GPUs' ids.")] = ""
    workload: Annotated[str, Meta(max_length=100), _field("Letters of workloads' names.")] = ""
    limit: Annotated[int, Meta(ge=1, le=5000), _field("Rows at most.")] = 200
