"""What may be asked of a sweep's results."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class ResultsQuestion(Struct, kw_only=True, forbid_unknown_fields=True):
    """Canned questions to the results of a sweep, for models, GPUs and workloads whose names hold some letters."""

    ask: Literal["cheapest", "fastest", "quickest", "fits", "failures"] = "cheapest"
    model: Annotated[str, Meta(max_length=100)] = ""
    gpu: Annotated[str, Meta(max_length=100)] = ""
    workload: Annotated[str, Meta(max_length=100)] = ""
    limit: Annotated[int, Meta(ge=1, le=5000)] = 200
