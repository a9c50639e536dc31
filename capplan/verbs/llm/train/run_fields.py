"""The parts of questions about a whole run: its tokens, failures and storage."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.llm.core.training.run import GPU_HOURS_BETWEEN_FAILURES
from capplan.verbs.statement.options import Option, Topic
from capplan.verbs.statement.words import COUNT, LENGTHS, RATE, TIME

if TYPE_CHECKING:
    from capplan.llm.core.training.plan import RunTerms


@dataclass(frozen=True, kw_only=True)
class RunFields:
    """What a run trains on, and how often it is interrupted."""

    tokens: Annotated[
        float | None,
        Meta(gt=0, le=1e18),
        Option(help="Tokens of the data set, such as 2T or 10G.", metavar="COUNT", words=COUNT, topic=Topic.WORKLOAD),
    ] = None
    samples: Annotated[
        float | None,
        Meta(gt=0, le=1e15),
        Option(help="Samples of the data set instead of tokens.", metavar="COUNT", words=COUNT, topic=Topic.WORKLOAD),
    ] = None
    mean_len: Annotated[
        float | None,
        Meta(gt=0, le=1e8),
        Option(help="Mean tokens of a sample; whole sequences by default.", topic=Topic.WORKLOAD),
    ] = None
    lengths: Annotated[
        tuple[int, ...],
        Option(
            help="Tokens of samples that are equally frequent, such as quantiles, instead of their mean: 60,350,1500.",
            metavar="TOKENS", words=LENGTHS, topic=Topic.WORKLOAD,
        ),
    ] = ()  # fmt: skip
    epochs: Annotated[
        float,
        Meta(gt=0, le=10**6),
        Option(help="Passes over the data set.", topic=Topic.WORKLOAD, shows_default=True),
    ] = 1.0
    padded: Annotated[
        bool,
        Option(
            help="Samples are padded to sequences, or to the longest of a batch with --lengths, instead of packed.",
            topic=Topic.WORKLOAD,
        ),
    ] = False
    failure_hours: Annotated[
        float,
        Meta(gt=0, le=1e12),
        Option(help="GPU hours between failures; Llama 3's report by default.", shows_default=True),
    ] = GPU_HOURS_BETWEEN_FAILURES
    storage_bytes_per_s: Annotated[
        float,
        Meta(gt=0, le=1e18),
        Option(
            help="Bandwidth at which a checkpoint is written, of the whole job.", flags=("--storage",), metavar="RATE",
            words=RATE,
        ),
    ] = 10e9  # fmt: skip
    restart_s: Annotated[
        float,
        Meta(ge=0, le=1e7),
        Option(help="Time to start again after a failure.", flags=("--restart",), metavar="TIME", words=TIME),
    ] = 900.0
    spot_per_hour: Annotated[
        float,
        Meta(ge=0, le=1000),
        Option(help="Interruptions of one spot server per hour.", shows_default=True),
    ] = 0.0

    def terms(self) -> "RunTerms":
        """Return what the run is made of.

        Raises:
            UsageError: the data set is stated twice, or in part.
        """
        from capplan.llm.core.training.plan import RunTerms
        from capplan.llm.core.training.run import Dataset, RunReliability

        if self.tokens is not None and self.samples is not None:
            raise UsageError("--tokens and --samples both state the data set; give one.")
        if self.samples is None and (self.mean_len is not None or self.lengths or self.padded):
            raise UsageError("--mean-len, --lengths and --padded describe samples; add --samples.")
        if self.mean_len is not None and self.lengths:
            raise UsageError("--mean-len and --lengths both state how long samples are; give one.")
        return RunTerms(
            dataset=Dataset(
                tokens=self.tokens,
                samples=self.samples,
                mean_tokens=self.mean_len,
                lengths=tuple(sorted(self.lengths)),
                epochs=self.epochs,
                is_packed=not self.padded,
            ),
            reliability=RunReliability(
                hours_between_failures=self.failure_hours,
                storage_bytes_per_s=self.storage_bytes_per_s,
                restart_s=self.restart_s,
                spot_interruptions_per_hour=self.spot_per_hour,
            ),
        )
