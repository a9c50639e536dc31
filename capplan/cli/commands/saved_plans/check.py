"""`capplan check`: a gate for CI that checks a saved plan against limits."""

from typing import Annotated

import typer

from capplan.app.documents import read_json
from capplan.cli import options
from capplan.cli.output import Format, JsonOption, emit, laid_out, to_json
from capplan.errors import UsageError
from capplan.units import SECONDS, parse_quantity


def check(
    plan: Annotated[
        str, typer.Argument(metavar="PLAN.json", help="What `capplan plan --format json` wrote.", show_default=False)
    ],
    gpu: Annotated[
        list[str],
        typer.Option("--gpu", metavar="ID", help="Exact id or alias of a GPU; repeatable.", show_default=False),
    ],
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, help="Batch that the plan holds.", show_default=False)],
    specs: options.SpecFolders = None,
    utilization: Annotated[
        float | None,
        typer.Option(min=0.01, max=1.0, help="Share of usable memory that may be filled.", show_default=False),
    ] = None,
    min_throughput: Annotated[
        float | None, typer.Option(min=0, metavar="SAMPLES/S", help="Samples per second wanted.", show_default=False)
    ] = None,
    max_latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="Latency limit per batch, such as 50ms.", show_default=False)
    ] = None,
    sure: Annotated[
        bool, typer.Option("--sure", help="Compare the bad end of every interval, not the expected value.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Check a saved plan against limits: exit 0 if it keeps all of them, 1 if it breaks one.

    Examples:

      capplan check plan.json --gpu l4 --batch 32 --utilization 0.8 --min-throughput 500

      capplan check plan.json --gpu l4 --gpu t4 --batch 8 --max-latency 50ms --sure
    """
    from capplan.report.documents.gate import Gate, check_document, check_plan
    from capplan.report.documents.plan import read_plan
    from capplan.report.text.saved_plans import outcome_sections
    from capplan.specs import load_gpus

    gate = Gate(
        utilization_fraction=utilization,
        min_throughput_per_s=min_throughput,
        max_latency_s=parse_quantity(max_latency, SECONDS, what="--max-latency") if max_latency else None,
        is_sure=sure,
    )
    known = load_gpus(overlays=specs or ())
    document = read_json(plan)
    documents = document if isinstance(document, list) else [document]
    if not documents:
        raise UsageError(f"{plan}: holds no plan.")
    outcomes = [
        outcome
        for each in documents
        for found in map(known.find, gpu)
        for outcome in check_plan(read_plan(each, where=plan), found, batch=batch, gate=gate, where=plan)
    ]
    kept = all(outcome.is_kept for outcome in outcomes)
    if json_:
        emit(to_json(check_document(outcomes)), output=None)
    else:
        emit(laid_out(outcome_sections(outcomes), Format.TABLE, output=None), output=None)
    if not kept:
        raise typer.Exit(1)
