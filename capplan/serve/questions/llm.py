"""The form about served language models."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from capplan.serve.questions.types import Name, Positive, Words
from capplan.verbs.llm.fields import Degree, DeploymentFields, MeanLengthFields, SearchFields, Tokens

LlmName = Annotated[
    str, Meta(max_length=100, description="A name of `capplan llm models`.", examples=["llama-3.1-8b-instruct"])
]


class LlmPageQuestion(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of the form about serving: times of a replica on GPUs, or deployments that carry a load."""

    find: Literal["times", "deployments"] = "times"
    model: LlmName = ""
    gpus: Annotated[list[Name], Meta(max_length=16)] = []
    weights: Words = ""
    kv: Words = ""
    tp: Degree = DeploymentFields.tp
    engine: Words = DeploymentFields.engine
    input_len: Tokens = MeanLengthFields.input_len
    output_len: Tokens = MeanLengthFields.output_len
    rate: Positive | None = None
    clients: Positive | None = None
    max_ttft: Words = ""
    max_tpot: Words = ""
    percentile: Words = "mean"
    redundancy: Annotated[int, Meta(ge=0, le=1000)] = SearchFields.redundancy
    explain: Words = ""
