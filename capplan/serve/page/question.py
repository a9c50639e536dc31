"""What the page asks: the state of its form, which is also its address."""

from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from capplan.serve.questions.types import Batch, ModelWords, Name, Names, PlanQuestion, Positive, Words

MOST_MODELS = 4


class PageQuestion(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of the form."""

    models: Annotated[list[ModelWords], Meta(max_length=MOST_MODELS)] = []
    batch: Batch = 32
    precision: Words = ""
    framework: Words = "eager"
    layout: Words = "nchw"
    seq_len: Annotated[int, Meta(ge=1, le=10**7)] | None = None
    max_latency: Words = ""
    load: Positive | None = None
    gpus: Names = []
    providers: Names = []
    max_price: Positive | None = None
    sort: Name = "throughput"
    every: bool = False
    explain: Words = ""

    def plan_of(self, model: str) -> PlanQuestion:
        """Return the plan that is asked of one model.

        Args:
            model: its words.
        """
        return PlanQuestion(
            model=model,
            batches=[self.batch],
            precision=self.precision or None,
            framework=self.framework,
            layout=self.layout,
            seq_len=self.seq_len,
            max_latency_s=self.max_latency or None,
            gpus=self.gpus or None,
            providers=self.providers,
            max_usd_per_hour=self.max_price,
            sort=self.sort,
        )


def address(question: PageQuestion, **changed: Any) -> str:
    """Return the address of a state of the form: what differs from the defaults.

    Args:
        question: the state.
        **changed: fields that are to differ.
    """
    state = msgspec.structs.replace(question, **changed)
    models = [("model", each) for each in state.models]
    return _query([*models, *_changed_pairs(msgspec.structs.replace(state, models=[]))])


def form_address(question: msgspec.Struct, **changed: Any) -> str:
    """Return the address of a state of another form: what differs from the defaults of its type.

    Args:
        question: the state.
        **changed: fields that are to differ.
    """
    return _query(_changed_pairs(msgspec.structs.replace(question, **changed)))


def _changed_pairs(state: msgspec.Struct) -> list[tuple[str, str]]:
    usual = type(state)()
    values = {field.name: getattr(state, field.name) for field in msgspec.structs.fields(state)}
    return [(name, _spelt(value)) for name, value in values.items() if value != getattr(usual, name)]


def _query(pairs: list[tuple[str, str]]) -> str:
    return f"?{urlencode(pairs)}" if pairs else "?"


def _spelt(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
