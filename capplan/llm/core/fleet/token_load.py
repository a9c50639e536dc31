"""Types of the load of all replicas of a language model."""

from dataclasses import dataclass, replace
from math import exp, expm1, log, sqrt

from capplan.core.serving.load import fitting_runs
from capplan.errors import UsageError
from capplan.llm.core.serving.asked import ServingTask, Speculation
from capplan.llm.core.serving.service import Demand
from capplan.llm.core.simulation.arrivals import Lengths, Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The images of a request: how many, and the tokens and patches of each.

    The encoder processes `patches` of each image, of which the language model sees `tokens`.
    """

    count: int
    tokens: float
    patches: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A job of `prompts` requests, all known at its start, that must be done within a time. [s]"""

    prompts: int
    within_s: float
    stated_runs_per_year: float | None = None

    @property
    def runs_per_year(self) -> float:
        """Return how often the job is paid for: as stated, else every night or one after another, at least once."""
        return self.stated_runs_per_year or fitting_runs(self.within_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoad(Lengths):
    """Requests per second, or clients that wait for their answers, with mean lengths. [1/s, tokens]

    Attributes:
        rate_per_s: Requests per second to all replicas; None for a closed loop.
        concurrency: Clients of all replicas, each of which sends its next request when it has its answer; None for
            an open load.
        in_bursts: Clients send together, and again when the last of them has its answer.
        gap_scv: Squared variation of the gaps between arrivals: 1 is Poisson, more is burstier.
        speculation: What is drafted; None for nothing.
        task: What the answers are; tasks other than generation have no tokens to decode.
        documents: Documents of one request, each a sequence of `input_len` with the query, where they are ranked.
        images: Images of a request, whose `image_tokens` are part of `input_len`; None for a text model.
        job: A job whose mean rate the load is; None for requests that go on.
        sessions: Conversations whose turns the requests are; what was said before is the prefix of a prompt.
    """

    rate_per_s: float | None = None
    concurrency: float | None = None
    in_bursts: bool = False
    gap_scv: float = 1.0
    speculation: Speculation | None = None
    task: ServingTask = ServingTask.GENERATE
    documents: int = 1
    images: Images | None = None
    job: BatchJob | None = None
    sessions: Sessions | None = None

    @property
    def lengths(self) -> Lengths:
        """Return the lengths of a request with all its documents."""
        return replace(self, input_len=self.input_tokens)

    @property
    def cached_len(self) -> float:
        """Return the tokens that memory holds for a sequence alone: those of a prefix that all share are held once."""
        shared = self.prefix_fraction if self.sessions is None else 0.0
        return self.input_len * (1.0 - shared) * self.documents + self.output_len

    @property
    def prefix_len(self) -> float:
        """Return the tokens of a prompt that are found in the prefix cache. [tokens]"""
        return self.input_len * self.prefix_fraction

    @property
    def input_tokens(self) -> float:
        return self.input_len * self.documents

    def demand(self, capacity: float, *, encoder_s: float = 0.0, loaded_s: float = 0.0) -> Demand:
        return Demand(
            input_len=self.input_len,
            output_len=self.output_len,
            capacity=capacity,
            spread=self.spread,
            prefix_fraction=self.prefix_fraction,
            speculation=self.speculation,
            encoder_s=encoder_s,
            loaded_s=loaded_s,
            prompts=float(self.documents),
        )


def in_conversations(load: TokenLoad, sessions: Sessions) -> TokenLoad:
    """Return a load whose prompts hold all that was said before a message of `input_len` tokens.

    Before turn k of n stand k − 1 messages and answers: (n − 1) / 2 of them in the mean, with a variance of
    (n² − 1) / 12. All but the message is found in the cache, if it is still there.
    """
    if load.prefix_fraction:
        raise UsageError("⟨turns⟩ and ⟨prefix-hits⟩ both state what the prefix cache holds: leave one out.")
    if load.input_cv:
        raise UsageError("⟨turns⟩ states how prompts vary: leave out ⟨input-cv⟩ and ⟨input-p99⟩.")
    said = load.input_len + load.output_len
    mean = load.input_len + said * (sessions.turns - 1) / 2
    return replace(
        load,
        input_len=mean,
        prefix_fraction=1.0 - load.input_len / mean,
        input_cv=said * sqrt((sessions.turns**2 - 1) / 12) / mean,
        spread=0.0,
        sessions=sessions,
    )


_NORMAL_P99 = 2.3263
"""Standard deviations of a normal distribution below which 99 % lie."""


def log_normal_cv(ratio: float) -> float | None:
    """Return the deviation ÷ mean of a log-normal length whose 99th percentile is so many times its mean.

    With the deviation s of its logarithm the ratio is exp(z·s − s²/2). None where no s gives it: below 1, and above
    exp(z²/2) = 14.96.
    """
    if not 1.0 <= ratio <= exp(_NORMAL_P99**2 / 2.0):
        return None
    deviation = _NORMAL_P99 - sqrt(_NORMAL_P99**2 - 2.0 * log(ratio))
    return sqrt(expm1(deviation**2))
