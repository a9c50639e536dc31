"""The form about served language models."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from capplan.serve.questions.types import Name, Positive, Words

Degree = Annotated[int, Meta(ge=1, le=4096)]
Tokens = Annotated[int, Meta(ge=1, le=10**8)]
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
    tp: Degree = 1
    engine: Words = "vllm"
    input_len: Tokens = 1024
    output_len: Tokens = 256
    rate: Positive | None = None
    clients: Positive | None = None
    max_ttft: Words = ""
    max_tpot: Words = ""
    percentile: Words = "mean"
    redundancy: Annotated[int, Meta(ge=0, le=1000)] = 0
    explain: Words = ""
