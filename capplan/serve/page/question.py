"""What the page asks: the state of its form, which is also its address."""

from typing import Annotated

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
