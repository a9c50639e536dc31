"""`load`: what a service that runs is asked for, from its metrics or its logs, as a load file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb, laid_out_by
from capplan.verbs.statement.options import HERE, Option, Topic
from capplan.verbs.statement.words import TIME_LIMIT

if TYPE_CHECKING:
    from capplan.core.serving.observed import ObservedLoad

TOKEN_VARIABLE = "PROMETHEUS_TOKEN"
"""The environment variable with the bearer token of a Prometheus server."""


@dataclass(frozen=True, kw_only=True)
class LoadQuestion:
    """What a service that runs is asked for."""

    from_logs: Annotated[
        tuple[Path, ...],
        Meta(max_length=10_000),
        Option(
            help="A request log, plain or gzip: JSON lines with OpenAI's usage, LiteLLM payloads, nginx (combined) or "
            "Envoy access logs, traces of Azure or BurstGPT; repeatable.",
            metavar="FILE", topic=Topic.MODEL, doors=HERE,
        ),
    ] = ()  # fmt: skip
    from_prometheus: Annotated[
        str | None,
        Meta(max_length=1000),
        Option(
            help="Address of a Prometheus server that reads vLLM, SGLang, TGI, TensorRT-LLM or Triton.", metavar="URL",
            topic=Topic.MODEL, doors=HERE,
        ),
    ] = None  # fmt: skip
    range_s: Annotated[
        float,
        Meta(ge=300, le=3 * 366 * 86400),
        Option(
            help="Of Prometheus, the window that ends now: 14d.", flags=("--range",), metavar="TIME", words=TIME_LIMIT,
            topic=Topic.MODEL, shows_default=True, doors=HERE,
        ),
    ] = 14 * 86400.0  # fmt: skip
    where: Annotated[
        str,
        Meta(max_length=1000),
        Option(help='Of Prometheus, only series with these labels: model_name="a",namespace="b".', doors=HERE),
    ] = ""
    path: Annotated[
        str,
        Meta(max_length=1000),
        Option(help="Of access logs, only requests whose path begins so: /v1/chat.", metavar="PATH", doors=HERE),
    ] = ""
    max_latency_s: Annotated[
        float | None,
        Option(
            help="Limit of a request that the load file states for `capplan report`; by default its p95 as it is.",
            flags=("--max-latency",), metavar="TIME", words=TIME_LIMIT, topic=Topic.LIMITS, doors=HERE,
        ),
    ] = None  # fmt: skip


def answer_load(question: LoadQuestion, context: Context) -> "ObservedLoad":
    """Return what a service was asked for in a window, and how it answered."""
    if bool(question.from_logs) == bool(question.from_prometheus):
        raise UsageError("state the source by one of ⟨from-logs⟩ FILE and ⟨from-prometheus⟩ URL.")
    if question.path and question.from_prometheus:
        raise UsageError("⟨path⟩ selects requests of access logs; leave it out with ⟨from-prometheus⟩.")
    if question.where and question.from_logs:
        raise UsageError("⟨where⟩ selects series of Prometheus; leave it out with ⟨from-logs⟩.")
    if question.from_logs:
        from capplan.app.observed.logs import read_logs

        return read_logs(question.from_logs, path=question.path, feedback=context.feedback)
    import os

    from capplan.app.observed.prometheus import PrometheusServer, read_prometheus
    from capplan.clock import now

    server = PrometheusServer(url=question.from_prometheus or "", token=os.environ.get(TOKEN_VARIABLE, ""))
    return read_prometheus(
        server, end_s=now().timestamp(), range_s=question.range_s, where=question.where, feedback=context.feedback
    )


def _yaml(answers: "Sequence[ObservedLoad]", question: LoadQuestion) -> str:
    from capplan.app.observed.load_file import load_file_text

    return load_file_text(answers[0], latency_s=question.max_latency_s, percentile=95.0)


LOAD = Verb(
    path="load",
    question=LoadQuestion,
    summary="Read what a running service is asked for from its logs or metrics, and write it as a load file.\n\n"
    "With -o LOAD.yaml the file is one that `llm plan`, `llm simulate`, `llm report` and `report` take. Prompts and "
    "answers in logs are not read. A bearer token for Prometheus is taken from PROMETHEUS_TOKEN.",
    examples=(
        "capplan load --from-logs access.jsonl.gz -o LOAD.yaml",
        "capplan load --from-prometheus http://localhost:9090 --range 14d -o LOAD.yaml",
    ),
    answer=answer_load,
    sections=laid_out_by("capplan.report.text.observed:observed_sections"),
    document=laid_out_by("capplan.shapes.observed:OBSERVED_LOAD"),
    files_in={"yaml": _yaml},
    outcome=lambda observed: Outcome(
        warnings=tuple(f"capplan: {why.lines:,} lines left out: {why.reason}." for why in observed.broken)
    ),
    is_local=True,
    schema="load",
    effort=Effort.LONG,
    returns="capplan.core.serving.observed:ObservedLoad",
)
