"""`llm report`: the report on serving a language model under the load of a file."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from capplan.errors import UsageError
from capplan.verbs.llm.fields import FilesHereFields, LanguageModelFields, MeasuredRunFields, names_of
from capplan.verbs.llm.ways import MachineStartFields, StatedWeekFields
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb, report_files
from capplan.verbs.statement.fields import Everything, LoadTree, Name, Title
from capplan.verbs.statement.options import HERE, Option, Topic

if TYPE_CHECKING:
    from capplan.app.procurement.serving import Buyer
    from capplan.core.economics.decide import Answer
    from capplan.llm.core.fleet.money import PlannedFleet, ServingReport
    from capplan.llm.core.search.search import Search
    from capplan.specs.strict_yaml import Tree
    from capplan.verbs.llm.plan_question import LlmPlanQuestion


@dataclass(frozen=True, kw_only=True)
class _BesideLoad(MeasuredRunFields, StatedWeekFields, MachineStartFields, FilesHereFields):
    """What stands beside the load file in a report and in a plan alike."""


@dataclass(frozen=True, kw_only=True)
class LlmReportQuestion(LanguageModelFields, _BesideLoad):
    """Which deployment serves a language model under a load, what it costs, and what changes with the load."""

    load: Annotated[
        Path | None,
        Option(
            help="The load and its limits; keys are options of `capplan llm plan`.", metavar="LOAD.yaml",
            topic=Topic.LIMITS, doors=HERE,
        ),
    ] = None  # fmt: skip
    load_fields: LoadTree = None
    gpus: Annotated[
        tuple[Name, ...],
        Meta(max_length=400),
        Option(
            help="Only this GPU, in the place of those of the load; repeatable.", flags=("--gpu",), metavar="ID",
            topic=Topic.GPUS, completes="gpus",
        ),
    ] = ()  # fmt: skip
    title: Title = None
    everything: Everything = False


def answer_llm_report(question: LlmReportQuestion, context: Context) -> "ServingReport":
    """Return the plan of a load, a replica of it from idle to saturation, and what changes with the load.

    Raises:
        CapplanError: a name is not known, or the load is refused.
    """
    from capplan.clock import today
    from capplan.llm.core.fleet.limits import PATIENCE_FILE_WORDS
    from capplan.llm.core.fleet.money import ServingReport
    from capplan.llm.core.search.plan import with_patience_note
    from capplan.llm.core.search.surroundings import over_load, variations
    from capplan.specs.fitted import load_power_law
    from capplan.verbs.llm.load_file import KEYS, parted, read_load_tree
    from capplan.verbs.llm.plan import search_and_plan, served_case
    from capplan.verbs.statement.file_keys import named_by_keys

    shown, (options, buyers_keys) = str(question.load or "load"), parted(_load_tree(question))
    asked = read_load_tree(options, shown=shown, model=question.model)
    deployments = question.deployments(context)
    deployments.model(context.language_model(question.model))  # refuses an unknown one by its name alone
    named = tuple(deployments.gpus.find(name).id for name in names_of(question.gpus))
    beside = {field.name: getattr(question, field.name) for field in fields(_BesideLoad)}
    buyer = _buyer(buyers_keys, context, shown=shown, specs=question.specs)
    allowed = buyer.admitted.allow
    asked = replace(
        asked, **beside,
        gpus=named or asked.gpus or tuple(sorted(allowed.gpus)),
        providers=asked.providers or tuple(sorted(allowed.providers)),
        regions=asked.regions or tuple(sorted(allowed.regions)),
    )  # fmt: skip
    week = question.week_load() if question.states_week else None
    with named_by_keys(shown, KEYS.values()), context.feedback.progress("working out the report"):
        search, fleet = search_and_plan(asked, context, week=week, buyer=buyer)
        law = search.power_law or load_power_law()
        decided = served_case(fleet.plan, search, asked, context.price_list(asked.specs), law, buyer=buyer).decide()
        fleet = _as_decided(search, fleet, decided, asked, context)
        plan = with_patience_note(fleet.plan, asked.limits(), words=PATIENCE_FILE_WORDS)
        best = plan.recommended
        return ServingReport(
            title=question.title or f"GPUs for serving {plan.model}",
            fleet=replace(fleet, plan=plan),
            decided=decided,
            simulation=over_load(search, best) if best else None,
            variations=tuple(variations(search, plan, best)) if best else (),
            created=today().isoformat(),
            command=context.command(LLM_REPORT, question),
            load_file=shown,
        )


def _as_decided(
    search: "Search", fleet: "PlannedFleet", decided: "Answer", asked: "LlmPlanQuestion", context: Context
) -> "PlannedFleet":
    """Return the fleet whose recommended deployment is the one that was decided on."""
    from capplan.verbs.llm.plan import fleet_of

    choice, plan = decided.recommendation.choice, fleet.plan
    if choice is None or choice.gpu == plan.fits[0].gpu:
        return fleet
    fits = tuple(sorted(plan.fits, key=lambda fit: fit.gpu != choice.gpu))
    made = fleet_of(replace(plan, fits=fits), search, asked, asked.offered(context.price_list(asked.specs)))
    return replace(made, ways=fleet.ways, local=fleet.local)


def _load_tree(question: LlmReportQuestion) -> "Tree":
    """Return what the load file holds."""
    from capplan.specs.strict_yaml import read_yaml

    if question.load_fields is not None:
        return dict(question.load_fields)
    if question.load is not None:
        return read_yaml(question.load)
    raise UsageError("state a load by ⟨load⟩, such as one with rate: 5/s.")


def _buyer(keys: "Tree", context: Context, *, shown: str, specs: Sequence[Path]) -> "Buyer":
    """Return what the keys of a load file admit, with all names checked."""
    from capplan.app.procurement.constraints import resolve
    from capplan.app.procurement.serving import Buyer
    from capplan.verbs.constraints import admitted_by

    given = dict(keys)
    if not isinstance(allow_spot := given.pop("allow_spot", False), bool):
        raise UsageError(f"{shown}: allow_spot: must be true or false, not {allow_spot!r}.")
    admitted = admitted_by(given, shown=shown)
    gpus, prices = context.gpu_database(specs), context.price_list(specs)
    return Buyer(admitted=resolve(admitted, gpus=gpus, prices=prices, named=()), allow_spot=allow_spot)


def _for_service(question: LlmReportQuestion) -> LlmReportQuestion:
    """Replace the name of the file by its content."""
    return question if question.load is None else replace(question, load=None, load_fields=_load_tree(question))


def _written(answers: "Sequence[ServingReport]", question: LlmReportQuestion, *, extension: str) -> str | bytes:
    from capplan.app.procurement.serving import serving_as_report
    from capplan.report.procurement.render import render_report

    report = serving_as_report(answers[0])
    return render_report(report, extension, everything=question.everything, served=answers[0])


LLM_REPORT = Verb(
    path="llm report",
    question=LlmReportQuestion,
    summary="Report which deployment serves a language model under a load: fleet, money, latency over the load, "
    "launch.",
    fails_if="none carries it",
    examples=("capplan llm report llama-3.1-70b-instruct --load LOAD.yaml -o report.html -o report.json",),
    answer=answer_llm_report,
    effort=Effort.LONG,
    files_in=report_files(_written),
    outcome=lambda report: Outcome(exit_code=int(report.decided.refuses_all)),
    for_service=_for_service,
    schema="llm-report",
    returns="capplan.llm.core.fleet.money:ServingReport",
)
