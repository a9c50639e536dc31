"""Questions about served language models, as msgspec types."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from capplan.serve.questions.types import Batches, Name, Names, Positive, Share, Words

Degree = Annotated[int, Meta(ge=1, le=4096)]
Tokens = Annotated[int, Meta(ge=1, le=10**8)]
LlmName = Annotated[
    str, Meta(max_length=100, description="A name of `capplan llm models`.", examples=["llama-3.1-8b-instruct"])
]


class Deployed(Struct, kw_only=True, forbid_unknown_fields=True):
    """A language model on GPUs, shared out among them, in number formats, by an engine."""

    model: LlmName
    gpu: Name
    weights: Words | None = None
    kv: Words | None = None
    tp: Degree = 1
    pp: Degree = 1
    ep: Degree = 1
    dp: Degree = 1
    engine: Words = "vllm"
    engine_version: Words | None = None


class LlmMemoryQuestion(Deployed, kw_only=True, forbid_unknown_fields=True):
    """How a GPU's memory is divided among weights, activations and the KV cache, and what fits."""

    max_len: Tokens | None = None
    utilization_fraction: Share | None = None
    max_num_batched_tokens: Tokens | None = None
    max_num_seqs: Tokens | None = None


class LlmEstimateQuestion(Deployed, kw_only=True, forbid_unknown_fields=True):
    """Time to first token, time per output token and tokens per second over concurrency."""

    concurrency: Batches = "1..256"
    input_len: Tokens = 1024
    output_len: Tokens = 256


class LlmPlanQuestion(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which deployments of a language model carry a load within limits, the cheapest first."""

    model: LlmName
    rate: Positive | None = None
    concurrency: Positive | None = None
    input_len: Tokens = 1024
    output_len: Tokens = 256
    max_ttft: Words | None = None
    max_tpot: Words | None = None
    max_e2e: Words | None = None
    percentile: Words = "mean"
    gpus: Annotated[list[Name], Meta(max_length=16)] = []
    engines: Names = []
    weights: Annotated[list[Words], Meta(max_length=8)] = []
    kv: Words | None = None
    tp: Annotated[list[Degree], Meta(max_length=8)] = []
    pp: Annotated[list[Degree], Meta(max_length=8)] = []
    ep: Annotated[list[Degree], Meta(max_length=8)] = []
    dp: Annotated[list[Degree], Meta(max_length=8)] = []
    redundancy: Annotated[int, Meta(ge=0, le=1000)] = 0


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
