"""The question of `llm plan`: a load, its limits, and the deployments that are searched."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.core.serving.load import runs_refusal
from capplan.errors import UsageError
from capplan.verbs.llm.fields import (
    MODEL_OPTION,
    SHOWN,
    AdapterFields,
    CardPowerFields,
    ConversationFields,
    FilesHereFields,
    HostCpuFields,
    LanguageModelFields,
    LatencyLimitFields,
    LengthFields,
    LinkFields,
    MeasuredRunFields,
    MoneyFields,
    OffloadFields,
    SearchFields,
    SettingFields,
    SpendFields,
    TaskFields,
)
from capplan.verbs.llm.ways import WaysFields
from capplan.verbs.llm.week import WeekFields
from capplan.verbs.statement.fields import CurrencyFields, DrawFields, LaunchFilesFields, in_answer
from capplan.verbs.statement.options import HERE, After, Door, Option, Topic
from capplan.verbs.statement.words import TIME_LIMIT

if TYPE_CHECKING:
    from capplan.llm.core.fleet.token_load import BatchJob


@dataclass(frozen=True, kw_only=True)
class LlmPlanQuestion(
    LanguageModelFields, AdapterFields, MeasuredRunFields, ConversationFields, LengthFields, TaskFields,
    LatencyLimitFields, SearchFields, OffloadFields, HostCpuFields, SettingFields, LinkFields, MoneyFields, SpendFields,
    CurrencyFields, CardPowerFields, DrawFields, LaunchFilesFields, WeekFields, WaysFields, FilesHereFields,
):  # fmt: skip
    """Which deployments of a language model carry a load within limits, the cheapest first."""

    model: Annotated[str, Meta(max_length=1000), replace(MODEL_OPTION, metavar="[MODEL]")] = ""
    here: Annotated[
        bool,
        Option(
            help="Plan for the GPUs of this machine; without a model, for the largest that they hold.", doors=HERE,
            topic=Topic.GPUS,
        ),
    ] = False  # fmt: skip
    rate_per_s: Annotated[
        float | None, After("measured"),
        Meta(le=1e15),
        Option(
            is_usual=True,
            help="Requests per second to all replicas together.", flags=("--rate",), metavar="PER_S", doors=SHOWN,
            label="Requests per second",
        ),
    ] = None  # fmt: skip
    concurrency: Annotated[
        float | None,
        Meta(le=1e15),
        Option(
            is_usual=True,
            help="Clients that wait for answers, instead of a rate.", flags=("--concurrency", "-c"), metavar="N",
            doors=SHOWN, label="Clients at a time",
        ),
    ] = None  # fmt: skip
    prompts: Annotated[
        int | None,
        Meta(ge=1, le=10**12),
        Option(help="Requests of a job that is done as a whole, instead of a rate; needs ⟨within⟩.", metavar="N"),
    ] = None
    within_s: Annotated[
        float | None,
        Meta(le=1e9),
        Option(
            help="Time until which the job must be done: 8h.", flags=("--within",), metavar="TIME", words=TIME_LIMIT
        ),
    ] = None
    runs_per_year: Annotated[
        float | None,
        Meta(gt=0, le=1e6),
        Option(help="Runs of the job a year, for its cost; 365 by default, or as many as fit into it.", metavar="N"),
    ] = None
    users: Annotated[
        int | None,
        Meta(ge=1, le=10**9),
        Option(help="People who send a request, read the answer and pause, instead of a rate; needs ⟨think-time⟩."),
    ] = None
    think_time_s: Annotated[
        float | None,
        Meta(le=1e9),
        Option(
            help="Pause of a user between an answer and the next request: 30s.",
            flags=("--think-time",),
            metavar="TIME",
            words=TIME_LIMIT,
        ),
    ] = None
    launch: Annotated[
        bool,
        After("plot"),
        Option(help="Show the command that launches a replica, each option explained.", doors=Door.COMMAND | Door.HTTP),
    ] = False
    kubernetes: Annotated[
        Path | None, Option(help="Write a Kubernetes manifest of the fleet.", metavar="FILE.yaml", doors=Door.COMMAND)
    ] = None
    running: Annotated[
        str | None,
        Meta(max_length=200),
        Option(
            help='GPUs that carry the load: "6 x h100-sxm5-80gb", or "6 x l4 at 0.80", your USD for a GPU-hour.',
            metavar="N x GPU", topic=Topic.GPUS,
        ),
    ] = None  # fmt: skip
    everything: Annotated[
        bool,
        in_answer("Show every deployment and every rejection.", "--all", doors=Door.COMMAND | Door.HTTP, is_usual=True),
    ] = False

    def rate(self) -> float | None:
        """Return the requests per second that are stated: themselves, or the most that users can send. [1/s]"""
        if (self.users is None) != (self.think_time_s is None):
            raise UsageError("people need both ⟨users⟩ and ⟨think-time⟩, such as 200 and 30s.")
        if self.users is None or self.think_time_s is None:
            return self.rate_per_s
        if any(item is not None for item in (self.rate_per_s, self.concurrency, self.prompts)):
            raise UsageError("⟨users⟩ states the load; leave out ⟨rate⟩, ⟨concurrency⟩ and ⟨prompts⟩.")
        return self.users / self.think_time_s

    def users_note(self) -> tuple[str, ...]:
        """Return what is assumed of users, in a sentence; nothing without them."""
        if self.users is None or self.think_time_s is None:
            return ()
        return (
            f"{self.users:,} users who pause {self.think_time_s:g} s send at most {self.users / self.think_time_s:.3g} "
            "requests/s (users ÷ pause), as if answers took no time; slower answers make them send less",
        )

    def job(self) -> "BatchJob | None":
        """Return the job; None for a load that goes on."""
        from capplan.llm.core.fleet.token_load import BatchJob

        if (self.prompts is None) != (self.within_s is None):
            raise UsageError("a job needs both ⟨prompts⟩ and ⟨within⟩, such as 100000 and 8h.")
        if self.prompts is None or self.within_s is None:
            if self.runs_per_year is not None:
                raise UsageError("⟨runs-per-year⟩ is of a job: state ⟨prompts⟩ and ⟨within⟩, too.")
            return None
        if self.runs_per_year is not None and (refusal := runs_refusal(self.runs_per_year, self.within_s)):
            raise UsageError(f"⟨runs-per-year⟩: {refusal}.")
        if self.rate_per_s is not None or self.concurrency is not None:
            raise UsageError("⟨prompts⟩ states the load as a job; leave out ⟨rate⟩ and ⟨concurrency⟩.")
        return BatchJob(prompts=self.prompts, within_s=self.within_s, stated_runs_per_year=self.runs_per_year)

    def running_gpus(self) -> tuple[int, str, float | None]:
        """Return how many GPUs carry the load now, their name, and what one costs an hour where it is stated."""
        from capplan.llm.core.fleet.replan import RUNNING

        found = RUNNING.fullmatch(self.running or "")
        if found is None or not int(found[1]):
            words = f'is a number and a GPU, "6 x h100-sxm5-80gb", or "6 x l4 at 0.80" USD/h, not {self.running!r}'
            raise UsageError(f"⟨running⟩ {words}.")
        return int(found[1]), found[2], float(found[3]) if found[3] else None
