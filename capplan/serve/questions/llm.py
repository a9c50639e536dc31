"""The form about served language models."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from capplan.verbs.llm.fields import Degree, DeploymentFields, MeanLengthFields, SearchFields, Tokens
from capplan.verbs.statement.fields import Name
from capplan.verbs.statement.options import Door, Option

_FORM = Option(doors=Door.HTTP)
_Words = Annotated[str, Meta(max_length=200), _FORM]
_Amount = Annotated[float | None, Meta(ge=0.0, le=1e15), _FORM]


@dataclass(frozen=True, kw_only=True)
class LlmPageQuestion:
    """The fields of the form about serving: times of a replica on GPUs, or deployments that carry a load."""

    find: Annotated[Literal["times", "deployments"], _FORM] = "times"
    model: Annotated[str, Meta(max_length=100), _FORM] = ""
    gpus: Annotated[tuple[Name, ...], Meta(max_length=16), _FORM] = ()
    weights: _Words = ""
    kv: _Words = ""
    tp: Annotated[Degree, _FORM] = DeploymentFields.tp
    engine: _Words = DeploymentFields.engine
    input_len: Annotated[Tokens, _FORM] = MeanLengthFields.input_len
    output_len: Annotated[Tokens, _FORM] = MeanLengthFields.output_len
    rate: _Amount = None
    clients: _Amount = None
    max_ttft: _Words = ""
    max_tpot: _Words = ""
    percentile: _Words = "mean"
    redundancy: Annotated[int, Meta(ge=0, le=1000), _FORM] = SearchFields.redundancy
    explain: _Words = ""
